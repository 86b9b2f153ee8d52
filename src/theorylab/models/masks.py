"""Masks: inputs some of whose positions are missing, such as sequences of several lengths.

    Masked(x, mask)        mask (n, *positions): True where a position is missing

What stands at a missing position changes nothing: it is 0 between any two layers. Layers that
reduce positions leave missing ones out:

    GlobalPool             the mean over the positions that are there
    LayerNorm, BatchNorm   mean and variance of what is there
    SelfAttention          softmax over the keys that are there
    Conv, AvgPool          sums over windows, in which missing positions count as zeros
    Flatten                keeps missing positions, as zeros

A mask is changed with the positions: a window is missing if its middle is, what a transposed
convolution gives is missing if anything of it comes from a missing position, what interpolation and
products with fixed arrays give is missing if all of it does. Sums and products of branches are
missing where every branch is.

Source: Neural Tangents (2020), arXiv:1912.02803, whose rules these are.
"""

import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from theorylab.answers import Answer

from .architecture import (
    Architecture,
    AvgPool,
    Concatenate,
    Conv,
    ConvTranspose,
    Dense,
    Flatten,
    GlobalPool,
    Product,
    Residual,
    Serial,
    Shape,
)
from .branches import Parallel
from .custom_layer import CustomLayer
from .einsum import Einsum, einsum_of_inputs
from .mixing import Resize, SelfAttention, Upsample
from .selection import Index
from .unfold import Patches
from .windows import Padding, convolve_transposed, num_windows, paddings, resize, upsample

_ROUNDING = 1e-5  # of weights that are 0 or at least 1/(2 · factor)

# (n, *positions, 1); after `Flatten` and `Concatenate` of every channel, (n, *positions, channels).
Mask = Bool[Array, "..."]


class Masked(Answer):
    """Inputs with missing positions, taken wherever inputs are.

    Args:
        x: The inputs, (n, *positions, channels).
        mask: True where a position is missing, (n, *positions).

    Example: two sequences, of three positions and of two.
        >>> x = jnp.array([[[1.0], [2.0], [3.0]], [[4.0], [5.0], [99.0]]])
        >>> mask = jnp.arange(3)[None, :] >= jnp.array([[3], [2]])
        >>> mask.tolist()
        [[False, False, False], [False, False, True]]
        >>> Masked(x, mask).x.shape
        (2, 3, 1)
    """

    x: Array
    mask: Array


def mask_constant(x: Float[Array, "n ..."], constant: float) -> Masked:
    """Mask the positions all channels of which are equal to a constant, which may be NaN.

    The constant travels with the inputs, so whatever takes `apply(params, x)` takes

        lambda params, x: model.apply(params, mask_constant(x, -1.0))

    Args:
        x: The inputs, (n, *positions, channels).
        constant: What stands where something is missing.

    Example:
        >>> x = jnp.array([[[1.0, -1.0], [-1.0, -1.0]]])
        >>> masked = mask_constant(x, -1.0)
        >>> masked.mask.tolist(), masked.x.tolist()
        ([[False, True]], [[[1.0, 0.0], [0.0, 0.0]]])
    """
    missing = jnp.isnan(x) if math.isnan(constant) else x == constant
    return Masked(jnp.where(missing, 0.0, x), missing.all(axis=-1))


def unmasked(inputs: Any, name: str = "inputs") -> tuple[Any, Mask | None]:
    """The inputs, 0 where a position is missing, and the mask with an axis for channels, if any.

    Args:
        inputs: Inputs, masked or not.
        name: What an error calls them.

    Example:
        >>> x, mask = unmasked(Masked(jnp.ones((1, 2, 3)), jnp.array([[False, True]])))
        >>> x[0, :, 0].tolist(), mask.shape
        ([1.0, 0.0], (1, 2, 1))
    """
    if not isinstance(inputs, Masked):
        return inputs, None
    x, mask = inputs.x, inputs.mask
    if mask.dtype != bool:
        raise TypeError(f"the mask of {name} must be boolean, got an array of {mask.dtype}.")
    if mask.shape != x.shape[:-1]:
        expected = f"one entry for every position, {x.shape[:-1]}"
        raise ValueError(f"the mask of {name} must have {expected}, got shape {mask.shape}.")
    mask = jnp.asarray(mask)[..., None]
    return zeroed(jnp.asarray(x), mask), mask


def zeroed(x: Array, mask: Mask | None) -> Array:
    """The same with 0 where something is missing.

    Example:
        >>> zeroed(jnp.array([[1.0, 2.0]]), jnp.array([[True, False]])).tolist()
        [[0.0, 2.0]]
    """
    return x if mask is None else jnp.where(mask, jnp.zeros((), x.dtype), x)


