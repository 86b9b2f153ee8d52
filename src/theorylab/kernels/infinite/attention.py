"""Attention at infinite width: heads and their width m grow, and so does the number of heads.

A head gives P V with P = φ(G), values V = xW_V and logits G = QKᵀ · scale; φ is the softmax, or a
function of every logit. By the law of large numbers over heads, with K_Q, K_K, K_V and Θ_Q, Θ_K,
Θ_V the covariances and tangent kernels of queries, keys and values (σ² K and σ² (K + Θ), of x with
its embeddings for queries and keys),

    K_heads = E P K_V P′ᵀ,      then a layer of weights W_O.

scale = 1/m: logits do not fluctuate. Tied W_Q = W_K: G = σ_Q σ_K K(x, x); untied: G = 0, P is
uniform. Queries and keys add nothing to the tangent kernel: Θ_heads = P Θ_V P′ᵀ.

scale = 1/√m, untied: logits are Gaussian, with Cov(G_su, G′_s′u′) = K_Q(s, s′) K_K(u, u′). They are
drawn as a matrix L Z Lᵀ, where LLᵀ = σ_Q σ_K K is a covariance of the positions of x and x′
together and Z has independent normal entries. Queries and keys, and what is before them, move the
logits: with Θ_G(su, s′u′) = Θ_Q(s, s′) K_K(u, u′) + K_Q(s, s′) Θ_K(u, u′), for the softmax

    Θ_heads(s, s′) = E P Θ_V P′ᵀ + E Σ_uu′ P_su P′_s′u′ Θ_G(su, s′u′)
                     · [K_V(u, u′) − (PK_V)(s, u′) − (K_V P′ᵀ)(u, s′) + (PK_V P′ᵀ)(s, s′)],

and φ′(G_su) φ′(G′_s′u′) K_V(u, u′) in place of P_su P′_s′u′ [...] for a function of every logit.
For φ(G) = G both means are sums:

    K_heads = K_Q(s, s′) Σ_uu′ K_K K_V,     Θ_heads = Θ_Q Σ K_K K_V + K_Q Σ (Θ_K K_V + K_K Θ_V).

Source: golikov · ntk-attention · 2.4.4; Hron et al. (2020), arXiv:2006.10540.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models import NTK, SelfAttention
from theorylab.models.attention import attention_weights

from .logits import Moments, mean_over_logits
from .masks import missing_keys, missing_pairs
from .positions import as_matrix, as_pairs, fitted, mixed
from .state import Context, Covariance, Draws, LayerState, total
from .weights import weighted

Matrix = Float[Array, "... s t"]


class Parts(NamedTuple):
    """What queries, keys and values are, and the covariance of which logits are made.

    Args:
        query: K_Q and Θ_Q.
        key: K_K and Θ_K.
        value: K_V and Θ_V.
        logits: σ_Q σ_K K, of x with its embeddings.
    """

    query: LayerState
    key: LayerState
    value: LayerState
    logits: Covariance


def attend(layer: SelfAttention, state: LayerState, context: Context) -> LayerState:
    """Heads, side by side, and the weights after them.

    Example: where all positions are alike, attention changes nothing.
        >>> from theorylab.kernels.infinite.state import Notes, Settings
        >>> from theorylab.models import NTK
        >>> state = LayerState(jnp.ones((1, 2, 2)), None, (2, 1), paired=True, gaussian=True)
        >>> context = Context(Settings(NTK(), "none", False, tangent=True), Notes())
        >>> attend(SelfAttention(1, 1, 1, scaling="linear"), state, context).nngp.tolist()
        [[[1.0, 1.0], [1.0, 1.0]]]
    """
    parts = _parts(layer, state, context)
    if layer.scaling == "linear":
        weights = context.notes.of(lambda: _certain_weights(layer, parts))
        heads = mixed(parts.value, *weights)
    elif layer.mechanism == "identity" and not layer.tied:
        heads = _linear_heads(parts)
    else:
        heads = _sampled(layer, parts, context)
    width = layer.num_heads * layer.value_width
    scales = (layer.output_scale, layer.bias_scale, layer.bias)
    return weighted(heads, *scales, width, layer.channels, context.settings)


def embedded(layer: SelfAttention, state: LayerState, context: Context) -> LayerState:
    """Inputs joined with the embeddings of positions, which are trained.

    Example: the embeddings have covariance 1 at equal positions, and 0 else.
        >>> from theorylab.kernels.infinite.state import Notes, Settings
        >>> from theorylab.models.positional import PositionalEmbedding
        >>> state = LayerState(jnp.ones((1, 2, 2)), None, (2, 1), paired=True, gaussian=True)
        >>> context = Context(Settings(NTK(), "none", False, tangent=True), Notes())
        >>> layer = SelfAttention(1, 1, 1, embedding=PositionalEmbedding())
        >>> embedded(layer, state, context).nngp.tolist()
        [[[2.0, 1.0], [1.0, 2.0]]]
    """
    embedding = layer.embedding
    if embedding is None:
        return state
    positions, channels = state.shape[:-1], state.shape[-1]
    all_channels = embedding.embedded_channels(channels)
    kept, made = 1.0, 1.0
    if embedding.join == "concatenate":
        kept, made = channels / all_channels, 1 - channels / all_channels
    covariance = embedding.covariance(positions).astype(state.nngp.dtype)
    covariance = jnp.broadcast_to(
        fitted(as_pairs(covariance, positions), state.nngp), state.nngp.shape
    )
    if state.masks is not None:
        covariance = jnp.where(missing_pairs(state, state.nngp), 0.0, covariance)
    variance = embedding.scale**2
    # Of one input each: nothing multiplies them in the standard parametrization.
    gain = variance if isinstance(context.settings.parametrization, NTK) else 1.0
    ntk = None
    if context.settings.tangent:
        ntk = total((kept, state.ntk), (made, gain * covariance))
    return state._replace(
        nngp=kept * state.nngp + made * variance * covariance,
        ntk=ntk,
        shape=(*positions, all_channels),
    )


def _parts(layer: SelfAttention, state: LayerState, context: Context) -> Parts:
    settings = context.settings
    seen = embedded(layer, state, context)
    values = seen if layer.embedding is not None and layer.embedding.in_values else state
    width = layer.num_heads * layer.head_width
    default = settings.parametrization.weight_scale
    scales = [default if s is None else s for s in (layer.query_scale, layer.key_scale)]
    query, key = (
        weighted(seen, scale, None, False, seen.shape[-1], width, settings) for scale in scales
    )
    value = weighted(
        *(values, layer.value_scale, None, False, values.shape[-1]),
        layer.num_heads * layer.value_width,
        settings,
    )
    return Parts(query, key, value, scales[0] * scales[1] * seen.nngp)


def _certain_weights(layer: SelfAttention, parts: Parts) -> Matrix:
    """P of logits that do not fluctuate."""
    covariance = as_matrix(parts.logits, parts.value.shape[:-1])
    logits = covariance if layer.tied else jnp.zeros_like(covariance)
    return attention_weights(logits, missing_keys(parts.value)[0], layer.mechanism)


def _linear_heads(parts: Parts) -> LayerState:
    """Heads whose weights are their logits: sums over products of covariances."""
    query, key, value, _ = parts
    axes = tuple(axis for group in value.axes for axis in group)

    def summed(one: Covariance, other: Covariance) -> Covariance:
        return jnp.sum(one * other, axis=axes, keepdims=True)

    both = summed(key.nngp, value.nngp)
    after = value._replace(nngp=query.nngp * both)
    if query.ntk is None or key.ntk is None or value.ntk is None:
        return after
    moved = summed(key.ntk, value.nngp) + summed(key.nngp, value.ntk)
    return after._replace(ntk=query.ntk * both + query.nngp * moved)


def _sampled(layer: SelfAttention, parts: Parts, context: Context) -> LayerState:
    """The mean over draws of logits."""
    if layer.tied:
        raise ValueError(
            'SelfAttention(scaling="root", tied=True) has no infinite width: its logits QQᵀ/√m '
            'grow as √m. Untie them, or divide by m: scaling="linear".'
        )
    if context.draws is None:
        raise ValueError(
            'SelfAttention(scaling="root") has random logits at infinite width, and no closed '
            "form: infinite_kernels_sampled averages over them, with standard errors. "
            'scaling="linear" and mechanism="identity" have a closed form.'
        )
    positions = parts.value.shape[:-1]
    between = as_matrix(parts.logits, positions)
    own, others = context.notes.of(lambda: between)
    if context.notes.itself:
        joint = between
    else:
        shape = between.shape
        own, others = jnp.broadcast_to(own, shape), jnp.broadcast_to(others, shape)
        joint = jnp.block([[own, between], [jnp.swapaxes(between, -1, -2), others]])
    key = jax.random.fold_in(context.draws.key, context.notes.count)
    draws = Draws(key, context.draws.count)
    means = mean_over_logits(
        layer.mechanism, _moments(parts), joint, missing_keys(parts.value), draws
    )
    return parts.value._replace(
        nngp=as_pairs(means[0], positions),
        ntk=None if len(means) == 1 else as_pairs(means[1], positions),
    )


def _moments(parts: Parts) -> Moments:
    positions = parts.value.shape[:-1]
    query, key, value = (as_matrix(state.nngp, positions) for state in parts[:3])
    tangents = [as_matrix(s.ntk, positions) for s in parts[:3] if s.ntk is not None]
    return Moments(query, key, value, (tangents[0], tangents[1], tangents[2]) if tangents else None)
