"""Convolutions as matrix products: every position gets its whole window, then a dense layer.

    Conv(m, window)  =  Patches(window), Dense(m)

The weights are the same numbers, (*window, c, m) ─► (Π window · c, m), and so are fan-in, scaling
and outputs. An unfolded network has no infinite-width reading; ask that of the architecture it was
made from. It is seldom needed: loops of this library bring convolutions into a form that a CPU
computes fast by themselves (`fast_convolutions`).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from .architecture import Architecture, Concatenate, Conv, Dense, Product, Residual, Serial, Shape
from .branches import Parallel
from .windows import Padding, num_windows, paddings


@dataclass(frozen=True)
class Patches(Architecture):
    """Every position gets the channels of its whole window, y(s) = [x(strides · s + r)]ᵣ.

    Args:
        window: The size of the window along every position axis.
        strides: The steps of the window; (): 1 along every axis.
        padding: "valid" (none), "same" (zeros) or "circular" (wrapped around); see `windows`.

    Example:
        >>> Patches((3, 3), (2, 2)).output_shape((16, 16, 1))
        (7, 7, 9)
    """

    window: tuple[int, ...]
    strides: tuple[int, ...] = ()
    padding: Padding = "valid"

    def __post_init__(self) -> None:
        # A convolution of one channel checks the window, and has the same positions.
        object.__setattr__(self, "strides", Conv(1, self.window, self.strides).strides)

    def output_shape(self, input_shape: Shape) -> Shape:
        """Count the windows, multiply the channels by the size of one."""
        counts = Conv(1, self.window, self.strides, self.padding).output_shape(input_shape)[:-1]
        return (*counts, math.prod(self.window) * input_shape[-1])


def unfold(
    x: Float[Array, "n *positions i"],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Padding,
) -> Float[Array, "n *counts o"]:
    """Lay the windows' contents side by side on the channel axis, in the order of the weights.

    Example:
        >>> unfold(jnp.arange(4.0).reshape(1, 4, 1), (2,), (1,), "valid").tolist()
        [[[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]]
    """
    counts = num_windows(x.shape[1:-1], window, strides, padding)
    added = ((0, 0), *paddings(x.shape[1:-1], window, strides, padding), (0, 0))
    x = jnp.pad(x, added, mode="wrap" if padding == "circular" else "constant")

    def seen(offset: tuple[int, ...]) -> Array:
        places = tuple(
            slice(start, start + (count - 1) * stride + 1, stride)
            for start, count, stride in zip(offset, counts, strides, strict=True)
        )
        return x[(slice(None), *places)]

    offsets = itertools.product(*map(range, window))
    return jnp.concatenate([seen(offset) for offset in offsets], axis=-1)


def im2col(architecture: Architecture) -> Architecture:
    """Replace every convolution by patches and a dense layer; the network stays the same.

    Args:
        architecture: Any; convolutions whose weights every position has for itself stay.

    Example:
        >>> im2col(Conv(8, (3, 3), (2, 2)))
        Serial(Patches(window=(3, 3), strides=(2, 2), padding='valid'), Dense(width=8, bias=True, \
weight_scale=None, bias_scale=None))
    """

    def unfold_one(layer: Architecture) -> Architecture:
        if not (isinstance(layer, Conv) and layer.shared):
            return layer
        dense = Dense(layer.channels, layer.bias, layer.weight_scale, layer.bias_scale)
        return Serial(Patches(layer.window, layer.strides, layer.padding), dense)

    return map_layers(architecture, unfold_one)


def map_layers(
    architecture: Architecture, change: Callable[[Architecture], Architecture]
) -> Architecture:
    """Replace every layer that has no layers inside by what `change` makes of it.

    Args:
        architecture: Any.
        change: A layer ─► what stands in its place.

    Example:
        >>> wider = lambda layer: Dense(2 * layer.width) if isinstance(layer, Dense) else layer
        >>> map_layers(Serial(Dense(4), Dense(8)), wider) == Serial(Dense(8), Dense(16))
        True
    """
    match architecture:
        case Serial():
            return Serial(*(map_layers(layer, change) for layer in architecture.layers))
        case Residual() | Product():
            ways = (architecture.branch, architecture.shortcut)
            return type(architecture)(*(map_layers(way, change) for way in ways))
        case Concatenate():
            return Concatenate(map_layers(architecture.branch, change))
        case Parallel(branches=branches, join=join, axis=axis):
            changed = (map_layers(branch, change) for branch in branches)
            return Parallel(*changed, join=join, axis=axis)
    return change(architecture)
