"""Convolutions in one to three dimensions, with strides, dilations and groups, and transposed ones.

PyTorch's axes: inputs (n, in, positions), kernels (out, in/groups, offsets); of a transposed
convolution (in, out/groups, offsets). A transposed convolution with stride s and padding p is a
convolution of inputs with s − 1 zeros between them, with the kernel flipped, and padding
d (k − 1) − p.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from .table import operation


@operation("aten.convolution.default")
def _convolution(
    x: Any,
    kernel: Any,
    bias: Any,
    strides: Sequence[int],
    padding: Sequence[int],
    dilations: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    rank = kernel.ndim - 2
    single = x.ndim == rank + 1  # one input without an axis of its own
    x = x[None] if single else x
    strides, padding, dilations, output_padding = (
        _for_all(each, rank) for each in (strides, padding, dilations, output_padding)
    )
    if transposed:
        reach = [d * (k - 1) for d, k in zip(dilations, kernel.shape[2:], strict=True)]
        pads = [(r - p, r - p + o) for r, p, o in zip(reach, padding, output_padding, strict=True)]
        kernel, between, steps = _flipped(kernel, groups), strides, (1,) * rank
    else:
        pads, between, steps = [(p, p) for p in padding], (1,) * rank, strides
    axes = tuple(range(rank + 2))
    y = lax.conv_general_dilated(
        x,
        kernel,
        window_strides=steps,
        padding=pads,
        lhs_dilation=between,
        rhs_dilation=dilations,
        dimension_numbers=lax.ConvDimensionNumbers(axes, axes, axes),
        feature_group_count=groups,
    )
    if bias is not None:
        y = y + bias.reshape((1, -1) + (1,) * rank)
    return y[0] if single else y


def _for_all(values: Sequence[int], rank: int) -> tuple[int, ...]:
    """One number stands for all dimensions."""
    return tuple(values) * rank if len(values) == 1 else tuple(values)


def _flipped(kernel: Any, groups: int) -> Any:
    """(in, out/groups, offsets) ─► (out, in/groups, offsets), the offsets from last to first."""
    inputs, outputs, *window = kernel.shape
    parts = kernel.reshape(groups, inputs // groups, outputs, *window).swapaxes(1, 2)
    parts = parts.reshape(groups * outputs, inputs // groups, *window)
    return jnp.flip(parts, tuple(range(2, parts.ndim)))
