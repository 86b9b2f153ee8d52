"""Shapes: views, permutations, slices, concatenation, padding; and arrays made of nothing."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .table import axes_of, operation


@operation(
    "aten.alias.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.lift_fresh_copy.default",
    "aten._to_copy.default",
    "aten.detach_.default",
)
def _same(x: Any, *_: Any) -> Any:
    """What differs is the memory; the type is converted by whoever calls."""
    return x


@operation("theorylab.held.default")
def _held(x: Any) -> Any:
    return lax.stop_gradient(x)


@operation("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default")
def _view(x: Any, shape: Sequence[int]) -> Any:
    return jnp.reshape(x, tuple(shape))


@operation("aten.permute.default")
def _permute(x: Any, axes: Sequence[int]) -> Any:
    return jnp.transpose(x, axes_of(list(axes), x.ndim)) if x.ndim else x


@operation("aten.transpose.int")
def _transpose(x: Any, first: int, second: int) -> Any:
    return jnp.swapaxes(x, first, second)


@operation("aten.t.default")
def _t(x: Any) -> Any:
    return x.T


@operation("aten.expand.default")
def _expand(x: Any, shape: Sequence[int], implicit: bool = False) -> Any:
    old = (1,) * (len(shape) - x.ndim) + x.shape
    new = tuple(have if want == -1 else want for have, want in zip(old, shape, strict=True))
    return jnp.broadcast_to(x.reshape(old), new)


@operation("aten.repeat.default")
def _repeat(x: Any, times: Sequence[int]) -> Any:
    return jnp.tile(x, tuple(times))


@operation("aten.unsqueeze.default")
def _unsqueeze(x: Any, axis: int) -> Any:
    return jnp.expand_dims(x, axis)


@operation("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims")
def _squeeze(x: Any, axes: Any = None) -> Any:
    chosen = [axis for axis in axes_of(axes, x.ndim) if x.ndim and x.shape[axis] == 1]
    return jnp.squeeze(x, tuple(chosen))


@operation("aten.slice.Tensor")
def _slice(x: Any, axis: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[_at(x, axis, slice(start, end, step))]


@operation("aten.select.int")
def _select(x: Any, axis: int, place: int) -> Any:
    return x[_at(x, axis, place)]


@operation("aten.slice_scatter.default")
def _slice_scatter(
    x: Any, source: Any, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    return x.at[_at(x, axis, slice(start, end, step))].set(source)


@operation("aten.select_scatter.default")
def _select_scatter(x: Any, source: Any, axis: int, place: int) -> Any:
    return x.at[_at(x, axis, place)].set(source)


def _at(x: Any, axis: int, what: Any) -> tuple[Any, ...]:
    """The index that says something of one axis only."""
    if isinstance(what, slice):
        what = slice(*what.indices(x.shape[axis]))
    return (slice(None),) * (axis % x.ndim) + (what,)


@operation("aten.split_with_sizes.default")
def _split(x: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    return jnp.split(x, [int(end) for end in np.cumsum(sizes)[:-1]], axis)


@operation("aten.cat.default")
def _cat(arrays: Sequence[Any], axis: int = 0) -> Any:
    full = [each for each in arrays if each.shape != (0,)]  # PyTorch leaves these out
    return jnp.concatenate(full or list(arrays), axis)


@operation("aten.stack.default")
def _stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    return jnp.stack(list(arrays), axis)


@operation("aten.flip.default")
def _flip(x: Any, axes: Sequence[int]) -> Any:
    return jnp.flip(x, tuple(axes))


@operation("aten.roll.default")
def _roll(x: Any, shifts: Sequence[int], axes: Sequence[int] = ()) -> Any:
    return jnp.roll(x, tuple(shifts), tuple(axes)) if axes else jnp.roll(x, shifts[0])


@operation("aten.diagonal.default")
def _diagonal(x: Any, offset: int = 0, first: int = 0, second: int = 1) -> Any:
    return jnp.diagonal(x, offset, first, second)


@operation("aten.tril.default")
def _tril(x: Any, diagonal: int = 0) -> Any:
    return jnp.tril(x, diagonal)


@operation("aten.triu.default")
def _triu(x: Any, diagonal: int = 0) -> Any:
    return jnp.triu(x, diagonal)


@operation("aten.unfold.default")
def _unfold(x: Any, axis: int, size: int, step: int) -> Any:
    """Windows of one axis, as a new last axis."""
    axis = axis % x.ndim
    starts = np.arange(0, x.shape[axis] - size + 1, step)
    windows = jnp.take(x, (starts[:, None] + np.arange(size)[None]).reshape(-1), axis)
    shape = (*x.shape[:axis], len(starts), size, *x.shape[axis + 1 :])
    return jnp.moveaxis(windows.reshape(shape), axis + 1, -1)


@operation("aten.constant_pad_nd.default")
def _pad(x: Any, pads: Sequence[int], value: Any = 0) -> Any:
    """The last axis first; what is negative cuts off."""
    return lax.pad(x, jnp.asarray(value, x.dtype), [(*each, 0) for each in _pairs(x, pads)])


@operation(*(f"aten.reflection_pad{rank}d.default" for rank in (1, 2, 3)))
def _pad_reflected(x: Any, pads: Sequence[int]) -> Any:
    return jnp.pad(x, _pairs(x, pads), mode="reflect")


@operation(*(f"aten.replication_pad{rank}d.default" for rank in (1, 2, 3)))
def _pad_replicated(x: Any, pads: Sequence[int]) -> Any:
    return jnp.pad(x, _pairs(x, pads), mode="edge")


def _pairs(x: Any, pads: Sequence[int]) -> list[tuple[int, int]]:
    pairs = list(zip(pads[::2], pads[1::2], strict=True))[::-1]
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs


@operation("aten.sym_size.int")
def _size(x: Any, axis: int) -> int:
    return x.shape[axis]


@operation("aten.sym_numel.default")
def _numel(x: Any) -> int:
    return x.size


@operation("aten.arange.start_step")
def _arange(start: Any, end: Any, step: Any = 1, dtype: Any = None, *_: Any) -> Any:
    return jnp.arange(start, end, step, dtype=dtype)


@operation("aten.full.default")
def _full(shape: Sequence[int], value: Any, *_: Any) -> Any:
    return jnp.full(tuple(shape), value)


@operation("aten.full_like.default")
def _full_like(x: Any, value: Any, *_: Any) -> Any:
    return jnp.full(x.shape, value)


@operation("aten.scalar_tensor.default")
def _scalar(value: Any, *_: Any) -> Any:
    return jnp.asarray(value)


@operation("aten.empty.memory_format", "aten.zeros.default")
def _zeros(shape: Sequence[int], *_: Any) -> Any:
    return jnp.zeros(tuple(shape))


@operation("aten.ones.default")
def _ones(shape: Sequence[int], *_: Any) -> Any:
    return jnp.ones(tuple(shape))


@operation("aten.fill.Scalar", "aten.fill.Tensor")
def _fill(x: Any, value: Any) -> Any:
    return jnp.full(x.shape, value)


@operation("aten.copy.default")
def _copy(x: Any, source: Any, *_: Any) -> Any:
    return _expand(source, x.shape)


@operation("aten.eye.default", "aten.eye.m")
def _eye(rows: int, columns: Any = None, *_: Any) -> Any:
    return jnp.eye(rows, columns if isinstance(columns, int) else None)
