"""A convolution in the form in which a CPU computes it fast, also inside a compiled loop.

With strides t, dilations d, kernel offsets r, groups g, and x padded already:

    y(p, g) = Σ_r x(t p + d r, g) · w(r, g)

XLA hands a convolution to its fast library if it is written with the axes (batch, positions,
channels), (offsets, in, out). It brings others into this form, but on a CPU only outside of loops;
inside `scan`, `while` and `fori_loop` the convolutions of a gradient run 10 to 200 times slower. So
the transpositions are written out here. Where the library itself is slow, the sum above is taken
literally: one matrix product for every offset r, or for every position p if those are fewer, as
in the gradient by a kernel. That is so for groups (in a depthwise convolution or a mapped one), in
three dimensions, and for gradients by the kernel of a transposed convolution.

The gradient by the inputs of a convolution with strides s has its inputs spread by s, with zeros
between them, and the library multiplies all of these. Those that are no zeros are the same for all
positions with one remainder φ = p mod s, so there are s convolutions without zeros along an axis:

    y(s u + φ) = Σ_m x(u + c + m) · w(r₀ + s m),        r₀ = (l − φ) mod s,  c = (φ − l + r₀)/s

with l zeros of padding before x. That is s times less arithmetic along every such axis.

CPU milliseconds of one convolution of 100 images, single precision, jaxlib 0.10.2, as it comes
outside of a loop and inside, and as it is here, inside (forward / by the input / by the kernel):

                                        outside             inside               here, inside
    16 × 16, 64 to 64 channels, 3 × 3   11 / 11 / 22        9 / 76 / 3,531       9 / 9 / 25
    32 × 32, 32 to 32 channels, 3 × 3   10 / 10 / 30        10 / 621 / 5,914     10 / 10 / 30
    depthwise, 16 × 16, 64 channels     30 / 31 / 22                             1 / 1 / 28
    4 groups, 16 × 16, 64 channels      32 / 33 / 656                            30 / 28 / 38
    16 volumes 12³, 16 channels         24 / 24 / 27                             18 / 18 / 30
    the same, strides of 2              3 / 111 / 20                             1 / 18 / 3
    50 kernels for 50 images (mapped)   9 / 8 / 4,562                            4 / 4 / 4

Windows laid side by side (im2col) took two to four times as long as the library, and k² times the
memory.
"""

import itertools
import math
from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

_MOST_TERMS = 512  # matrix products for one convolution: more would take too long to compile
_MOST_PHASES = 16  # convolutions for one whose inputs are spread


class Options(NamedTuple):
    """What `jax.lax.conv_general_dilated` is told besides its two arrays.

    Example: the options in which axes are in the library's order.
        >>> both, none = (1, 1), ((0, 0), (0, 0))
        >>> options = Options(both, none, both, both, axes_of(2), 1, 1, None, None)
        >>> options.is_fast((3, 3), (8, 8))
        True
    """

    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    dimension_numbers: lax.ConvDimensionNumbers
    feature_group_count: int
    batch_group_count: int
    precision: Any
    preferred_element_type: Any

    @property
    def groups(self) -> int:
        """Convolutions that run beside each other."""
        return self.feature_group_count * self.batch_group_count

    def is_fast(self, window: tuple[int, ...], counts: tuple[int, ...]) -> bool:
        """Whether the library is fast with a kernel of this size, at this number of positions."""
        terms = min(math.prod(window), math.prod(counts))
        by_kernel = math.prod(window) > math.prod(counts)
        dilated = any(step > 1 for step in self.lhs_dilation)
        slow = self.groups > 1 or len(window) > 2 or (by_kernel and dilated)
        return not (slow and 1 <= terms <= _MOST_TERMS)

    def is_spread(self, window: tuple[int, ...], counts: tuple[int, ...]) -> bool:
        """Whether zeros between the inputs are to be left out, phase by phase."""
        plain = all(
            spread == 1 or (stride == 1 and dilation == 1)
            for spread, stride, dilation in zip(
                self.lhs_dilation, self.window_strides, self.rhs_dilation, strict=True
            )
        )
        by_kernel = math.prod(window) > math.prod(counts)
        return plain and not by_kernel and 1 < math.prod(self.lhs_dilation) <= _MOST_PHASES


