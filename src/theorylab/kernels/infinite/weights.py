"""What a layer of weights does to covariance and tangent kernel, in both parametrizations.

With weights of variance σ_w²/fan-in and biases of variance σ_b²,

    K ← σ_w² K + σ_b²     Θ ← σ_w² (K + Θ) + σ_b²            NTK(σ_w, σ_b)
    K ← σ_w² K + σ_b²     Θ ← fan-in K + σ_w² Θ + 1          Standard(σ_w, σ_b)

σ_b² stands in K for biases drawn "normal"; σ_b² and 1 stand in Θ for trained biases, "zero" ones
too. In the standard parametrization nothing multiplies the trained weight, so that a layer's part
of Θ is the number of its inputs, large but finite: the widths written in the architecture count.

Source: golikov · ntk-param-scaling · Eqs 2.12–2.19; Sohl-Dickstein et al. (2020), arXiv:2001.07301.
"""

from theorylab.models import NTK, Conv, Dense, SelfAttention
from theorylab.models.architecture import ConvTranspose
from theorylab.typing import Scalar

from .state import LayerState, Settings


def linear(
    state: LayerState,
    layer: Dense | Conv | ConvTranspose | SelfAttention,
    fan_in: int,
    channels: int,
    settings: Settings,
    has_bias: bool | None = None,
) -> LayerState:
    """Multiply by new weights, whose kernel is already the mean over the inputs they see.

    Args:
        state: What the weights see.
        layer: Whose weights they are.
        fan_in: How many inputs each of them sees.
        channels: How many channels come out.
        settings: The parametrization and its biases.
        has_bias: Whether there is a bias; as the layer says, if not given.

    Example: σ_w = 2 multiplies the covariance by 4.
        >>> import jax.numpy as jnp
        >>> state = LayerState(jnp.array([0.5]), None, (3,), paired=False, gaussian=False)
        >>> settings = Settings(NTK(weight_scale=2.0), "none", training=False, tangent=True)
        >>> after = linear(state, Dense(1), fan_in=3, channels=1, settings=settings)
        >>> after.nngp.tolist(), after.ntk.tolist()
        ([2.0], [2.0])
    """
    has_bias = layer.bias if has_bias is None else has_bias
    scale, bias_scale = (getattr(layer, name, None) for name in ("weight_scale", "bias_scale"))
    return weighted(state, scale, bias_scale, has_bias, fan_in, channels, settings)


def weighted(
    state: LayerState,
    scale: Scalar | None,
    bias_scale: Scalar | None,
    has_bias: bool,
    fan_in: int,
    channels: int,
    settings: Settings,
) -> LayerState:
    """The same, with the scales of one matrix.

    Args:
        state: What the weights see.
        scale: σ_w; None: the parametrization's.
        bias_scale: σ_b; None: the parametrization's.
        has_bias: Whether there is a bias, where the network has biases.
        fan_in: How many inputs each of the weights sees.
        channels: How many channels come out.
        settings: The parametrization and its biases.

    Example: σ_w = 2 multiplies the covariance by 4.
        >>> import jax.numpy as jnp
        >>> state = LayerState(jnp.array([0.5]), None, (3,), paired=False, gaussian=False)
        >>> settings = Settings(NTK(), "none", training=False, tangent=True)
        >>> weighted(state, 2.0, None, False, 3, 1, settings).nngp.tolist()
        [2.0]
    """
    scales = settings.parametrization
    ntk_scaled = isinstance(scales, NTK)
    variance = (scales.weight_scale if scale is None else scale) ** 2
    bias = (scales.bias_scale if bias_scale is None else bias_scale) ** 2
    has_bias = has_bias and settings.bias != "none"
    drawn = bias if has_bias and settings.bias == "normal" else 0.0
    trained = (bias if ntk_scaled else 1.0) if has_bias else 0.0
    ntk = None
    if settings.tangent:
        gain = variance if ntk_scaled else float(fan_in)
        ntk = gain * state.nngp + trained
        if state.ntk is not None:
            ntk = ntk + variance * state.ntk
    return state._replace(
        nngp=variance * state.nngp + drawn,
        ntk=ntk,
        shape=(*state.shape[:-1], channels),
        gaussian=True,
    )
