"""Masks at infinite width: a missing position has covariance 0 with every other.

    K(s, s′) ← 0                                if s is missing of x, or s′ of x′
    GlobalPool    K ← Σ_ss′ K(s, s′)/(S S′)     S, S′: how many positions are there

What is missing after a layer is said by `theorylab.models.masks`, as for finite networks.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool

from theorylab.models import Architecture, Serial
from theorylab.models.masks import output_mask

from .positions import placed
from .state import Covariance, LayerState


def remasked(layer: Architecture, before: LayerState, after: LayerState) -> LayerState:
    """What a layer gives, 0 where something is missing, with the masks after it.

    Example: a bias does not count where the second position is missing.
        >>> from theorylab.models import Dense
        >>> mask = jnp.array([False, True]).reshape(1, 2, 1)
        >>> before = LayerState(jnp.ones((1, 2, 2)), None, (2, 1), True, True, (mask, mask))
        >>> remasked(Dense(1), before, before).nngp.tolist()
        [[[1.0, 0.0], [0.0, 0.0]]]
    """
    if before.masks is None or isinstance(layer, Serial):  # inside, every layer has done it
        return after
    masks = [output_mask(layer, mask, before.shape) for mask in before.masks]
    first, second = (mask.all(axis=-1, keepdims=True) for mask in masks)
    after = after._replace(masks=(first, second))

    def zeroed(kernel: Covariance) -> Covariance:
        return jnp.where(missing_pairs(after, kernel), jnp.zeros((), kernel.dtype), kernel)

    return after.mapped(zeroed)


def missing_pairs(state: LayerState, kernel: Covariance) -> Bool[Array, "..."]:
    """Where a position of x or of x′ is missing, as wide as the kernel.

    Example: one position is missing of each, another one.
        >>> masks = (jnp.array([[[False], [True]]]), jnp.array([[[True], [False]]]))
        >>> state = LayerState(jnp.ones((1, 2, 2)), None, (2, 1), True, True, masks)
        >>> missing_pairs(state, state.nngp).tolist()
        [[[True, False], [True, True]]]
    """
    first, second = facing(state, *flat_masks(state))
    if state.paired:
        num_axes = len(state.shape) - 1
        first, second = placed(first, num_axes, 1), placed(second, num_axes, 2)
    return jnp.broadcast_to(first | second, kernel.shape)


def facing(state: LayerState, first: Array, second: Array) -> tuple[Array, Array]:
    """Arrays of x and of x′, (n, ...) each, so that they broadcast as the kernel's pairs do.

    Example: all of two inputs with all of three.
        >>> state = LayerState(jnp.ones((2, 3)), None, (4,), paired=False, gaussian=True)
        >>> [array.shape for array in facing(state, jnp.ones(2), jnp.ones(3))]
        [(2, 1), (1, 3)]
    """
    axes = (len(state.shape) - 1) * (2 if state.paired else 1)
    if state.nngp.ndim - axes == 2:
        return first[:, None], second[None, :]
    return first, second


def pooled_present(state: LayerState) -> LayerState:
    """The mean over all pairs of positions that are there.

    Example: K(0, 0) alone is there.
        >>> mask = jnp.array([False, True]).reshape(1, 2, 1)
        >>> kernel = jnp.array([[[3.0, 0.0], [0.0, 0.0]]])
        >>> pooled_present(LayerState(kernel, None, (2, 1), True, True, (mask, mask))).nngp.tolist()
        [3.0]
    """
    counts = [(~mask).sum(axis=tuple(range(1, mask.ndim))) for mask in flat_masks(state)]
    first, second = facing(state, *(jnp.maximum(count, 1) for count in counts))
    number = (first * second).astype(state.nngp.dtype)
    axes = tuple(axis for group in state.axes for axis in group)
    return state.mapped(lambda kernel: kernel.sum(axis=axes) / number, state.shape[-1:])


def missing_keys(state: LayerState) -> tuple[Array, Array] | tuple[None, None]:
    """Where a position of x, or of x′, cannot be attended to: (pairs of inputs, 1, positions).

    Example:
        >>> masks = (jnp.array([[[False], [True]]]), jnp.array([[[True], [False]]]))
        >>> state = LayerState(jnp.ones((1, 2, 2)), None, (2, 1), True, True, masks)
        >>> [missing.tolist() for missing in missing_keys(state)]
        [[[[False, True]]], [[[True, False]]]]
    """
    if state.masks is None:
        return None, None
    flat = (mask.reshape(mask.shape[0], 1, -1) for mask in flat_masks(state))
    first, second = facing(state, *flat)
    return first, second


def flat_masks(state: LayerState) -> list[Bool[Array, "..."]]:
    """The masks of x and of x′ without an axis for channels.

    Example:
        >>> masks = (jnp.zeros((2, 3, 1), bool), jnp.zeros((4, 3, 1), bool))
        >>> state = LayerState(jnp.ones((2, 4, 3)), None, (3, 1), False, True, masks)
        >>> [mask.shape for mask in flat_masks(state)]
        [(2, 3), (4, 3)]
    """
    return [mask[..., 0] for mask in state.masks or ()]
