"""Linear maps of positions, as they act on a covariance K(s, s′).

    convolution    K(s, s′) ← Σᵣ K(ts + r, ts′ + r)             the same weights at s and s′: r = r′
    pooling        K(s, s′) ← Σᵣ Σᵣ′ K(ts + r, ts′ + r′)        no weights: r and r′ run freely
    transposed     K(ts + r, ts′ + r) ← K(s, s′), summed
    matrix M       K ← M K Mᵀ                                   graphs, attention, upsampling

with stride t. Windows over several axes are taken one axis after the other: 3 + 3 terms in place of
3 · 3. With s = s′ only, a convolution is a sum along single axes.

Source: golikov · ntk-conv · Eqs 2.62–2.78, with r = r′ in place of the printed double sum.
"""

import math
import operator
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models.windows import Padding, num_transposed_windows, num_windows, paddings

from .state import Covariance, LayerState, materialized


def windowed(
    state: LayerState,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Padding,
    together: bool,
) -> LayerState:
    """Sum over windows of positions.

    Args:
        state: What comes in.
        window: The size of the window along every position axis.
        strides: Its steps.
        padding: "valid", "same" or "circular".
        together: True: the windows of s and s′ are at the same place r = r′, as weights tie them.

    Example: a window over both positions: with shared weights K(0, 0) + K(1, 1), else all four.
        >>> kernel = jnp.array([[[1.0, 2.0], [2.0, 5.0]]])
        >>> state = LayerState(kernel, None, (2, 1), paired=True, gaussian=True)
        >>> [windowed(state, (2,), (1,), "valid", shared).nngp.item() for shared in (True, False)]
        [6.0, 10.0]
    """
    positions = state.shape[:-1]
    added = paddings(positions, window, strides, padding)
    counts = num_windows(positions, window, strides, padding)
    wrap = padding == "circular"

    def sums(array: Covariance) -> Covariance:
        for axes, width, stride, pads in zip(state.axes, window, strides, added, strict=True):
            for group in [axes] if together else [(axis,) for axis in axes]:
                array = _slide(array, group, width, stride, pads, wrap)
        return materialized(array)

    return state.mapped(sums, (*counts, state.shape[-1]))


def spread(
    state: LayerState, window: tuple[int, ...], strides: tuple[int, ...], padding: Padding
) -> LayerState:
    """Spread every position over its window: the adjoint of `windowed` with r = r′.

    Example: one position over a window of two.
        >>> state = LayerState(jnp.array([[[3.0]]]), None, (1, 1), paired=True, gaussian=True)
        >>> spread(state, (2,), (1,), "valid").nngp.tolist()
        [[[3.0, 0.0], [0.0, 3.0]]]
    """
    counts = num_transposed_windows(state.shape[:-1], window, strides, padding)
    added = paddings(counts, window, strides, padding)
    wrap = padding == "circular"

    def sums(array: Covariance) -> Covariance:
        for axes, width, stride, size, pads in zip(
            state.axes, window, strides, counts, added, strict=True
        ):
            array = _scatter(array, axes, width, stride, size, pads[0], wrap)
        return array

    return state.mapped(sums, (*counts, state.shape[-1]))


def averaged(state: LayerState, how: str) -> LayerState:
    """The mean, or sum, over all positions s and s′.

    Example:
        >>> kernel = jnp.array([[[1.0, 2.0], [2.0, 5.0]]])
        >>> state = LayerState(kernel, None, (2, 1), paired=True, gaussian=True)
        >>> averaged(state, "mean").nngp.tolist(), averaged(state, "sum").nngp.tolist()
        ([2.5], [10.0])
    """
    axes = tuple(axis for group in state.axes for axis in group)
    function = jnp.mean if how == "mean" else jnp.sum
    return state.mapped(lambda array: function(array, axis=axes), state.shape[-1:])


def flattened(state: LayerState) -> LayerState:
    """The mean over positions s = s′: what a layer over all positions and channels sees.

    Example: the mean of K(0, 0) = 1 and K(1, 1) = 5.
        >>> kernel = jnp.array([[[1.0, 2.0], [2.0, 5.0]]])
        >>> flattened(LayerState(kernel, None, (2, 1), paired=True, gaussian=True)).nngp.tolist()
        [3.0]
    """
    state = narrowed(state)
    axes = tuple(axis for group in state.axes for axis in group)
    alone = math.prod(state.shape[:-1]) == 1
    shape = (math.prod(state.shape),)
    # Other positions have other variances: the channels are no longer alike.
    return state.mapped(lambda array: array.mean(axis=axes), shape)._replace(
        gaussian=state.gaussian and alone
    )


