"""Reductions: sums, means, variances, extremes, logic, running sums, order.

`max` and `min` along an axis pass their derivative to one entry, `amax` and `amin` to all equal
ones in equal parts, as in PyTorch.
"""

from typing import Any

import jax
import jax.numpy as jnp

from .table import axes_of, operation


@operation("aten.sum.default")
def _sum(x: Any, dtype: Any = None) -> Any:
    return jnp.sum(x, dtype=dtype)


@operation("aten.sum.dim_IntList")
def _sum_along(x: Any, axes: Any, keep: bool = False, dtype: Any = None) -> Any:
    return jnp.sum(x, axes_of(axes, x.ndim), keepdims=keep, dtype=dtype)


@operation("aten.mean.default")
def _mean(x: Any, dtype: Any = None) -> Any:
    return jnp.mean(x, dtype=dtype)


@operation("aten.mean.dim")
def _mean_along(x: Any, axes: Any, keep: bool = False, dtype: Any = None) -> Any:
    return jnp.mean(x, axes_of(axes, x.ndim), keepdims=keep, dtype=dtype)


@operation("aten.var.correction")
def _variance(x: Any, axes: Any = None, correction: Any = None, keep: bool = False) -> Any:
    correction = 1 if correction is None else correction
    return jnp.var(x, axes_of(axes, x.ndim), ddof=correction, keepdims=keep)


@operation("aten.var_mean.correction")
def _variance_and_mean(
    x: Any, axes: Any = None, correction: Any = None, keep: bool = False
) -> tuple[Any, Any]:
    return _variance(x, axes, correction, keep), _mean_along(x, axes, keep)


@operation("aten.var.dim")
def _variance_along(x: Any, axes: Any, unbiased: bool = True, keep: bool = False) -> Any:
    return _variance(x, axes, int(unbiased), keep)


@operation("aten.logsumexp.default")
def _logsumexp(x: Any, axes: Any, keep: bool = False) -> Any:
    return jax.scipy.special.logsumexp(x, axes_of(axes, x.ndim), keepdims=keep)


@operation("aten.prod.default")
def _product(x: Any, dtype: Any = None) -> Any:
    return jnp.prod(x, dtype=dtype)


@operation("aten.prod.dim_int")
def _product_along(x: Any, axis: int, keep: bool = False, dtype: Any = None) -> Any:
    return jnp.prod(x, axis, keepdims=keep, dtype=dtype)


@operation("aten.amax.default")
def _amax(x: Any, axes: Any = (), keep: bool = False) -> Any:
    return jnp.max(x, axes_of(axes, x.ndim), keepdims=keep)


@operation("aten.amin.default")
def _amin(x: Any, axes: Any = (), keep: bool = False) -> Any:
    return jnp.min(x, axes_of(axes, x.ndim), keepdims=keep)


@operation("aten.max.default")
def _max(x: Any) -> Any:
    return jnp.max(x)


@operation("aten.min.default")
def _min(x: Any) -> Any:
    return jnp.min(x)


@operation("aten.max.dim")
def _max_along(x: Any, axis: int, keep: bool = False) -> tuple[Any, Any]:
    return _picked(x, jnp.argmax(x, axis, keepdims=True), axis, keep)


@operation("aten.min.dim")
def _min_along(x: Any, axis: int, keep: bool = False) -> tuple[Any, Any]:
    return _picked(x, jnp.argmin(x, axis, keepdims=True), axis, keep)


def _picked(x: Any, places: Any, axis: int, keep: bool) -> tuple[Any, Any]:
    """The entries at places of an axis, and the places."""
    found = (jnp.take_along_axis(x, places, axis), places)
    first, second = found if keep else (jnp.squeeze(each, axis) for each in found)
    return first, second


@operation("aten.argmax.default")
def _argmax(x: Any, axis: Any = None, keep: bool = False) -> Any:
    return jnp.argmax(x, axis, keepdims=keep)


@operation("aten.argmin.default")
def _argmin(x: Any, axis: Any = None, keep: bool = False) -> Any:
    return jnp.argmin(x, axis, keepdims=keep)


@operation("aten.any.default", "aten.any.dim", "aten.any.dims")
def _any(x: Any, axes: Any = None, keep: bool = False) -> Any:
    return jnp.any(x, axes_of(axes, x.ndim), keepdims=keep)


@operation("aten.all.default", "aten.all.dim", "aten.all.dims")
def _all(x: Any, axes: Any = None, keep: bool = False) -> Any:
    return jnp.all(x, axes_of(axes, x.ndim), keepdims=keep)


@operation("aten.cumsum.default")
def _cumsum(x: Any, axis: int, dtype: Any = None) -> Any:
    return jnp.cumsum(x, axis, dtype=dtype)


@operation("aten.cumprod.default")
def _cumprod(x: Any, axis: int, dtype: Any = None) -> Any:
    return jnp.cumprod(x, axis, dtype=dtype)


@operation("aten.sort.default")
def _sort(x: Any, axis: int = -1, descending: bool = False) -> tuple[Any, Any]:
    places = jnp.argsort(x, axis, descending=descending)
    return jnp.take_along_axis(x, places, axis), places


@operation("aten.topk.default")
def _topk(
    x: Any, number: int, axis: int = -1, largest: bool = True, ordered: bool = True
) -> tuple[Any, Any]:
    places = jnp.argsort(x, axis, descending=largest)
    places = jax.lax.slice_in_dim(places, 0, number, 1, axis % x.ndim)
    return jnp.take_along_axis(x, places, axis), places