def axes_of(num_positions: int) -> lax.ConvDimensionNumbers:
    """The library's order of axes: (batch, positions, channels) and (offsets, in, out).

    Example:
        >>> axes_of(2).lhs_spec, axes_of(2).rhs_spec
        ((0, 3, 1, 2), (3, 2, 0, 1))
    """
    last, places = num_positions + 1, tuple(range(num_positions))
    positions = tuple(place + 1 for place in places)
    outer = (0, last, *positions)
    return lax.ConvDimensionNumbers(outer, (last, num_positions, *places), outer)


def convolve(x: Array, kernel: Array, options: Options) -> Array:
    """What `jax.lax.conv_general_dilated` gives, to rounding, and fast on a CPU.

    Args:
        x: The inputs, with the axes that the options say.
        kernel: The kernel likewise.
        options: As they stand in a program.

    Example:
        >>> options = Options((1,), ((0, 0),), (1,), (1,), axes_of(1), 1, 1, None, None)
        >>> x, kernel = jnp.arange(4.0).reshape(1, 4, 1), jnp.ones((2, 1, 1))
        >>> convolve(x, kernel, options).ravel().tolist()
        [1.0, 3.0, 5.0]
    """
    axes = options.dimension_numbers
    # A spec says where batch, channels and positions are: (n, c, …), of a kernel (out, in, …).
    x = jnp.transpose(x, (axes.lhs_spec[0], *axes.lhs_spec[2:], axes.lhs_spec[1]))
    kernel = jnp.transpose(kernel, (*axes.rhs_spec[2:], axes.rhs_spec[1], axes.rhs_spec[0]))
    counts = _counts(x.shape[1:-1], kernel.shape[:-2], options)
    if options.is_spread(kernel.shape[:-2], counts):
        y = _by_phases(x, kernel, counts, options)
    else:
        y = _in_library_order(x, kernel, counts, options)
    order = (axes.out_spec[0], *axes.out_spec[2:], axes.out_spec[1])
    return jnp.transpose(y, tuple(order.index(axis) for axis in range(len(order))))


def _in_library_order(x: Array, kernel: Array, counts: tuple[int, ...], options: Options) -> Array:
    if options.is_fast(kernel.shape[:-2], counts):
        return _by_library(x, kernel, options)
    return _by_products(x, kernel, counts, options)