def narrowed(state: LayerState) -> LayerState:
    """Keep s = s′ only.

    Example:
        >>> kernel = jnp.array([[[1.0, 2.0], [2.0, 5.0]]])
        >>> narrowed(LayerState(kernel, None, (2, 1), paired=True, gaussian=True)).nngp.tolist()
        [[1.0, 5.0]]
    """
    if not state.paired:
        return state
    num_axes = len(state.shape) - 1
    return state.mapped(lambda array: _diagonal(array, num_axes))._replace(paired=False)


def widened(state: LayerState) -> LayerState:
    """All pairs of positions, with 0 where s ≠ s′.

    Example:
        >>> state = LayerState(jnp.array([[1.0, 5.0]]), None, (2, 1), paired=False, gaussian=True)
        >>> widened(state).nngp.tolist()
        [[[1.0, 0.0], [0.0, 5.0]]]
    """
    same = equal_positions(state.shape[:-1], state.nngp.dtype)
    num_axes = len(state.shape) - 1

    def spread_out(array: Covariance) -> Covariance:
        rows = placed(array, num_axes, 1)
        return rows * fitted(same, rows)

    return state.mapped(spread_out)._replace(paired=True)


def equal_positions(positions: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "..."]:
    """1 where s = s′ and 0 elsewhere, with interleaved axes.

    Example:
        >>> equal_positions((2,), jnp.dtype(float)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        >>> equal_positions((2, 3), jnp.dtype(float)).shape
        (2, 2, 3, 3)
    """
    same = jnp.ones((), dtype)
    for size in positions:
        same = jnp.multiply.outer(same, jnp.eye(size, dtype=dtype))
    return same


def repeated(state: LayerState, factors: tuple[int, ...]) -> LayerState:
    """Repeat every position, along every axis.

    Example:
        >>> state = LayerState(jnp.array([[1.0, 5.0]]), None, (2, 1), paired=False, gaussian=True)
        >>> repeated(state, (2,)).nngp.tolist()
        [[1.0, 1.0, 5.0, 5.0]]
    """

    def repeat(array: Covariance) -> Covariance:
        for axes, factor in zip(state.axes, factors, strict=True):
            for axis in axes:
                array = jnp.repeat(array, factor, axis=axis)
        return array

    sizes = (size * factor for size, factor in zip(state.shape, factors, strict=False))
    return state.mapped(repeat, (*sizes, state.shape[-1]))


def mixed(
    state: LayerState, first: Float[Array, "... s t"], second: Float[Array, "... s t"]
) -> LayerState:
    """K ← M₁ K M₂ᵀ, over all positions as one axis; the number of positions stays.

    Example: matrices that exchange two positions.
        >>> kernel = jnp.array([[[1.0, 2.0], [2.0, 5.0]]])
        >>> swap = jnp.array([[[0.0, 1.0], [1.0, 0.0]]])
        >>> state = LayerState(kernel, None, (2, 1), paired=True, gaussian=True)
        >>> mixed(state, swap, swap).nngp.tolist()
        [[[5.0, 2.0], [2.0, 1.0]]]
    """

    def mix(array: Covariance) -> Covariance:
        matrix = as_matrix(array, state.shape[:-1])
        return as_pairs(first @ matrix @ jnp.swapaxes(second, -1, -2), state.shape[:-1])

    return state.mapped(mix)


def as_matrix(array: Covariance, positions: tuple[int, ...]) -> Float[Array, "... s t"]:
    """(..., H, H′, W, W′) ─► (..., HW, H′W′).

    Example: three pairs of inputs with 2 × 4 positions.
        >>> as_matrix(jnp.ones((3, 2, 2, 4, 4)), (2, 4)).shape
        (3, 8, 8)
    """
    num_axes, lead = len(positions), array.ndim - 2 * len(positions)
    order = [lead + 2 * axis + side for side in (0, 1) for axis in range(num_axes)]
    size = math.prod(positions)
    return array.transpose(*range(lead), *order).reshape(*array.shape[:lead], size, size)


