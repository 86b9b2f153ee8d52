"""Layers without weights, by Neural Tangents' names: pools, `LayerNorm`, `Dropout`.

What differs by default from theorylab's layers: a pool moves by one position, not by its window;
the ε of `LayerNorm` is 1e-12; dropout is on.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from theorylab.models import Architecture, GlobalPool, Serial
from theorylab.models import AvgPool as OurAvgPool
from theorylab.models import Dropout as OurDropout
from theorylab.models import Flatten as OurFlatten
from theorylab.models import LayerNorm as OurLayerNorm
from theorylab.models.architecture import Shape

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
    pool = _pool("mean", window_shape, strides, padding, batch_axis, channel_axis)
    return fixed("AvgPool", replace(pool, count_padding=not normalize_edges))


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
    pool = _pool("sum", window_shape, strides, padding, batch_axis, channel_axis)
    return fixed("SumPool", pool)


def _pool(
    reduce: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: Any,
    batch_axis: int,
    channel_axis: int,
) -> OurAvgPool:
    check_axes(batch_axis, channel_axis)
    window = tuple(window_shape)
    steps = (1,) * len(window) if strides is None else tuple(strides)
    return OurAvgPool(window, steps, padding.lower(), reduce)


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
        if 0 in axes:
            raise ValueError(
                f"axis must not be that of samples, 0: take out what couples, got {axis}."
            )
        return OurLayerNorm(epsilon=eps, axes=tuple(sorted(one - len(shape) - 1 for one in axes)))

    return layer_of(Leaf("LayerNorm", layer))


def Dropout(rate: float | int, mode: str = "train") -> Layer:
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
