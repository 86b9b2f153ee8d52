"""Look-ups: embeddings, gathers, scatters, indices of several axes at once."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from .table import level, operation


@operation("aten.embedding.default")
def _embedding(weight: Any, ids: Any, padding: int = -1, *_: Any) -> Any:
    """No derivative goes to the row of the padding."""
    rows = weight[ids]
    if padding < 0:
        return rows
    return jnp.where((ids == padding)[..., None], lax.stop_gradient(rows), rows)


@operation("aten.index.Tensor")
def _index(x: Any, places: Sequence[Any]) -> Any:
    return x[_places(places)]


@operation("aten.index_put.default")
def _index_put(x: Any, places: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    target, rank = x.at[_places(places)], jnp.ndim(values)
    shape = x[_places(places)].shape
    values = values.reshape((1,) * (len(shape) - rank) + values.shape)
    values = jnp.broadcast_to(values, shape)
    return target.add(values) if accumulate else target.set(values)


def _places(places: Sequence[Any]) -> tuple[Any, ...]:
    given = iter(level(*(each for each in places if each is not None)))
    return tuple(slice(None) if each is None else next(given) for each in places)


@operation("aten.index_select.default")
def _index_select(x: Any, axis: int, places: Any) -> Any:
    return jnp.take(x, jnp.atleast_1d(places), axis)


@operation("aten.gather.default")
def _gather(x: Any, axis: int, places: Any, sparse: bool = False) -> Any:
    return x[_along(axis, places)] if x.ndim else x


@operation("aten.scatter.value")
def _scatter_value(x: Any, axis: int, places: Any, value: Any) -> Any:
    return x.at[_along(axis, places)].set(value)


@operation("aten.scatter.src")
def _scatter(x: Any, axis: int, places: Any, source: Any) -> Any:
    return x.at[_along(axis, places)].set(_cut(source, places))


@operation("aten.scatter_add.default")
def _scatter_add(x: Any, axis: int, places: Any, source: Any) -> Any:
    return x.at[_along(axis, places)].add(_cut(source, places))


def _along(axis: int, places: Any) -> tuple[Any, ...]:
    """The index whose entry at (i, j, ...) is (i, places[i, j, ...], ...)."""
    axis = axis % places.ndim
    grids = jnp.meshgrid(*(jnp.arange(size) for size in places.shape), indexing="ij")
    return tuple(places if i == axis else grid for i, grid in enumerate(grids))


def _cut(source: Any, places: Any) -> Any:
    """A source may be larger than the places."""
    return source[tuple(slice(0, size) for size in places.shape)]
