"""The finite reading of attention, y = [φ(Qₕ Kₕᵀ · scale) Vₕ]ₕ W_O, in all heads at once.

    Q = x̃ W_Q      K = x̃ W_K      V = x W_V           x̃: x with embeddings of positions, if any

φ is the softmax over keys, or a function of every logit. Tied queries and keys share one matrix of
scale √(σ_Q σ_K), so that their product is that of the two.

Source: golikov · ntk-attention · 2.4.4; Hron et al. (2020), arXiv:2006.10540.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array

from theorylab.typing import Params, Scalar

from .architecture import Shape
from .masks import Mask, zeroed
from .mixing import SelfAttention
from .parameters import Parameter
from .parts import (
    FiniteLayer,
    LayerPlace,
    NetworkSettings,
    SideInputs,
    bias_parameters,
    plus_bias,
    weight_parameter,
    with_scales,
)
from .positional import joined


def self_attention(
    layer: SelfAttention, place: LayerPlace, settings: NetworkSettings
) -> FiniteLayer:
    """Read attention, in all heads at once.

    Example:
        >>> from theorylab.models.parametrization import NTK
        >>> place = LayerPlace((5, 4), wide=False, last=False)
        >>> layer = SelfAttention(channels=8, num_heads=2, head_width=3)
        >>> settings = NetworkSettings(NTK(), "none", "normal")
        >>> sorted(self_attention(layer, place, settings).parameters)
        ['key', 'output', 'query', 'value']
    """
    parameters = _parameters(layer, place, settings)
    channels, positions = place.shape[-1], place.shape[:-1]
    scale = layer.head_width ** (-0.5 if layer.scaling == "root" else -1.0)
    embedding = layer.embedding
    root = None if embedding is None or embedding.decay is None else embedding.root(positions)

    def apply(params: Params, x: Array, beside: SideInputs) -> Array:
        def times(x: Array, name: str) -> Array:
            return parameters[name].scaling.multiplier * (x @ params[name])

        def heads(x: Array, name: str) -> Array:
            y = times(x, name)
            return y.reshape(*y.shape[:-1], layer.num_heads, -1)

        seen = valued = x.reshape(x.shape[0], -1, channels)
        mask = None if beside.mask is None else beside.mask.reshape(*seen.shape[:2], -1)
        if embedding is not None:
            rows = parameters["embedding"].scaling.multiplier * params["embedding"]
            if root is not None:
                rows = jnp.asarray(root, rows.dtype) @ rows
            rows = zeroed(rows[None], None if mask is None else mask.all(axis=-1, keepdims=True))
            seen = joined(seen, rows, embedding)
            valued = seen if embedding.in_values else valued
        query, value = heads(seen, "query"), heads(valued, "value")
        key = query if layer.tied else heads(seen, "key")
        logits = scale * jnp.einsum("nshm,nthm->nhst", query, key)
        weights = attention_weights(logits, _missing_keys(mask), layer.mechanism)
        mixed = jnp.einsum("nhst,nthm->nshm", weights, value)
        y = times(mixed.reshape(*x.shape[:-1], -1), "output")
        return plus_bias(y, params, parameters)

    return FiniteLayer(parameters, apply, wide=not place.last)


def attention_weights(logits: Array, missing: Array | None, mechanism: str = "softmax") -> Array:
    """What every key counts, of logits (..., queries, keys); 0 for keys that are missing.

    Example: the second key is missing.
        >>> logits, missing = jnp.array([[-3.0, 5.0]]), jnp.array([[False, True]])
        >>> attention_weights(logits, missing).tolist()
        [[1.0, 0.0]]
        >>> attention_weights(logits, missing, "abs").tolist()
        [[3.0, 0.0]]
    """
    if mechanism == "softmax":
        if missing is not None:  # a finite number: with all keys missing, all weights are the same
            logits = jnp.where(missing, jnp.finfo(logits.dtype).min / 2, logits)
        return jax.nn.softmax(logits, axis=-1)
    if missing is not None:
        logits = jnp.where(missing, 0.0, logits)
    functions = {"identity": lambda logits: logits, "abs": jnp.abs, "relu": jax.nn.relu}
    return functions[mechanism](logits)


def _parameters(
    layer: SelfAttention, place: LayerPlace, settings: NetworkSettings
) -> dict[str, Parameter]:
    inner, outer = place._replace(last=False), place._replace(wide=True)
    width, value_width = layer.num_heads * layer.head_width, layer.num_heads * layer.value_width
    channels = value_channels = place.shape[-1]
    parameters: dict[str, Parameter] = {}
    if layer.embedding is not None:
        rows = (math.prod(place.shape[:-1]), layer.embedding.channels_at(channels))
        first = place._replace(wide=False, last=False)
        own = with_scales(settings, layer.embedding.scale, None)
        parameters["embedding"] = weight_parameter(rows, 1, rows[1], first, own)
        channels = layer.embedding.embedded_channels(channels)
        value_channels = channels if layer.embedding.in_values else value_channels
    shapes = {"query": (channels, width), "value": (value_channels, value_width)}
    if not layer.tied:
        shapes["key"] = (channels, width)
    for name, shape in shapes.items():
        own = with_scales(settings, _scale(layer, name, settings), None)
        parameters[name] = weight_parameter(shape, *shape, inner, own)
    own = with_scales(settings, layer.output_scale, layer.bias_scale)
    shape = (value_width, layer.channels)
    parameters["output"] = weight_parameter(shape, *shape, outer, own)
    if layer.bias:
        parameters |= bias_parameters((layer.channels,), value_width, outer, own)
    return parameters


def _scale(layer: SelfAttention, name: str, settings: NetworkSettings) -> Scalar | None:
    """The scale of a matrix; of one that queries and keys share, the mean of both."""
    if name != "query" or not layer.tied:
        return getattr(layer, f"{name}_scale")
    if layer.query_scale is None and layer.key_scale is None:
        return None
    default = settings.parametrization.weight_scale
    query = default if layer.query_scale is None else layer.query_scale
    key = default if layer.key_scale is None else layer.key_scale
    return (query * key) ** 0.5


def _missing_keys(mask: Mask | None) -> Array | None:
    """Which positions are missing, (n, heads, queries, keys)."""
    if mask is None:
        return None
    missing: Shape = (mask.shape[0], 1, 1, mask.shape[1])
    return mask.all(axis=-1).reshape(missing)