def as_pairs(matrix: Float[Array, "... s t"], positions: tuple[int, ...]) -> Covariance:
    """(..., HW, H′W′) ─► (..., H, H′, W, W′).

    Example: three pairs of inputs with 2 × 4 positions.
        >>> as_pairs(jnp.ones((3, 8, 8)), (2, 4)).shape
        (3, 2, 2, 4, 4)
    """
    num_axes, lead = len(positions), matrix.ndim - 2
    split = matrix.reshape(*matrix.shape[:lead], *positions, *positions)
    order = [lead + side * num_axes + axis for axis in range(num_axes) for side in (0, 1)]
    return split.transpose(*range(lead), *order)


def placed(array: Array, num_axes: int, side: int) -> Array:
    """An array that ends with the positions of x (side 1) or x′ (side 2), to fit pairs of them.

    Example: variances at two positions, as rows and as columns.
        >>> variances = jnp.array([1.0, 5.0])
        >>> placed(variances, 1, side=1).shape, placed(variances, 1, side=2).shape
        ((2, 1), (1, 2))
    """
    lead = array.ndim - num_axes
    return jnp.expand_dims(array, tuple(range(lead + 2 - side, lead + 2 * num_axes, 2)))


def fitted(array: Array, kernel: Array) -> Array:
    """An array with as many axes as the kernel, whose last ones are its own.

    Example:
        >>> fitted(jnp.eye(2), kernel=jnp.ones((5, 2, 2))).shape
        (1, 2, 2)
    """
    return jnp.expand_dims(array, tuple(range(kernel.ndim - array.ndim)))


def _diagonal(array: Covariance, num_axes: int) -> Covariance:
    """The entries with s = s′ of an array that ends with this many pairs of position axes."""
    lead = array.ndim - 2 * num_axes
    for _ in range(num_axes):  # the diagonal goes to the end, so the next pair comes to the front
        array = jnp.diagonal(array, axis1=lead, axis2=lead + 1)
    return array


def _slide(
    array: Covariance,
    axes: tuple[int, ...],
    width: int,
    stride: int,
    pads: tuple[int, int],
    wrap: bool,
) -> Covariance:
    """Σᵣ array(stride · s + r), moving along all these axes at once."""
    array = materialized(array)
    before, after = pads
    if wrap and before + after:
        array = jnp.pad(array, _at(array, axes, pads, (0, 0)), mode="wrap")
        before = after = 0
    size = array.shape[axes[0]]
    reach = (size + before + after - width) // stride * stride  # where the last window begins

    def seen(r: int) -> Covariance:
        # Cut away what lies before the first place, or pad; the same after the last; then stride.
        start = r - before
        moved = _padded(array, axes, (-start, start + reach + 1 - size, 0))
        steps = _at(array, axes, stride, 1)
        return jax.lax.slice(moved, [0] * array.ndim, moved.shape, steps)

    return reduce(operator.add, map(seen, range(width)))


def _scatter(
    array: Covariance,
    axes: tuple[int, ...],
    width: int,
    stride: int,
    size: int,
    before: int,
    wrap: bool,
) -> Covariance:
    """Σᵣ of the array spread to stride · s + r − before, moving along all these axes at once."""
    missing = size - stride * (array.shape[axes[0]] - 1) - 1
    apart = _padded(array, axes, (0, missing, stride - 1))

    def shifted(r: int) -> Covariance:
        shift = r - before
        if wrap:
            return jnp.roll(apart, (shift,) * len(axes), axes)
        return _padded(apart, axes, (shift, -shift, 0))

    return reduce(operator.add, map(shifted, range(width)))


def _padded(array: Array, axes: tuple[int, ...], edges: tuple[int, int, int]) -> Array:
    """Zeros before, after and in between along these axes; a negative number cuts away."""
    return jax.lax.pad(array, jnp.zeros((), array.dtype), _at(array, axes, edges, (0, 0, 0)))


def _at(array: Array, axes: tuple[int, ...], here: Any, elsewhere: Any) -> list[Any]:
    """One setting for these axes (counted from the end), another for all others."""
    return [here if axis - array.ndim in axes else elsewhere for axis in range(array.ndim)]
