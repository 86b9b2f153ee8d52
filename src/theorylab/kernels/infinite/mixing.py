"""Layers that mix positions, or leave some out, at infinite width.

    Aggregate    K ← A K A′ᵀ                 Θ ← A Θ A′ᵀ              A: the graph of x
    Upsample     K ← M K Mᵀ                  Θ ← M Θ Mᵀ
    Dropout      K(x, x) ← K(x, x)/keep      Θ likewise, at s = s′

A mask of dropout is the same for x and x only: K(x, x) gets a factor 1/keep, another x′ has a mask
of its own, of mean 1.

Source: arora · ntk-practice · §9.5 (graphs).
"""

import math

import jax.numpy as jnp
from jaxtyping import Array

from theorylab.models import Aggregate, AvgPool, Dropout
from theorylab.models.architecture import Shape
from theorylab.models.mixing import Resize, Upsample
from theorylab.models.windows import resize, window_counts

from .positions import equal_positions, fitted, mixed, repeated
from .state import Context, Covariance, LayerState


def drop(layer: Dropout, state: LayerState, context: Context) -> LayerState:
    """The masks of dropout, while training.

    Example: the variance of what a mask of dropout keeps is 1/keep times as large.
        >>> from theorylab.kernels.infinite.state import Notes, Settings
        >>> from theorylab.models import NTK
        >>> state = LayerState(jnp.array([1.0]), None, (3,), paired=False, gaussian=True)
        >>> context = Context(Settings(NTK(), "none", training=True, tangent=True), Notes())
        >>> drop(Dropout(keep=0.5), state, context).nngp.tolist()
        [2.0]
    """
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


def aggregate(layer: Aggregate, state: LayerState, context: Context) -> LayerState:
    """Sums over neighbours in one graph, or in that of x and that of x′.

    Example: a graph that exchanges two positions.
        >>> from theorylab.kernels.infinite.state import Notes, Settings
        >>> from theorylab.models import NTK
        >>> kernel = jnp.array([[[1.0, 2.0], [2.0, 5.0]]])
        >>> state = LayerState(kernel, None, (2, 1), paired=True, gaussian=True)
        >>> context = Context(Settings(NTK(), "none", False, tangent=True), Notes())
        >>> aggregate(Aggregate(((0.0, 1.0), (1.0, 0.0))), state, context).nngp.tolist()
        [[[5.0, 2.0], [2.0, 1.0]]]
    """
    if layer.graph is None:
        return mixed(state, *context.notes.of(lambda: _present(context.graphs)))
    matrix = fitted(jnp.asarray(layer.graph, state.nngp.dtype), state.nngp)
    return mixed(state, matrix, matrix)


def _present(graphs: Array | None) -> Array:
    if graphs is None:
        raise ValueError("graphs must be given: Aggregate(None) has no graph of its own.")
    return graphs


def averaged_windows(layer: AvgPool, shape: Shape, summed: LayerState) -> LayerState:
    """Means over windows, of their sums.

    Args:
        layer: It says what counts as a value.
        shape: The shape of an input of the layer.
        summed: Sums over the windows of s and of s′.

    Example: windows of two and of one position.
        >>> layer = AvgPool((2,), padding="same", count_padding=False)
        >>> kernel = jnp.array([[[8.0, 2.0], [2.0, 1.0]]])
        >>> summed = LayerState(kernel, None, (2, 1), paired=True, gaussian=True)
        >>> averaged_windows(layer, (3, 1), summed).nngp.tolist()
        [[[2.0, 1.0], [1.0, 1.0]]]
    """
    if layer.reduce == "sum":
        return summed
    if layer.count_padding:
        count = math.prod(layer.window)
        return summed.mapped(lambda kernel: kernel / count**2)
    counts = window_counts(shape[:-1], layer.window, layer.strides, layer.padding)

    def divide(kernel: Covariance) -> Covariance:
        for group, numbers in zip(summed.axes, counts, strict=True):
            for axis in group:
                along = [1] * kernel.ndim
                along[axis] = -1
                kernel = kernel / jnp.asarray(numbers, kernel.dtype).reshape(along)
        return kernel

    return summed.mapped(divide)


def enlarge(layer: Upsample | Resize, state: LayerState) -> LayerState:
    """More or fewer positions: the nearest ones, or linear in between.

    Example: variances 1 and 5 at two positions, of which each is repeated.
        >>> state = LayerState(jnp.array([[1.0, 5.0]]), None, (2, 1), paired=False, gaussian=True)
        >>> enlarge(Upsample((2,)), state).nngp.tolist()
        [[1.0, 1.0, 5.0, 5.0]]
    """
    if isinstance(layer, Upsample) and layer.method == "nearest":
        return repeated(state, layer.factors)
    antialias = isinstance(layer, Upsample) or layer.antialias
    axes, shape = state.axes, layer.output_shape(state.shape)

    def stretch(array: Covariance) -> Covariance:
        for group, size, new in zip(axes, state.shape, shape, strict=False):
            if new == size:
                continue
            unit = jnp.eye(size, dtype=array.dtype)[:, :, None]
            matrix = resize(unit, (new,), layer.method, antialias)[:, :, 0]  # (size, new)
            for axis in group:
                array = jnp.moveaxis(jnp.tensordot(array, matrix, ((axis,), (0,))), -1, axis)
        return array

    return state.mapped(stretch, shape)
