"""Windows that slide over the positions of an image: how many there are, and what is padded.

Along an axis of size s, a window of size w with stride t gives

    "valid"               ⌊(s − w)/t⌋ + 1 positions, nothing padded;
    "same", "circular"    ⌈s/t⌉ positions, after padding max((⌈s/t⌉ − 1)t + w − s, 0) in all: the
                          smaller half before, the larger half after; with zeros, or wrapped around.
"""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Padding = Literal["valid", "same", "circular"]


def paddings(
    positions: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...], padding: Padding
) -> tuple[tuple[int, int], ...]:
    """Say how many positions are added before and after along every axis.

    Example:
        >>> paddings((8,), (3,), (1,), "same")
        ((1, 1),)
    """
    if padding == "valid":
        return ((0, 0),) * len(window)
    added = [
        max((-(-size // stride) - 1) * stride + width - size, 0)
        for size, width, stride in zip(positions, window, strides, strict=True)
    ]
    return tuple((total // 2, total - total // 2) for total in added)


def num_windows(
    positions: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...], padding: Padding
) -> tuple[int, ...]:
    """Count the windows along every axis.

    Example:
        >>> num_windows((28, 28), (3, 3), (2, 2), "valid")
        (13, 13)
    """
    added = paddings(positions, window, strides, padding)
    padded = [size + sum(pair) for size, pair in zip(positions, added, strict=True)]
    if any(size < width for size, width in zip(padded, window, strict=True)):
        raise ValueError(f"positions must be at least the window {window}, got {positions}.")
    return tuple(
        (size - width) // stride + 1
        for size, width, stride in zip(padded, window, strides, strict=True)
    )


def num_transposed_windows(
    positions: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...], padding: Padding
) -> tuple[int, ...]:
    """Count the positions that a transposed convolution gives.

    Example:
        >>> num_transposed_windows((4, 4), (3, 3), (2, 2), "valid")
        (9, 9)
    """
    if padding == "valid":
        return tuple(
            (size - 1) * stride + max(width, stride)
            for size, width, stride in zip(positions, window, strides, strict=True)
        )
    return tuple(size * stride for size, stride in zip(positions, strides, strict=True))


def convolve(
    x: Float[Array, "n *positions i"],
    weight: Float[Array, "*window i o"],
    strides: tuple[int, ...],
    padding: Padding,
) -> Float[Array, "n *counts o"]:
    """Apply the weights to every window: y(s) = Σᵣ Wᵣᵀ x(strides · s + r)."""
    axes = "".join(map(str, range(len(strides))))
    x, added = _wrap(x, weight.shape[:-2], strides, padding)
    dimensions = (f"N{axes}C", f"{axes}IO", f"N{axes}C")
    return jax.lax.conv_general_dilated(x, weight, strides, added, dimension_numbers=dimensions)


def average(
    x: Float[Array, "n *positions i"],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Padding,
) -> Float[Array, "n *counts i"]:
    """Average over every window, padded values included."""
    x, added = _wrap(x, window, strides, padding)
    total = jax.lax.reduce_window(
        x,
        jnp.zeros((), x.dtype),
        jax.lax.add,
        (1, *window, 1),
        (1, *strides, 1),
        ((0, 0), *added, (0, 0)),
    )
    return total / math.prod(window)


def _wrap(
    x: Array, window: tuple[int, ...], strides: tuple[int, ...], padding: Padding
) -> tuple[Array, tuple[tuple[int, int], ...]]:
    """Wrap around what is circular, and say how many zeros are still to be padded."""
    added = paddings(x.shape[1:-1], window, strides, padding)
    if padding != "circular":
        return x, added
    return jnp.pad(x, ((0, 0), *added, (0, 0)), mode="wrap"), ((0, 0),) * len(window)
