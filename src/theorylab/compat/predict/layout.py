"""Kernels and outputs with any axes, as matrices.

A kernel of outputs with the axes (n, p, k) has interleaved pairs of them, (n, n′, p, p′, k, k′).
Axes named by `trace_axes` are left out: there it is a multiple of the identity. As a matrix it has
the pairs' first axes as rows; outputs have the same rows, and the left-out axes as columns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Scalar

Axes = int | Sequence[int]
Matrix = Float[Array, "rows columns"]


def as_matrix(kernel: Float[Array, "..."]) -> Matrix:
    """A kernel with interleaved axes as a matrix.

    Example: two samples with three outputs each.
        >>> as_matrix(jnp.ones((2, 2, 3, 3))).shape
        (6, 6)
    """
    half = kernel.ndim // 2
    apart = jnp.transpose(kernel, [*range(0, 2 * half, 2), *range(1, 2 * half, 2)])
    rows = math.prod(apart.shape[:half])
    return apart.reshape(rows, -1)


def as_pairs(matrix: Float[Array, "*t rows columns"], axes: tuple[int, ...]) -> Array:
    """A matrix of an outputs' kernel with itself, its axes interleaved again.

    Args:
        matrix: One matrix, or one for every time.
        axes: The sizes of the outputs' axes.

    Example:
        >>> as_pairs(jnp.ones((6, 6)), (2, 3)).shape
        (2, 2, 3, 3)
    """
    lead, half = matrix.ndim - 2, len(axes)
    apart = matrix.reshape(*matrix.shape[:lead], *axes, *axes)
    order = [lead + axis + side * half for axis in range(half) for side in range(2)]
    return jnp.transpose(apart, [*range(lead), *order])


def row_axes(kernel: Float[Array, "..."]) -> tuple[int, ...]:
    """The sizes of the axes that a kernel has pairs of, of its rows.

    Example:
        >>> row_axes(jnp.ones((4, 2, 3, 3)))
        (4, 3)
    """
    return kernel.shape[::2]


@dataclass(frozen=True)
class Layout:
    """Where the axes of outputs are.

    Args:
        shape: The shape of the training targets.
        trace_axes: The axes that kernels do not have, counted from the end.

    Example:
        >>> layout = Layout.of(jnp.ones((4, 3)), trace_axes=(-1,))
        >>> layout.rows(jnp.ones((4, 3))).shape, layout.size
        ((4, 3), 12)
    """

    shape: tuple[int, ...]
    trace_axes: tuple[int, ...]

    @classmethod
    def of(cls, targets: Float[Array, "..."], trace_axes: Axes) -> "Layout":
        """Read the layout off the targets."""
        axes = (trace_axes,) if isinstance(trace_axes, int) else tuple(trace_axes)
        ndim = targets.ndim
        if any(not -ndim <= axis < ndim for axis in axes):
            raise ValueError(f"trace_axes must be axes of targets {targets.shape}, got {axes}.")
        return cls(targets.shape, tuple(axis % ndim - ndim for axis in axes))

    @property
    def size(self) -> int:
        """How many numbers the targets are."""
        return math.prod(self.shape)

    @property
    def columns(self) -> tuple[int, ...]:
        """The sizes of the axes that kernels do not have."""
        return tuple(self.shape[axis] for axis in self.trace_axes)

    def output_shape(self, kernel: Float[Array, "..."] | None) -> tuple[int, ...]:
        """The shape of outputs at the rows of a kernel; of the targets without one."""
        if kernel is None:
            return self.shape
        axes = list(row_axes(kernel))
        for axis in sorted(axis % len(self.shape) for axis in self.trace_axes):
            axes.insert(axis, self.shape[axis])
        return tuple(axes)

    def rows(self, outputs: Any) -> Matrix:
        """Outputs as a matrix."""
        outputs = jnp.moveaxis(outputs, self.trace_axes, range(-len(self.trace_axes), 0))
        return outputs.reshape(-1, math.prod(self.columns))

    def outputs(self, rows: Float[Array, "t rows columns"], axes: tuple[int, ...]) -> Array:
        """A matrix for every time as outputs for every time.

        Args:
            rows: The matrices.
            axes: The sizes of the axes that kernels have pairs of.
        """
        outputs = rows.reshape(rows.shape[0], *axes, *self.columns)
        return jnp.moveaxis(outputs, range(-len(self.trace_axes), 0), self.trace_axes)


def regularised(matrix: Matrix, diag_reg: Scalar, absolute: bool) -> Matrix:
    """K + ρI, with ρ itself or as a multiple of the mean of the diagonal.

    Args:
        matrix: K.
        diag_reg: ρ, or ρ over the mean of the diagonal.
        absolute: Whether it is ρ itself.

    Example:
        >>> regularised(2 * jnp.eye(2), 0.5, absolute=False).tolist()
        [[3.0, 0.0], [0.0, 3.0]]
    """
    ridge = diag_reg if absolute else diag_reg * jnp.trace(matrix) / len(matrix)
    return matrix + ridge * jnp.eye(len(matrix), dtype=matrix.dtype)
