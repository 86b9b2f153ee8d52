"""What an infinite-width kernel costs: operations for one pair of inputs, counted and not timed.

Without pooling, only positions s = s′ count: operations grow as the number of pixels d; with
pooling all pairs of them do, as d². For m inputs there are m(m + 1)/2 pairs.

Source: golikov · ntk-conv · 2.5.1; golikov · ntk-cost-limits · 2.9.
"""

import jax
import jax.numpy as jnp

from theorylab.models import NTK, Architecture, Parametrization
from theorylab.models.parts import Bias

from .kernels import make_reading
from .reading import InputBatch, NotedInputs, read_alone, read_listed
from .tiles import planned


def pair_operations(
    architecture: Architecture,
    input_shape: tuple[int, ...],
    parametrization: Parametrization = NTK(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    tangent: bool = True,
) -> float:
    """Count the operations on numbers for one pair of inputs, as the program is written.

    Args:
        architecture: What the network is.
        input_shape: The shape of one input.
        parametrization: `NTK(...)` or `Standard(...)`.
        bias: "none", "zero" or "normal".
        tangent: False: for the NNGP alone.

    Example:
        >>> from theorylab.models import mlp
        >>> pair_operations(mlp([1]), (8,)) < pair_operations(mlp([1]), (800,))
        True
    """
    reading = make_reading(architecture, _one(input_shape), parametrization, bias, False, tangent)
    x = jax.ShapeDtypeStruct((1, *input_shape), jnp.float32)
    _, notes = jax.eval_shape(lambda x: read_alone(reading, InputBatch(x)), x)
    side = NotedInputs(x, notes)
    program = jax.jit(lambda one, other: read_listed(reading, one, other)).lower(side, side)
    counts = program.cost_analysis() or {}
    return float(counts.get("flops", 0.0) + counts.get("transcendentals", 0.0))


def computed_pairs(
    architecture: Architecture, input_shape: tuple[int, ...], num_samples: int
) -> int:
    """Count the pairs of inputs that `infinite_kernels` computes for one batch.

    They are those of half a matrix, and what fills up the last tiles.

    Example:
        >>> from theorylab.models import mlp
        >>> computed_pairs(mlp([1]), (8,), 100) - 100  # a single tile, and the diagonal
        10000
    """
    reading = make_reading(architecture, _one(input_shape), NTK(), "none", False, tangent=True)
    plan = planned(reading, num_samples, None, None)
    return num_samples + plan.num_tiles * plan.size ** (2 if plan.crossed else 1)


def _one(input_shape: tuple[int, ...]) -> jax.Array:
    return jnp.zeros((1, *input_shape), jnp.float32)