def mean_of_present(x: Array, mask: Mask | None, axes: tuple[int, ...]) -> Array:
    """The mean over axes, which stay, of what is there; 0 where nothing is.

    Example:
        >>> mask = jnp.array([[False, False, True]])
        >>> mean_of_present(jnp.array([[1.0, 2.0, 99.0]]), mask, (1,)).tolist()
        [[1.5]]
    """
    if mask is None:
        return x.mean(axis=axes, keepdims=True)
    there = jnp.broadcast_to(~mask, x.shape)
    count = jnp.maximum(there.sum(axis=axes, keepdims=True), 1)
    return zeroed(x, mask).sum(axis=axes, keepdims=True) / count.astype(x.dtype)


def output_mask(layer: Architecture, mask: Mask, shape: Shape) -> Mask:
    """Say what is missing after a layer.

    Args:
        layer: A layer, or a tree of layers.
        mask: What is missing before it, (n, *positions, 1), or of every channel.
        shape: The shape of one input of the layer.

    Example: a window is missing if its middle is.
        >>> mask = jnp.array([False, False, False, True, True]).reshape(1, 5, 1)
        >>> output_mask(Conv(8, (3,)), mask, (5, 2)).ravel().tolist()
        [False, False, True]
    """
    match layer:
        case Serial():
            for inner in layer.layers:
                mask, shape = output_mask(inner, mask, shape), inner.output_shape(shape)
            return mask
        case Residual() | Product():
            ways = (layer.shortcut, layer.branch)
            first, second = (output_mask(way, mask, shape) for way in ways)
            return first & second
        case Concatenate():
            both = Parallel(Serial(), layer.branch, join="concatenate")
            return output_mask(both, mask, shape)
        case Parallel():
            return _joined(layer, mask, shape)
        case Dense() | SelfAttention():
            return mask.all(axis=-1, keepdims=True)
        case Conv() | Patches():
            return _middles(mask.all(axis=-1, keepdims=True), layer)
        case AvgPool():
            return _middles(mask, layer)
        case ConvTranspose():
            return _spread(mask.all(axis=-1, keepdims=True), layer)
        case GlobalPool():
            return mask.all(axis=tuple(range(1, mask.ndim - 1)))
        case Flatten():
            return _of_channels(mask, shape).reshape(mask.shape[0], math.prod(shape))
        case Upsample():
            there = upsample((~mask).astype(float), layer.factors, layer.method)
            return there < _ROUNDING
        case Resize():
            there = (~mask).astype(float)
            return resize(there, layer.positions, layer.method, layer.antialias) < _ROUNDING
        case Index():
            *entries, channels = layer.at(shape)
            return mask[(slice(None), *entries, channels if mask.shape[-1] > 1 else slice(None))]
        case Einsum():
            return _contracted(layer, mask, shape)
        case CustomLayer():
            return layer.output_mask(mask, shape)
    if layer.output_shape(shape)[:-1] != shape[:-1]:
        raise TypeError(f"there is no rule for masks through a {type(layer).__name__}.")
    return mask


def _of_channels(mask: Mask, shape: Shape) -> Mask:
    return jnp.broadcast_to(mask, (mask.shape[0], *shape))


def _joined(layer: Parallel, mask: Mask, shape: Shape) -> Mask:
    masks = [output_mask(branch, mask, shape) for branch in layer.branches]
    if layer.join != "concatenate":
        return functools.reduce(jnp.logical_and, masks)
    shapes = [branch.output_shape(shape) for branch in layer.branches]
    axis = layer.joined_axis(shapes[0])
    if axis == len(shapes[0]) - 1 or any(each.shape[-1] > 1 for each in masks):
        masks = list(map(_of_channels, masks, shapes))
    return jnp.concatenate(masks, axis=axis + 1)


def _contracted(layer: Einsum, mask: Mask, shape: Shape) -> Mask:
    """Whether every entry is missing that counts."""
    there = (~_of_channels(mask, shape)).astype(float)
    sizes = Einsum(layer.formula, np.abs(layer.array.array))
    missing = einsum_of_inputs(sizes, there) == 0
    return missing if mask.shape[-1] > 1 else missing.all(axis=-1, keepdims=True)


def _middles(mask: Mask, layer: Conv | AvgPool | Patches) -> Mask:
    """Whether the position in the middle of every window is missing."""
    positions, window, strides = mask.shape[1:-1], layer.window, layer.strides
    padding: Padding = "valid" if layer.padding == "valid" else "same"
    added = paddings(positions, window, strides, padding)
    counts = num_windows(positions, window, strides, padding)
    for axis, (width, stride, pads, count) in enumerate(
        zip(window, strides, added, counts, strict=True), start=1
    ):
        middles = (width - 1) // 2 - pads[0] + stride * np.arange(count)
        mask = jnp.take(mask, middles, axis=axis)
    return mask


def _spread(mask: Mask, layer: ConvTranspose) -> Mask:
    """Whether anything comes from a missing position, of what is not wrapped around."""
    ones = jnp.ones((*layer.window, 1, 1))
    padding: Padding = "valid" if layer.padding == "valid" else "same"
    return convolve_transposed(mask.astype(float), ones, layer.strides, padding) > 0
