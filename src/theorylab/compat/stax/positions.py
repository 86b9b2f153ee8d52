"""Layers without weights, by Neural Tangents' names: pools, `LayerNorm`, `Aggregate`.

What differs by default from theorylab's layers: a pool moves by one position, not by its window;
the ε of `LayerNorm` is 1e-12; a graph's edge (i, j) leads from i to j; dropout is on.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jaxtyping import Array

from theorylab.models import Aggregate as OurAggregate
from theorylab.models import Architecture, GlobalPool, Serial
from theorylab.models import AvgPool as OurAvgPool
from theorylab.models import Dropout as OurDropout
from theorylab.models import Flatten as OurFlatten
from theorylab.models import LayerNorm as OurLayerNorm
from theorylab.models.architecture import Shape
from theorylab.models.mixing import Upsample

from ..layer import Layer, layer_of
from ..nodes import Leaf, Reading
from .weights import check_axes


def fixed(name: str, layer: Architecture) -> Layer:
    """Make a network of a layer without parameters.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.models import Activation
        >>> fixed("Relu", Activation("relu")).apply_fn((), jnp.array([[-1.0, 2.0]])).tolist()
        [[0.0, 2.0]]
    """
    return layer_of(Leaf(name, lambda shape, reading: layer))


def Identity() -> Layer:
    """Give the input back.

    Example:
        >>> import jax.numpy as jnp
        >>> Identity().apply_fn((), jnp.array([[1.0]])).tolist()
        [[1.0]]
    """
    return fixed("Identity", Serial())


def AvgPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    normalize_edges: bool = False,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Layer:
    """The average over a window.

    Args:
        window_shape: The size of the window along every position axis.
        strides: The steps of the window; None: 1.
        padding: "VALID", "SAME" or "CIRCULAR".
        normalize_edges: False: padded zeros count as values.
        batch_axis: 0.
        channel_axis: −1.

    Example:
        >>> import jax.numpy as jnp
        >>> AvgPool((2,)).apply_fn((), jnp.arange(3.0).reshape(1, 3, 1)).ravel().tolist()
        [0.5, 1.5]
    """
    if normalize_edges and padding == "SAME":
        raise NotImplementedError(
            "normalize_edges=True is not there: padded zeros count as values; use VALID."
        )
    return _pool("AvgPool", "mean", window_shape, strides, padding, batch_axis, channel_axis)


def SumPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Layer:
    """The sum over a window; arguments as those of `AvgPool`.

    Example:
        >>> import jax.numpy as jnp
        >>> SumPool((2,)).apply_fn((), jnp.arange(3.0).reshape(1, 3, 1)).ravel().tolist()
        [1.0, 3.0]
    """
    return _pool("SumPool", "sum", window_shape, strides, padding, batch_axis, channel_axis)


def _pool(
    name: str,
    reduce: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: Any,
    batch_axis: int,
    channel_axis: int,
) -> Layer:
    check_axes(batch_axis, channel_axis)
    window = tuple(window_shape)
    steps = (1,) * len(window) if strides is None else tuple(strides)
    return fixed(name, OurAvgPool(window, steps, padding.lower(), reduce))


def GlobalAvgPool(batch_axis: int = 0, channel_axis: int = -1) -> Layer:
    """The average over all positions.

    Example:
        >>> import jax.numpy as jnp
        >>> GlobalAvgPool().apply_fn((), jnp.arange(3.0).reshape(1, 3, 1)).tolist()
        [[1.0]]
    """
    check_axes(batch_axis, channel_axis)
    return fixed("GlobalAvgPool", GlobalPool())


def GlobalSumPool(batch_axis: int = 0, channel_axis: int = -1) -> Layer:
    """The sum over all positions.

    Example:
        >>> import jax.numpy as jnp
        >>> GlobalSumPool().apply_fn((), jnp.arange(3.0).reshape(1, 3, 1)).tolist()
        [[3.0]]
    """
    check_axes(batch_axis, channel_axis)
    return fixed("GlobalSumPool", GlobalPool("sum"))


def Flatten(batch_axis: int = 0, batch_axis_out: int = 0) -> Layer:
    """All positions and channels in one axis.

    Example:
        >>> Flatten().init_fn(None, (-1, 8, 8, 3))[0]
        (-1, 192)
    """
    check_axes(batch_axis, -1)
    check_axes(batch_axis_out, -1)
    return fixed("Flatten", OurFlatten())


def LayerNorm(
    axis: int | Sequence[int] = -1, eps: float = 1e-12, batch_axis: int = 0, channel_axis: int = -1
) -> Layer:
    """Channels of mean 0 and variance 1 at every position.

    Args:
        axis: The axes that are normalised together, the channels among them.
        eps: What is added to the variance.
        batch_axis: 0.
        channel_axis: −1.

    Example:
        >>> import jax.numpy as jnp
        >>> LayerNorm().apply_fn((), jnp.array([[1.0, 3.0]])).round(6).tolist()
        [[-1.0, 1.0]]
    """
    check_axes(batch_axis, channel_axis)

    def layer(shape: Shape, reading: Reading) -> Architecture:
        axes = {one % (len(shape) + 1) for one in ((axis,) if isinstance(axis, int) else axis)}
        if axes != {len(shape)}:
            raise NotImplementedError(f"axis must be the channels, -1, got {axis}.")
        return OurLayerNorm(epsilon=eps)

    return layer_of(Leaf("LayerNorm", layer))


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Keep every coordinate with some probability, and divide it by that.

    Args:
        rate: The probability of being kept.
        mode: "train", or "test": nothing happens.

    Example:
        >>> import jax.numpy as jnp
        >>> Dropout(0.5, mode="test").apply_fn((), jnp.array([[1.0]])).tolist()
        [[1.0]]
    """
    if mode not in ("train", "test"):
        raise ValueError(f"mode must be train or test, got {mode!r}.")
    kept = OurDropout(rate)
    return layer_of(
        Leaf(
            "Dropout",
            lambda shape, reading: kept if mode == "train" else Serial(),
            noisy=mode == "train",
        )
    )


