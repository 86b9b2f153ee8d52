"""Kernels of random networks, by drawing them: for networks that have no closed form.

    NNGP   K(x, x′) ≈ (1/M) Σ_draws (1/k) Σ_a f_a(x) f_a(x′)
    NTK    Θ(x, x′) ≈ (1/M) Σ_draws (1/k) Σ_a ⟨∂f_a(x)/∂w, ∂f_a(x′)/∂w⟩

Each comes with the standard error of its mean over the M draws. At width n the mean differs from
the limit of infinite width by O(1/n), which no number of draws removes.

Source: golikov · ntk-mc · 2.4.3.
"""

from collections.abc import Callable
from functools import partial

import jax
from jaxtyping import Array, Key

from theorylab.answers import Answer
from theorylab.models.inputs import check_pair
from theorylab.models.own_network import as_static, check_one_by_one
from theorylab.typing import Apply, Inputs, Params, RandomKey

from .estimate import Estimate, estimate, no_draws, with_draw
from .finite import NTKMethod, ntk


class SampledKernels(Answer, axes=("row", "column")):
    """The two kernels of random networks, each with its standard error.

    Example:
        >>> import jax.numpy as jnp
        >>> certain = Estimate(mean=jnp.eye(2), error=jnp.zeros((2, 2)))
        >>> SampledKernels(nngp=certain, ntk=certain).ntk.mean.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    nngp: Estimate
    ntk: Estimate


def sampled_kernels(
    init: Callable[[RandomKey], Params],
    apply: Apply,
    x1: Inputs,
    x2: Inputs | None,
    num_samples: int,
    key: RandomKey,
    method: NTKMethod = "structured",
) -> SampledKernels:
    """Average the kernels of random networks; memory is that of one network and a few kernels.

    Args:
        init: Draws parameters: key ─► params, such as `model.init`.
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k), such as `model.apply`.
        x1: The inputs x.
        x2: The inputs x′; None: the same as x.
        num_samples: M, how many networks are drawn.
        key: The randomness of the draws.
        method: How the tangent kernel of each is computed, see `ntk`.

    Example:
        >>> import jax.numpy as jnp
        >>> init = lambda key: jax.random.normal(key, (2, 1))
        >>> x = jnp.array([[1.0, 2.0]])
        >>> kernels = sampled_kernels(init, lambda w, x: x @ w, x, None, 100, jax.random.key(0))
        >>> float(kernels.ntk.mean[0, 0]), float(kernels.ntk.error[0, 0])
        (5.0, 0.0)
        >>> bool(abs(kernels.nngp.mean - 5.0)[0, 0] < 3 * kernels.nngp.error[0, 0])
        True
    """
    check_pair(x1, x2)
    if num_samples < 1:
        raise ValueError(f"num_samples must be at least 1, got {num_samples}.")
    apply = as_static(apply)
    check_one_by_one(apply, jax.jit(init)(key), x1, x2)
    return _sampled(init, apply, x1, x2, jax.random.split(key, num_samples), method)


@partial(jax.jit, static_argnums=(0, 1, 5))
def _sampled(
    init: Callable[[RandomKey], Params],
    apply: Apply,
    x1: Inputs,
    x2: Inputs | None,
    keys: Key[Array, " m"],
    method: NTKMethod,
) -> SampledKernels:
    def draw(key: RandomKey) -> tuple[Array, Array]:
        params = init(key)
        first = apply(params, x1)
        second = first if x2 is None else apply(params, x2)
        tangent = ntk(apply, params, x1, x2, method=method)
        return first @ second.T / first.shape[-1], tangent

    def step(state: tuple, key: RandomKey) -> tuple[tuple, None]:
        return tuple(map(with_draw, state, draw(key))), None

    start = jax.tree.map(no_draws, _zeros(jax.eval_shape(draw, keys[0])))
    state, _ = jax.lax.scan(step, start, keys)
    return SampledKernels(*map(estimate, state))


def _zeros(shapes: tuple[jax.ShapeDtypeStruct, ...]) -> tuple[Array, ...]:
    return jax.tree.map(lambda shape: jax.numpy.zeros(shape.shape, shape.dtype), shapes)
