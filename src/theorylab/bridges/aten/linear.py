"""Linear algebra: products of matrices, alone, in batches, and with a bias added."""

from typing import Any

import jax.numpy as jnp

from .table import level, operation


@operation("aten.mm.default", "aten.bmm.default", "aten.mv.default", "aten.dot.default")
def _product(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b)


@operation("aten.linear.default")
def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    y = jnp.tensordot(x, weight, axes=((-1,), (-1,)))
    return y if bias is None else jnp.add(*level(y, bias))


@operation("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default")
def _product_plus(c: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = jnp.matmul(a, b)
    product = product if alpha == 1 else alpha * product
    if beta == 0:  # PyTorch then does not look at c at all
        return product
    return jnp.add(*level(product, c if beta == 1 else beta * c))


@operation("aten.linalg_vector_norm.default")
def _norm(x: Any, order: Any = 2, axes: Any = None, keep: bool = False, dtype: Any = None) -> Any:
    """Of length 0 the derivative is 0, as in PyTorch."""
    x = x if dtype is None else x.astype(dtype)
    axis = None if axes is None or axes == [] else tuple(axes)
    if order == float("inf"):
        return jnp.max(jnp.abs(x), axis, keepdims=keep)
    if order == float("-inf"):
        return jnp.min(jnp.abs(x), axis, keepdims=keep)
    if order == 0:
        return jnp.sum(x != 0, axis, keepdims=keep)
    if order == 1:
        return jnp.sum(jnp.abs(x), axis, keepdims=keep)
    powers = jnp.square(x) if order == 2 else jnp.abs(x) ** order
    total = jnp.sum(powers, axis, keepdims=keep)
    some = jnp.where(total > 0, total, 1)
    return jnp.where(total > 0, jnp.sqrt(some) if order == 2 else some ** (1 / order), 0)