def _by_phases(x: Array, kernel: Array, counts: tuple[int, ...], options: Options) -> Array:
    """One convolution without zeros for every phase, (n, *positions, out)."""
    spreads, none = options.lhs_dilation, (1,) * len(counts)
    sizes = tuple(-(-count // spread) for count, spread in zip(counts, spreads, strict=True))
    parts = []
    for phase in itertools.product(*map(range, spreads)):
        chosen, padding = [], []
        for axis, (first, spread) in enumerate(zip(phase, spreads, strict=True)):
            before, after = options.padding[axis]
            if spread == 1:
                chosen.append(slice(None))
                padding.append((before, after))
                continue
            start = (before - first) % spread
            taken = len(range(start, kernel.shape[axis], spread))
            ahead = (before - first - start) // spread
            chosen.append(slice(start, None, spread))
            padding.append((ahead, sizes[axis] + taken - 1 - ahead - x.shape[1 + axis]))
        weights = kernel[tuple(chosen)]
        if 0 in weights.shape:
            kind = options.preferred_element_type or x.dtype
            n = x.shape[0] // options.batch_group_count
            parts.append(jnp.zeros((n, *sizes, kernel.shape[-1]), kind))
            continue
        own = options._replace(padding=tuple(padding), lhs_dilation=none)
        parts.append(_in_library_order(x, weights, sizes, own))
    return _interleaved(parts, spreads, counts)


def _interleaved(parts: list[Array], spreads: tuple[int, ...], counts: tuple[int, ...]) -> Array:
    """Put phases (n, *sizes, out) beside each other, and leave out what is beyond the counts."""
    n, *sizes, width = parts[0].shape
    whole = jnp.stack(parts).reshape(*spreads, n, *sizes, width)
    d = len(spreads)
    order = (d, *(axis for i in range(d) for axis in (d + 1 + i, i)), 2 * d + 1)
    spread = [size * spread for size, spread in zip(sizes, spreads, strict=True)]
    y = jnp.transpose(whole, order).reshape(n, *spread, width)
    return y[(slice(None), *(slice(count) for count in counts))]


def _counts(
    positions: tuple[int, ...], window: tuple[int, ...], options: Options
) -> tuple[int, ...]:
    """The number of positions of the result along every axis."""

    def along(size: int, offsets: int, padding: tuple[int, int], *steps: int) -> int:
        stride, spread, dilation = steps
        padded = sum(padding) + (spread * (size - 1) + 1 if size else 0)
        return max(0, (padded - dilation * (offsets - 1) - 1) // stride + 1)

    steps = (options.padding, options.window_strides, options.lhs_dilation, options.rhs_dilation)
    return tuple(along(*each) for each in zip(positions, window, *steps, strict=True))


def _by_library(x: Array, kernel: Array, options: Options) -> Array:
    """The convolution itself; in one dimension of images of width 1, for the sake of doubles."""
    flat = x.ndim == 3
    if flat:
        x, kernel = x[:, :, None], kernel[:, None]
    more = (1,) if flat else ()
    y = lax.conv_general_dilated(
        x,
        kernel,
        (*options.window_strides, *more),
        (*options.padding, *((0, 0) for _ in more)),
        (*options.lhs_dilation, *more),
        (*options.rhs_dilation, *more),
        axes_of(x.ndim - 2),
        options.feature_group_count,
        options.batch_group_count,
        options.precision,
        options.preferred_element_type,
    )
    return y[:, :, 0] if flat else y


def _by_products(x: Array, kernel: Array, counts: tuple[int, ...], options: Options) -> Array:
    """The sum over offsets, or position by position, for all groups at once."""
    window, (fan_in, width) = kernel.shape[:-2], kernel.shape[-2:]
    groups = options.groups
    edges = zip(options.padding, options.lhs_dilation, strict=True)
    zero = jnp.zeros((), x.dtype)
    x = lax.pad(x, zero, [(0, 0, 0), *((*ends, step - 1) for ends, step in edges), (0, 0, 0)])
    if options.batch_group_count > 1:
        x = jnp.moveaxis(x.reshape(groups, -1, *x.shape[1:]), 0, -2)
    else:
        x = x.reshape(*x.shape[:-1], groups, fan_in)  # (n, *positions, groups, in)
    kernel = kernel.reshape(*window, fan_in, groups, width // groups)
    result = options.preferred_element_type or x.dtype
    # Many terms are added: half precision would lose digits that one convolution keeps.
    rounds = jnp.issubdtype(result, jnp.floating)
    summed = jnp.promote_types(result, jnp.float32) if rounds else result

    def product(part: Array, weights: Array, along: int) -> Array:
        """Sums over `along` axes of positions, and over the channels."""
        group, channels = part.ndim - 2, part.ndim - 1
        inner = ((*range(1, along + 1), channels), tuple(range(along + 1)))
        dimensions = (inner, ((group,), (along + 1,)))
        y = lax.dot_general(part, weights, dimensions, options.precision, summed)
        return jnp.moveaxis(y, 0, -2)  # (n, *positions, groups, out)

    strides, dilations = options.window_strides, options.rhs_dilation
    if math.prod(counts) < math.prod(window):
        parts = [_sliced(x, start, dilations, window) for start in _starts(counts, strides)]
        y = jnp.stack([product(part, kernel, len(window)) for part in parts], axis=1)
    else:
        parts = [_sliced(x, start, strides, counts) for start in _starts(window, dilations)]
        weights = [kernel[offset] for offset in _starts(window, (1,) * len(window))]
        y = reduce(jnp.add, map(product, parts, weights, itertools.repeat(0)))
    return y.reshape(x.shape[0], *counts, width).astype(result)


def _starts(sizes: tuple[int, ...], steps: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All multiples of the steps, axis by axis."""
    ranges = (range(0, size * step, step) for size, step in zip(sizes, steps, strict=True))
    return list(itertools.product(*ranges))


def _sliced(
    x: Array, start: tuple[int, ...], steps: tuple[int, ...], sizes: tuple[int, ...]
) -> Array:
    """So many positions from the start on, along every axis."""
    triples = zip(start, steps, sizes, strict=True)
    ends = [first + step * (size - 1) + 1 for first, step, size in triples]
    return lax.slice(x, (0, *start, 0, 0), (len(x), *ends, *x.shape[-2:]), (1, *steps, 1, 1))
