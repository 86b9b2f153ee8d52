"""Some positions, or some channels, at infinite width.

positions    K(s, s′) ← K(entry s, entry s′)
channels     K stays: the channels are alike, if they come from a layer of weights
"""

from theorylab.models.selection import Index

from .state import Covariance, LayerState


def selected(layer: Index, state: LayerState) -> LayerState:
    """Keep what an index keeps.

    Example: the second of two positions.
        >>> import jax.numpy as jnp
        >>> kernel = jnp.array([[[1.0, 2.0], [2.0, 5.0]]])
        >>> state = LayerState(kernel, None, (2, 1), paired=True, gaussian=True)
        >>> selected(Index(1), state).nngp.tolist()
        [5.0]
    """
    shape = layer.output_shape(state.shape)
    if shape[-1] != state.shape[-1] and not state.gaussian:
        raise ValueError(
            f"{layer!r} must stand after a Dense layer or another layer of weights to choose among "
            "channels: elsewhere they are not alike, and K is their mean."
        )
    *entries, _ = layer.at(state.shape)

    def kept(array: Covariance) -> Covariance:
        sides = zip(entries, state.axes, strict=True)
        return array[..., *(entry for entry, group in sides for _ in group)]

    return state.mapped(kept, shape)