def ImageResize(
    shape: Sequence[int],
    method: Any,
    antialias: bool = True,
    precision: Any = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Layer:
    """More positions: each one repeated, or linear in between.

    Args:
        shape: The shape that comes out, with samples and channels; −1 for what stays.
        method: "nearest" or "linear".
        antialias: Has no effect where positions are added.
        precision: Has no effect.
        batch_axis: 0.
        channel_axis: −1.

    Example:
        >>> ImageResize((-1, 6, -1), "nearest").init_fn(None, (-1, 3, 2))[0]
        (-1, 6, 2)
    """
    check_axes(batch_axis, channel_axis)
    name = getattr(method, "name", method).lower()
    known = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear"}
    if name not in (*known, "triangle"):
        raise ValueError(f"method must be nearest or linear, got {name}: no other has a kernel.")

    def layer(given: Shape, reading: Reading) -> Architecture:
        wanted = [old if new == -1 else new for old, new in zip(given, shape[1:], strict=True)]
        if shape[0] != -1 or wanted[-1] != given[-1]:
            raise ValueError(f"shape must keep samples and channels (-1), got {tuple(shape)}.")
        if any(new % old for old, new in zip(given, wanted, strict=True)):
            raise NotImplementedError(f"shape must be multiples of {given}, got {tuple(shape)}.")
        factors = (new // old for old, new in zip(given[:-1], wanted[:-1], strict=True))
        return Upsample(tuple(factors), known.get(name, "linear"))  # type: ignore[arg-type]

    return layer_of(Leaf("ImageResize", layer))


def Aggregate(
    aggregate_axis: int | Sequence[int] | None = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
    to_dense: Callable[[Array], Array] | None = None,
    implementation: str = "DENSE",
) -> Layer:
    """A sum over the neighbours in a graph, which is given beside the inputs: `pattern=`.

    Its entry (i, j) is the weight of the edge from i to j, y(j) = Σᵢ pattern(i, j) x(i). Without a
    pattern the layer is the identity.

    Args:
        aggregate_axis: The axis of positions, of which there is one.
        batch_axis: 0.
        channel_axis: −1.
        to_dense: Applied to every pattern.
        implementation: "DENSE"; of lists of edges make a matrix, `to_dense`.

    Example: an edge from the first node to the second.
        >>> import jax.numpy as jnp
        >>> pattern = jnp.array([[[0.0, 1.0], [0.0, 0.0]]])
        >>> x = jnp.array([[[1.0], [2.0]]])
        >>> Aggregate().apply_fn((), x, pattern=pattern).ravel().tolist()
        [0.0, 1.0]
    """
    check_axes(batch_axis, channel_axis)
    if aggregate_axis not in (None, 1, (1,), [1]):
        raise ValueError(f"aggregate_axis must be 1, the axis of nodes, got {aggregate_axis}.")
    if to_dense is not None or implementation != "DENSE":
        raise NotImplementedError("implementation must be DENSE: give pattern as a matrix.")

    def layer(shape: Shape, reading: Reading) -> Architecture:
        return OurAggregate(None) if reading.graphs else Serial()

    return layer_of(Leaf("Aggregate", layer))
