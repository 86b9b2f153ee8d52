"""A layer of the user's, at infinite width: it says itself what it makes of the kernels."""

import jax.numpy as jnp

from theorylab.models.custom_layer import CustomLayer, LayerKernels

from .gaussian import check_gaussian, variances
from .state import Context, LayerState


def customised(layer: CustomLayer, state: LayerState, context: Context) -> LayerState:
    """Ask the layer, and check the shapes of what it says.

    Example: a layer that doubles its inputs.
        >>> from dataclasses import dataclass
        >>> from theorylab.kernels.infinite.state import Notes, Settings
        >>> from theorylab.models import NTK
        >>> @dataclass(frozen=True)
        ... class Doubled(CustomLayer):
        ...     output_shape = lambda self, shape: shape
        ...     apply = lambda self, params, x: 2 * x
        ...     kernel = lambda self, kernels: kernels.replace(nngp=4 * kernels.nngp)
        >>> state = LayerState(jnp.array([1.0]), None, (3,), paired=False, gaussian=True)
        >>> context = Context(Settings(NTK(), "none", False, tangent=False), Notes())
        >>> customised(Doubled(), state, context).nngp.tolist()
        [4.0]
    """
    name = type(layer).__name__
    if layer.needs_gaussian:
        check_gaussian(name, state)
    one, other = variances(state, context)
    ntk = jnp.zeros_like(state.nngp) if state.ntk is None else state.ntk
    given = LayerKernels(state.nngp, ntk, one, other, shape=state.shape, paired=state.paired)
    made, shape = layer.kernel(given), layer.output_shape(state.shape)
    lead = state.nngp.shape[: state.nngp.ndim - sum(map(len, state.axes))]
    step = 2 if state.paired else 1
    expected = (*lead, *(size for size in shape[:-1] for _ in range(step)))
    for kind, kernel in (("nngp", made.nngp), ("ntk", made.ntk)):
        if kernel.shape != expected:
            raise ValueError(
                f"kernel of {name} must give an {kind} of shape {expected}, got {kernel.shape}."
            )
    return LayerState(
        nngp=made.nngp,
        ntk=made.ntk if context.settings.tangent else None,
        shape=shape,
        paired=state.paired,
        gaussian=layer.outputs == "new" or (layer.outputs == "kept" and state.gaussian),
    )
