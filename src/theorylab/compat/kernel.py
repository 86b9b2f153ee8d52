"""What a kernel function gives: a `Kernel`, one array of it by name, or several.

Source: Novak et al. (2020), arXiv:1912.02803.
"""

from collections import namedtuple
from functools import lru_cache
from typing import Any

from jaxtyping import Array, Float

from theorylab.answers import Answer, fixed

Get = str | tuple[str, ...] | None


class Kernel(Answer):
    """The kernels between two batches of inputs, with what there is to know beside.

    Args:
        nngp: The covariance of outputs, (n₁, n₂), and pairs of positions if there are any,
            interleaved; None if it was not asked for.
        ntk: The tangent kernel likewise.
        cov1: The variance of every output of the first batch, (n₁, ...).
        cov2: The variance of every output of the second batch; None if it is the first again.
        shape1: The shape of the outputs of the first batch.
        shape2: The shape of the outputs of the second batch.
        x1_is_x2: Whether the second batch is the first again.

    Example:
        >>> import jax.numpy as jnp
        >>> kernel = Kernel(nngp=jnp.eye(2), ntk=2 * jnp.eye(2), cov1=jnp.ones(2))
        >>> kernel.ntk.tolist(), kernel.replace(ntk=None).ntk
        ([[2.0, 0.0], [0.0, 2.0]], None)
    """

    nngp: Float[Array, "..."] | None = None
    ntk: Float[Array, "..."] | None = None
    cov1: Float[Array, "..."] | None = None
    cov2: Float[Array, "..."] | None = None
    shape1: tuple[int, ...] | None = fixed(default=None)
    shape2: tuple[int, ...] | None = fixed(default=None)
    x1_is_x2: bool = False
    is_reversed: bool = False
    diagonal_batch: bool = True
    diagonal_spatial: bool = False
    batch_axis: int = 0
    channel_axis: int = -1


def names_of(get: Get, every: tuple[str, ...] = ("nngp", "ntk")) -> tuple[str, ...]:
    """The names that are asked for.

    Args:
        get: One name, several, or None for every one.
        every: What None stands for.

    Example:
        >>> names_of("nngp"), names_of(None)
        (('nngp',), ('nngp', 'ntk'))
    """
    if get is None:
        return every
    return (get,) if isinstance(get, str) else tuple(get)


def picked(values: dict[str, Any], get: Get, kind: str) -> Any:
    """Give one value by its name, or several as a named tuple.

    Args:
        values: What there is.
        get: One name, several, or None for all.
        kind: The name of the tuple's type.

    Example:
        >>> values = {"nngp": 1, "ntk": 2}
        >>> picked(values, "ntk", "Kernels"), picked(values, ("nngp",), "Kernels")
        (2, Kernels(nngp=1))
    """
    names = names_of(get, tuple(values))
    unknown = [name for name in names if name not in values]
    if unknown:
        raise ValueError(f"get must name some of {', '.join(values)}, got {unknown[0]!r}.")
    if isinstance(get, str):
        return values[get]
    return _record(kind, names)(*(values[name] for name in names))


@lru_cache
def _record(kind: str, names: tuple[str, ...]) -> type:
    return namedtuple(kind, names)  # type: ignore[misc]
