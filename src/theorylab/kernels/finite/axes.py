"""Kernels of finite networks with outputs of any shape: which axes are averaged, which are paired.

For outputs f with axes (n, p, …, k), every axis but the first is one of

    averaged    in `mean_axes`: Θ is the mean over a of Θ_aa                     the axis is gone
    diagonal    in `diagonal_axes`: Θ_aa for every a                             once, a
    paired      else: Θ_ab for all pairs                                         twice, a and b

and pairs are interleaved, (n₁, n₂, p, p′, …, k, k′). With the first axis among `diagonal_axes`,
every input is compared with itself only.

    nngp        (1/k) Σ_a f_a(x) f_a(x′)        the covariance of outputs, in one network
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Apply, Params

from ..inputs import input_pair
from .cost import NTKMethod
from .empirical import ntk, ntk_full, ntk_per_output

Axes = int | Sequence[int]


def nngp(
    apply: Apply,
    params: Params,
    x1: Float[Array, "n1 ..."],
    x2: Float[Array, "n2 ..."] | None = None,
    mean_axes: Axes = (-1,),
    diagonal_axes: Axes = (),
) -> Float[Array, "..."]:
    """Σ f(x)f(x′), the NNGP of one network: an average over its outputs, not over networks.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, ..., k).
        params: Its parameters.
        x1: The inputs x.
        x2: The inputs x′; the same as x if not given.
        mean_axes: The axes of outputs that are averaged over.
        diagonal_axes: The axes of which each entry is compared with itself only.

    Example:
        >>> x = jnp.array([[1.0, 2.0]])
        >>> nngp(lambda w, x: x @ w, jnp.ones((2, 1)), x).tolist()
        [[9.0]]
    """
    input_pair(x1, x2)
    first = apply(params, x1)
    second = first if x2 is None else apply(params, x2)
    letters = _letters(_kinds(first.ndim, mean_axes, diagonal_axes), first.shape)
    formula = f"{letters.first},{letters.second}->{letters.result}"
    return jnp.einsum(formula, first, second) / letters.count


def ntk_of_axes(
    apply: Apply,
    params: Params,
    x1: Float[Array, "n1 ..."],
    x2: Float[Array, "n2 ..."] | None = None,
    mean_axes: Axes = (-1,),
    diagonal_axes: Axes = (),
    method: NTKMethod = "auto",
) -> Float[Array, "..."]:
    """The tangent kernel of a network with outputs of any shape; arguments as those of `nngp`.

    Example: three positions, compared in pairs.
        >>> x = jnp.ones((2, 3, 4))
        >>> ntk_of_axes(lambda w, x: x @ w, jnp.ones((4, 1)), x).shape
        (2, 2, 3, 3)
    """
    input_pair(x1, x2)
    shape = jax.eval_shape(apply, params, x1).shape[1:]
    kinds = _kinds(len(shape) + 1, mean_axes, diagonal_axes)
    flat, own = _flattened(apply), kinds[1:]
    if kinds[0] == "diagonal":
        second = x1 if x2 is None else x2
        one_by_one = [(x1[i : i + 1], second[i : i + 1]) for i in range(len(x1))]
        parts = [_all_pairs(flat, params, *pair, shape, own, method)[0] for pair in one_by_one]
        return jnp.concatenate(parts)
    return _all_pairs(flat, params, x1, x2, shape, own, method)


def _all_pairs(
    flat: Apply,
    params: Params,
    x1: Array,
    x2: Array | None,
    shape: tuple[int, ...],
    kinds: tuple[str, ...],
    method: NTKMethod,
) -> Array:
    if set(kinds) <= {"averaged"}:
        return ntk(flat, params, x1, x2, method=method)
    if set(kinds) == {"diagonal"}:
        kernel = ntk_per_output(flat, params, x1, x2, method=method)
        return jnp.moveaxis(kernel, 0, -1).reshape(*kernel.shape[1:], *shape)
    kernel = ntk_full(flat, params, x1, x2, method=method)
    kernel = kernel.reshape(*kernel.shape[:2], *shape, *shape)
    letters = _letters(kinds, shape)
    formula = f"YZ{letters.first}{letters.second}->YZ{letters.result}"
    return jnp.einsum(formula, kernel) / letters.count


class _Letters(NamedTuple):
    """The axes of the outputs at x, at x′ and of the kernel; the size of what is averaged."""

    first: str
    second: str
    result: str
    count: int


def _letters(kinds: tuple[str, ...], shape: tuple[int, ...]) -> _Letters:
    first, second, result, count, free = "", "", "", 1, iter("abcdefghijklmnopqrstuvwxyz")
    for size, kind in zip(shape, kinds, strict=True):
        one = next(free)
        other = next(free) if kind == "paired" else one
        first, second = first + one, second + other
        result += {"paired": one + other, "diagonal": one, "averaged": ""}[kind]
        count *= size if kind == "averaged" else 1
    return _Letters(first, second, result, count)


@lru_cache(maxsize=64)
def _flattened(apply: Apply) -> Callable[[Params, Array], Array]:
    """The network with all its outputs in one axis; the same function for the same network."""

    def flat(params: Params, x: Array) -> Array:
        outputs = apply(params, x)
        return outputs.reshape(outputs.shape[0], math.prod(outputs.shape[1:]))

    return flat


def _kinds(ndim: int, mean_axes: Axes, diagonal_axes: Axes) -> tuple[str, ...]:
    """What is done with every axis of the outputs."""
    kinds = ["paired"] * ndim
    for name, axes in (("averaged", mean_axes), ("diagonal", diagonal_axes)):
        for axis in (axes,) if isinstance(axes, int) else axes:
            if not -ndim <= axis < ndim:
                raise ValueError(f"axes must be those of outputs with {ndim} axes, got {axis}.")
            if kinds[axis] != "paired":
                raise ValueError(f"an axis must be averaged or diagonal, got {axis} as both.")
            kinds[axis] = name
    if kinds[0] == "averaged":
        raise ValueError("mean_axes must not name the axis of samples, 0.")
    return tuple(kinds)
