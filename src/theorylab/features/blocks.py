"""Sums over many inputs, a block of them at a time: memory stays bounded."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike

from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.models.inputs import num_inputs, some_inputs
from theorylab.typing import Inputs

BLOCK_BYTES = 2**25  # of what is made for the inputs of one block
_BLOCK_INPUTS = 256  # of one block at most: the network's own activations take memory too


def block_size_for(
    x: Inputs, per_input: int, block_size: int | None, kind: DTypeLike | None = None
) -> int:
    """How many inputs to take at a time, if each makes so many numbers; or what was asked for.

    Args:
        x: The inputs.
        per_input: How many numbers each makes.
        block_size: What was asked for.
        kind: The type of these numbers; None: that of x.

    Example:
        >>> block_size_for(jnp.ones((5, 2)), per_input=4, block_size=3)
        3
    """
    n = num_inputs(x)
    if block_size is not None:
        return min(block_size, n)
    each = jnp.dtype(jax.tree.leaves(x)[0].dtype if kind is None else kind).itemsize
    held = BLOCK_BYTES // (per_input * each)
    return max(1, min(n, _BLOCK_INPUTS, held))


def sum_over_blocks(term: Callable[[Any, Bool[Array, " b"]], Any], x: Inputs, size: int) -> Any:
    """Σ term(block, counted) over blocks of one size, for any pytree of terms.

    The last block ends with the inputs and so may overlap the one before: `counted` says which of
    its inputs are new.

    Example:
        >>> x = jnp.arange(5.0)[:, None]
        >>> float(sum_over_blocks(lambda block, counted: (block[:, 0] * counted).sum(), x, size=2))
        10.0
    """
    n = num_inputs(x)
    starts = jnp.arange(0, n, size)

    def add(total: Any, start: Array) -> tuple[Any, None]:
        begin = jnp.minimum(start, n - size)
        inputs = some_inputs(x, begin, size)
        new = term(inputs, begin + jnp.arange(size) >= start)
        return jax.tree.map(jnp.add, total, new), None

    like = jax.eval_shape(term, some_inputs(x, 0, size), jnp.ones(size, bool))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
    return fast_convolutions(partial(jax.lax.scan, add))(nothing, starts)[0]
