"""The infinite-width reading of every layer: what it makes of covariance K and tangent kernel Θ.

    Activation     K ← E φ(u)φ(v)                     Θ ← Θ E φ′(u)φ′(v)            (u, v) ~ N(0, K)
    LayerNorm      K ← K/(√(q + ε)√(q′ + ε))          Θ ← Θ/(√(q + ε)√(q′ + ε))     q: variance of x
    Residual       K ← K₁ + K₂                        Θ ← Θ₁ + Θ₂
    Product        K ← K₁K₂                           Θ ← Θ₁K₂ + K₁Θ₂
    Concatenate    K ← (c₁K₁ + c₂K₂)/(c₁ + c₂)        Θ likewise                    c: channels

Where a `LayerNorm` normalises positions too, q is the mean over them.
Trained gains and offsets of a `LayerNorm` add K + 1 to Θ: a gain's derivative is its own channel's
value, an offset's is 1. Layers of weights are in `weights`, those that move positions in
`positions`, those that mix them by other rules in `mixing` and `attention`. Missing positions are
0 after every layer: see `masks`.

Source: golikov · ntk-fc · Eqs 2.53–2.61; golikov · ntk-conv · Eqs 2.62–2.78; arora · ntk-deep ·
§9.4.
"""

import math

import jax.numpy as jnp
from jaxtyping import Array

from theorylab.models import (
    Activation,
    Aggregate,
    Architecture,
    AvgPool,
    Concatenate,
    Conv,
    Dense,
    Dropout,
    Flatten,
    GlobalPool,
    LayerNorm,
    Residual,
    SelfAttention,
    Serial,
)
from theorylab.models.architecture import ConvTranspose, Product
from theorylab.models.branches import Parallel
from theorylab.models.custom_layer import CustomLayer
from theorylab.models.einsum import Einsum
from theorylab.models.masks import mean_of_present
from theorylab.models.mixing import Resize, Upsample
from theorylab.models.selection import Index

from ..dual import dual
from .attention import attend
from .branches import joined
from .custom import customised
from .einsum import contracted
from .gaussian import check_gaussian, variances
from .masks import facing, flat_masks, pooled_present, remasked
from .mixing import aggregate, averaged_windows, drop, enlarge
from .needs import is_fresh, is_independent, needs_pairs
from .positions import averaged, flattened, narrowed, placed, spread, widened, windowed
from .selection import selected
from .state import Context, LayerState, materialized, product, total
from .weights import linear


def read(layer: Architecture, state: LayerState, wanted: bool, context: Context) -> LayerState:
    """Pass a state through a layer.

    Args:
        layer: The layer.
        state: What comes in.
        wanted: Whether later layers need all pairs of positions.
        context: Settings and notes.

    Example: K = ½ and Θ = 0 through one hidden ReLU layer.
        >>> from theorylab.kernels.infinite.state import Notes, Settings
        >>> from theorylab.models import NTK
        >>> state = LayerState(jnp.array([0.5]), None, (3,), paired=False, gaussian=False)
        >>> context = Context(Settings(NTK(), "none", False, tangent=True), Notes())
        >>> after = read(Serial(Dense(1), Activation("relu"), Dense(1)), state, False, context)
        >>> round(float(after.nngp[0]), 6), round(float(after.ntk[0]), 6)
        (0.25, 0.5)
    """
    after = remasked(layer, state, _read(layer, state, wanted, context))
    return after if wanted else narrowed(after)


def _read(layer: Architecture, state: LayerState, wanted: bool, context: Context) -> LayerState:
    match layer:
        case Serial():
            for index, inner in enumerate(layer.layers):
                later = needs_pairs(Serial(*layer.layers[index + 1 :]), wanted)
                state = read(inner, state, later, context)
            return state
        case Residual() | Product():
            return _two_ways(layer, state, wanted, context)
        case Concatenate():
            return _concatenate(layer, state, wanted, context)
        case Parallel():
            return joined(layer, [read(each, state, wanted, context) for each in layer.branches])
        case Dense():
            return linear(state, layer, state.shape[-1], layer.width, context.settings)
        case Conv() | ConvTranspose():
            return _conv(layer, state, wanted, context)
        case AvgPool():
            pooled = windowed(state, layer.window, layer.strides, layer.padding, together=False)
            return averaged_windows(layer, state.shape, pooled)
        case GlobalPool():
            if state.masks is not None and layer.reduce == "mean":
                return pooled_present(state)
            return averaged(state, layer.reduce)
        case Flatten():
            return flattened(state)
        case Activation():
            return _activation(layer, state, context)
        case LayerNorm():
            return _layer_norm(layer, state, context)
        case Dropout():
            return drop(layer, state, context)
        case Aggregate():
            return aggregate(layer, state, context)
        case SelfAttention():
            return attend(layer, state, context)
        case Upsample() | Resize():
            return enlarge(layer, state)
        case Index():
            return selected(layer, state)
        case Einsum():
            return contracted(layer, state)
        case CustomLayer():
            return customised(layer, state, context)
    raise TypeError(
        f"an infinitely wide network has no reading for a layer of type {type(layer).__name__}: "
        "a layer of your own is a CustomLayer."
    )


