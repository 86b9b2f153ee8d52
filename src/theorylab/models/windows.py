"""Windows that slide over the positions of an image: how many there are, and what is padded.

Along an axis of size s, a window of size w with stride t gives

    "valid"               ⌊(s − w)/t⌋ + 1 positions, nothing padded;
    "same", "circular"    ⌈s/t⌉ positions, after padding max((⌈s/t⌉ − 1)t + w − s, 0) in all: the
                          smaller half before, the larger half after; with zeros, or wrapped around.

A transposed convolution is the exact adjoint of a convolution, in the positions: with
⟨x, y⟩ = Σₛ x(s)·y(s), and Wᵀ the weights with channels exchanged,

    ⟨transposed(x, W), y⟩ = ⟨x, convolve(y, Wᵀ)⟩.
"""

import itertools
import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
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
    return tuple((window_sum // 2, window_sum - window_sum // 2) for window_sum in added)


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

    `num_windows` of them, with the same window, are the positions that came in.

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
    """Apply the weights to every window: y(s) = Σᵣ Wᵣᵀ x(strides · s + r).

    Example:
        >>> x = jnp.arange(4.0).reshape(1, 4, 1)
        >>> convolve(x, jnp.ones((2, 1, 1)), (1,), "valid").ravel().tolist()
        [1.0, 3.0, 5.0]
    """
    axes = "".join(map(str, range(len(strides))))
    x, added = _wrap(x, weight.shape[:-2], strides, padding)
    dimensions = (f"N{axes}C", f"{axes}IO", f"N{axes}C")
    return jax.lax.conv_general_dilated(x, weight, strides, added, dimension_numbers=dimensions)


def convolve_locally(
    x: Float[Array, "n *positions i"],
    weight: Float[Array, "*counts_window i o"],
    strides: tuple[int, ...],
    padding: Padding,
) -> Float[Array, "n *counts o"]:
    """Apply to every window weights of its own, (*counts, *window, in, out).

    y(s) = Σᵣ Wₛᵣᵀ x(strides · s + r).

    Example:
        >>> x, weight = jnp.ones((1, 3, 1)), jnp.array([1.0, 2.0, 3.0]).reshape(3, 1, 1, 1)
        >>> convolve_locally(x, weight, (1,), "valid").ravel().tolist()
        [1.0, 2.0, 3.0]
    """
    num_axes = len(strides)
    counts, window = weight.shape[:num_axes], weight.shape[num_axes : 2 * num_axes]
    x, added = _wrap(x, window, strides, padding)
    x = jnp.pad(x, ((0, 0), *added, (0, 0)))

    def seen(offset: tuple[int, ...]) -> Array:
        """What every window has at this offset."""
        places = tuple(
            slice(start, start + (count - 1) * stride + 1, stride)
            for start, count, stride in zip(offset, counts, strides, strict=True)
        )
        return x[(slice(None), *places)]

    patches = jnp.concatenate([seen(r) for r in itertools.product(*map(range, window))], axis=-1)
    table = weight.reshape(*counts, patches.shape[-1], weight.shape[-1])
    return jnp.einsum("n...i,...io->n...o", patches, table)


def convolve_transposed(
    x: Float[Array, "n *positions i"],
    weight: Float[Array, "*window i o"],
    strides: tuple[int, ...],
    padding: Padding,
) -> Float[Array, "n *spread o"]:
    """Spread every position over its window: y(strides · s + r) gets Wᵣᵀ x(s).

    Example:
        >>> x = jnp.array([1.0, 2.0]).reshape(1, 2, 1)
        >>> convolve_transposed(x, jnp.ones((2, 1, 1)), (2,), "valid").ravel().tolist()
        [1.0, 1.0, 2.0, 2.0]
    """
    window = weight.shape[:-2]
    positions = num_transposed_windows(x.shape[1:-1], window, strides, padding)
    start = jnp.zeros((x.shape[0], *positions, weight.shape[-1]), x.dtype)
    exchanged = jnp.swapaxes(weight, -1, -2)
    _, adjoint = jax.vjp(lambda y: convolve(y, exchanged, strides, padding), start)
    return adjoint(x)[0]


def window_mean(
    x: Float[Array, "n *positions i"],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Padding,
) -> Float[Array, "n *counts i"]:
    """Average over every window, padded values included.

    Example:
        >>> window_mean(jnp.arange(4.0).reshape(1, 4, 1), (2,), (2,), "valid").ravel().tolist()
        [0.5, 2.5]
    """
    return window_sum(x, window, strides, padding) / math.prod(window)


def window_counts(
    positions: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...], padding: Padding
) -> tuple[np.ndarray, ...]:
    """How many positions of the input every window has, along every axis.

    Example:
        >>> window_counts((4,), (3,), (1,), "same")[0].tolist()
        [2, 3, 3, 2]
    """
    counts = []
    added = paddings(positions, window, strides, padding)
    mode = "wrap" if padding == "circular" else "constant"
    for size, width, stride, pads in zip(positions, window, strides, added, strict=True):
        inside = np.pad(np.ones(size, int), pads, mode=mode)
        starts = range(0, len(inside) - width + 1, stride)
        counts.append(np.array([inside[start : start + width].sum() for start in starts]))
    return tuple(counts)


def window_sum(
    x: Float[Array, "n *positions i"],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Padding,
) -> Float[Array, "n *counts i"]:
    """Sum over every window.

    Example:
        >>> window_sum(jnp.arange(4.0).reshape(1, 4, 1), (2,), (2,), "valid").ravel().tolist()
        [1.0, 5.0]
    """
    x, added = _wrap(x, window, strides, padding)
    return jax.lax.reduce_window(
        x,
        np.zeros((), x.dtype),  # on the host: JAX must see that it is 0 to have a derivative
        jax.lax.add,
        (1, *window, 1),
        (1, *strides, 1),
        ((0, 0), *added, (0, 0)),
    )


def upsample(
    x: Float[Array, "n *positions i"],
    factors: tuple[int, ...],
    method: Literal["nearest", "linear"],
) -> Float[Array, "n *spread i"]:
    """Give every position more room: y(s) = x((s + ½)/factor − ½), rounded or linear in between.

    Positions are the centres of their cells; beyond the outermost, values stay as they are.

    Example:
        >>> x = jnp.array([[[0.0], [1.0]]])
        >>> upsample(x, (2,), "nearest").ravel().tolist()
        [0.0, 0.0, 1.0, 1.0]
        >>> upsample(x, (2,), "linear").ravel().tolist()
        [0.0, 0.25, 0.75, 1.0]
    """
    positions = [size * factor for size, factor in zip(x.shape[1:-1], factors, strict=True)]
    return resize(x, tuple(positions), method)


def resize(
    x: Float[Array, "n *positions i"],
    positions: tuple[int, ...],
    method: Literal["nearest", "linear"],
    antialias: bool = True,
) -> Float[Array, "n *others i"]:
    """Give an image other positions, centres of as many equal cells, as `upsample` does.

    Example:
        >>> x = jnp.array([[[0.0], [1.0], [4.0], [5.0]]])
        >>> resize(x, (2,), "linear", antialias=False).ravel().tolist()
        [0.5, 4.5]
    """
    shape = (x.shape[0], *positions, x.shape[-1])
    return jax.image.resize(x, shape, method, antialias=antialias)


def _wrap(
    x: Array, window: tuple[int, ...], strides: tuple[int, ...], padding: Padding
) -> tuple[Array, tuple[tuple[int, int], ...]]:
    """Wrap around what is circular, and say how many zeros are still to be padded."""
    added = paddings(x.shape[1:-1], window, strides, padding)
    if padding != "circular":
        return x, added
    return jnp.pad(x, ((0, 0), *added, (0, 0)), mode="wrap"), ((0, 0),) * len(window)
