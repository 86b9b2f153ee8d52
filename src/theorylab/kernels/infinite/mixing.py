"""Layers that mix positions, or leave some out, at infinite width.

    Aggregate        K ← A K A′ᵀ                   Θ ← A Θ A′ᵀ              A: the graph of x
    SelfAttention    K ← σ_O² P σ_V² K P′ᵀ         Θ likewise, as two layers of weights
    Upsample         K ← M K Mᵀ                    Θ ← M Θ Mᵀ
    Dropout          K(x, x) ← K(x, x)/keep        Θ likewise, at s = s′

Attention, as heads and their widths grow: with logits QKᵀ/m, tied W_Q = W_K, the logits are the
covariance, P = softmax(σ_w² K(x, x)); untied, they vanish and P is uniform. In both cases queries
and keys themselves add nothing to Θ. With QKᵀ/√m logits stay random: see `sampled_attention`.

A mask of dropout is the same for x and x only: K(x, x) gets a factor 1/keep, another x′ has a mask
of its own, of mean 1.

Source: golikov · ntk-attention · 2.4.4; arora · ntk-practice · §9.5 (graphs).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models import Aggregate, Dropout, SelfAttention, Upsample
from theorylab.models.windows import upsample

from .positions import as_matrix, equal_positions, fitted, mixed, repeated
from .state import Context, Covariance, State
from .weights import linear


def drop(layer: Dropout, state: State, context: Context) -> State:
    """The masks of dropout, while training."""
    if not context.settings.training or layer.keep == 1:
        return state
    after = state._replace(gaussian=False)
    if not context.notes.itself:
        return after
    extra = 1 / layer.keep - 1
    if not state.paired:
        return after.mapped(lambda kernel: kernel * (1 + extra))
    same = equal_positions(state.shape[:-1], state.nngp.dtype)
    return after.mapped(lambda kernel: kernel * fitted(1 + extra * same, kernel))


def aggregate(layer: Aggregate, state: State, context: Context) -> State:
    """Sums over neighbours in one graph, or in that of x and that of x′."""
    if layer.graph is None:
        return mixed(state, *context.notes.of(lambda: context.graphs))
    matrix = fitted(jnp.asarray(layer.graph, state.nngp.dtype), state.nngp)
    return mixed(state, matrix, matrix)


def attend(layer: SelfAttention, state: State, context: Context) -> State:
    """Attention with logits divided by the width of a head."""
    if layer.scaling != "linear":
        raise ValueError(
            'SelfAttention(scaling="root") has random logits at infinite width, and no closed '
            "form: use infinite_kernels_sampled, which averages over them with error bars; "
            'scaling="linear" has one.'
        )
    scale = context.settings.parametrization.weight_scale**2

    def attention() -> Float[Array, "n s t"]:
        covariance = as_matrix(state.nngp, state.shape[:-1])
        logits = scale * covariance if layer.tied else jnp.zeros_like(covariance)
        return jax.nn.softmax(logits, axis=-1)

    width = layer.num_heads * layer.head_width
    settings = context.settings
    values = linear(state, layer, state.shape[-1], width, settings, has_bias=False)
    heads = mixed(values, *context.notes.of(attention))
    return linear(heads, layer, width, layer.channels, settings)


def enlarge(layer: Upsample, state: State) -> State:
    """Positions repeated, or linear in between."""
    if layer.method == "nearest":
        return repeated(state, layer.factors)
    axes, shape = state.axes, layer.output_shape(state.shape)

    def stretch(array: Covariance) -> Covariance:
        for group, size, factor in zip(axes, state.shape, layer.factors, strict=False):
            unit = jnp.eye(size, dtype=array.dtype)
            matrix = upsample(unit[:, :, None], (factor,), layer.method)[:, :, 0]  # (size, out)
            for axis in group:
                array = jnp.moveaxis(jnp.tensordot(array, matrix, ((axis,), (0,))), -1, axis)
        return array

    return state.mapped(stretch, shape)