def _conv(
    layer: Conv | ConvTranspose, state: LayerState, wanted: bool, context: Context
) -> LayerState:
    count = math.prod(layer.window)
    if isinstance(layer, ConvTranspose):
        seen = spread(state, layer.window, layer.strides, layer.padding)
    else:
        seen = windowed(state, layer.window, layer.strides, layer.padding, together=True)
    mean = seen.mapped(lambda kernel: kernel / count)
    after = linear(mean, layer, count * state.shape[-1], layer.channels, context.settings)
    alone = isinstance(layer, Conv) and not layer.shared
    return widened(after) if alone and wanted else after


def _mean_variances(layer: LayerNorm, state: LayerState, context: Context) -> tuple[Array, Array]:
    """The variances over the axes of a normalisation, placed like those of every position."""
    *inner, last = layer.axes_of(state.shape)
    if last != len(state.shape) - 1:
        raise ValueError(
            f"LayerNorm must normalise the channels too, axis {len(state.shape) - 1} of inputs of "
            f"shape {state.shape}, got axes {layer.axes}: else infinite width has no closed form."
        )
    q1, q2 = context.notes.of(lambda: narrowed(state).nngp)
    num_axes = len(state.shape) - 1
    if inner:
        axes = tuple(q1.ndim - num_axes + axis for axis in inner)
        masks = (None, None) if state.masks is None else facing(state, *flat_masks(state))
        q1, q2 = (mean_of_present(*each, axes) for each in zip((q1, q2), masks, strict=True))
    if not state.paired:
        return q1, q2
    return placed(q1, num_axes, 1), placed(q2, num_axes, 2)


def _activation(layer: Activation, state: LayerState, context: Context) -> LayerState:
    check_gaussian(f"Activation({layer.function!r})", state)
    q1, q2 = variances(state, context)
    value, derivative = dual(layer.function, q1, q2, materialized(state.nngp))
    value, ntk = materialized((value, product(state.ntk, derivative)))
    return state._replace(nngp=value, ntk=ntk, gaussian=False)


def _layer_norm(layer: LayerNorm, state: LayerState, context: Context) -> LayerState:
    check_gaussian("LayerNorm", state)

    def inverse_root(variance: Array) -> Array:
        shifted = variance + layer.epsilon
        positive = shifted > 0  # what is 0 stays 0, also without ε
        return jnp.where(positive, 1 / jnp.sqrt(jnp.where(positive, shifted, 1.0)), 0.0)

    one, other = map(inverse_root, _mean_variances(layer, state, context))
    after = state.mapped(lambda kernel: kernel * one * other)
    if not layer.affine:
        return after
    ntk = None
    if context.settings.tangent:
        ntk = after.nngp + 1.0 if after.ntk is None else after.ntk + after.nngp + 1.0
    # Gains make a channel's tangent kernel depend on its value: only the mean of it is known.
    return after._replace(ntk=ntk, gaussian=False)


def _two_ways(
    layer: Residual | Product, state: LayerState, wanted: bool, context: Context
) -> LayerState:
    name, ways = type(layer).__name__, (layer.shortcut, layer.branch)
    if not any(map(is_fresh if isinstance(layer, Residual) else is_independent, ways)):
        raise ValueError(
            f"{name} needs a branch or shortcut that ends with a layer of weights: without new "
            "weights the two ways are correlated, and their kernels do not combine."
        )
    one, other = (read(way, state, wanted, context) for way in ways)
    if isinstance(layer, Residual):
        return one._replace(
            nngp=one.nngp + other.nngp,
            ntk=total((1.0, one.ntk), (1.0, other.ntk)),
            gaussian=one.gaussian and other.gaussian,
        )
    ntk = total((1.0, product(one.ntk, other.nngp)), (1.0, product(other.ntk, one.nngp)))
    return one._replace(nngp=one.nngp * other.nngp, ntk=ntk, gaussian=False)


def _concatenate(
    layer: Concatenate, state: LayerState, wanted: bool, context: Context
) -> LayerState:
    branch = read(layer.branch, state, wanted, context)
    state = state if wanted else narrowed(state)
    count = state.shape[-1] + branch.shape[-1]
    kept, made = state.shape[-1] / count, branch.shape[-1] / count
    return state._replace(
        nngp=kept * state.nngp + made * branch.nngp,
        ntk=total((kept, state.ntk), (made, branch.ntk)),
        shape=(*state.shape[:-1], count),
        gaussian=False,  # the two have different variances
    )
