"""Scaled dot-product attention: softmax(QKᵀ/√d + mask) V, with a causal or any other mask.

A query that sees no key gives 0, and so does its derivative.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from .table import level, operation


@operation("aten.scaled_dot_product_attention.default")
def _attention(
    queries: Any,
    keys: Any,
    values: Any,
    mask: Any = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    grouped: bool = False,
) -> Any:
    if grouped:  # several heads of queries share one of keys and values
        times = queries.shape[-3] // keys.shape[-3]
        keys, values = (jnp.repeat(each, times, -3) for each in (keys, values))
    scale = 1 / math.sqrt(queries.shape[-1]) if scale is None else scale
    scores = jnp.matmul(*level(queries * scale, jnp.swapaxes(keys, -1, -2)))
    seen = None
    if is_causal:
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    if mask is not None and mask.dtype == bool:
        scores, seen = level(scores, mask)
    elif mask is not None:
        scores, mask = level(scores, mask)
        scores, seen = scores + mask, mask > -jnp.inf
    if seen is None:
        weights = jax.nn.softmax(scores, -1)
    else:
        seen = jnp.broadcast_to(seen, scores.shape)
        some = jnp.any(seen, -1, keepdims=True)
        scores = jnp.where(seen, scores, -jnp.inf)
        weights = jnp.where(some, jax.nn.softmax(jnp.where(some, scores, 0), -1), 0)
    return jnp.matmul(*level(weights, values))
