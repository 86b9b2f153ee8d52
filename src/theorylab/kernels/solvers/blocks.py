"""A kernel of many points, in blocks: filled into one matrix, or multiplied without any.

    gram                  K(X, X), its lower half computed, its upper half mirrored
    rows                  K(x, X) for some points x
    BlockProduct          v ─► K(x1, x2) v and its transpose, with a block in memory at a time

Any function of two batches that gives a matrix is a kernel here. Blocks have one shape (the last
overlaps the one before), so that a compiled kernel is compiled once.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from theorylab.numerics.memory import available_memory, readable

KernelFunction = Callable[[Any, Any], Any]  # arrays (n1, ...), (n2, ...) ─► an array (n1, n2)
Points = Shaped[Array, "_ ..."] | Shaped[np.ndarray, "_ ..."]  # any number of points
_ENTRIES = 4_000_000  # of a block: 32 MB in float64, and a few times that inside the kernel


def gram(kernel: KernelFunction, x: Points, dtype: Any = np.float64) -> Float[np.ndarray, "n n"]:
    """K(X, X) as one matrix of the host, symmetric to the last bit.

    Args:
        kernel: (x1, x2) ─► K(x1, x2).
        x: The points X.
        dtype: In which precision to keep it; the kernel computes in that of x.

    Example: the kernel xᵀx′.
        >>> gram(lambda x1, x2: x1 @ x2.T, np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[5.0, 11.0], [11.0, 25.0]]
    """
    n, item = len(x), np.dtype(dtype).itemsize
    require_memory(item * n * n, f"a kernel matrix of {n} × {n} in {np.dtype(dtype).name}")
    matrix = np.empty((n, n), dtype)
    size = min(n, int(_ENTRIES**0.5))
    starts = list(_starts(n, size))
    for i, j in itertools.combinations_with_replacement(range(len(starts)), 2):
        columns, chosen = (slice(starts[k], starts[k] + size) for k in (i, j))
        block = np.asarray(kernel(jnp.asarray(x[chosen]), jnp.asarray(x[columns])))
        if i == j:
            block = (block + block.T) / 2  # the two halves may differ by rounding
        matrix[chosen, columns] = block
        matrix[columns, chosen] = block.T
    _check_entries(matrix[:, :1])
    return matrix


def rows(
    kernel: KernelFunction, x1: Points, x2: Points, dtype: Any = np.float64
) -> Float[np.ndarray, "n1 n2"]:
    """K(x1, x2) as one matrix of the host; arguments as for `gram`.

    Example: the kernel xᵀx′ of one point with two others.
        >>> x1, x2 = np.array([[1.0, 1.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])
        >>> rows(lambda x1, x2: x1 @ x2.T, x1, x2).tolist()
        [[3.0, 7.0]]
    """
    num_bytes = np.dtype(dtype).itemsize * len(x1) * len(x2)
    require_memory(num_bytes, f"a kernel matrix of {len(x1)} × {len(x2)} in {np.dtype(dtype).name}")
    matrix = np.empty((len(x1), len(x2)), dtype)
    second = jnp.asarray(x2)
    for chosen in _slices(len(x1), len(x2)):
        matrix[chosen] = np.asarray(kernel(jnp.asarray(x1[chosen]), second))
    _check_entries(matrix[:, :1])
    return matrix


def diagonal(kernel: KernelFunction, x: Points) -> Float[np.ndarray, " n"]:
    """K(xᵢ, xᵢ) of every point, from small blocks around the diagonal.

    Example: ‖x‖² of two points.
        >>> diagonal(lambda x1, x2: x1 @ x2.T, np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [5.0, 25.0]
    """
    found, size = np.empty(len(x)), min(len(x), 64)
    for start in _starts(len(x), size):
        some = jnp.asarray(x[start : start + size])
        found[start : start + size] = np.asarray(kernel(some, some)).diagonal()
    return found


class BlockProduct(NamedTuple):
    """K(x1, x2) as an operator: its blocks are made again at every product, and none is kept.

    Args:
        kernel: (x1, x2) ─► K(x1, x2).
        x1: The points of its rows.
        x2: The points of its columns.

    Example: the kernel xᵀx′ of two points with one.
        >>> x1, x2 = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 1.0]])
        >>> product = BlockProduct(lambda x1, x2: x1 @ x2.T, x1, x2)
        >>> product(np.array([[2.0]])).tolist(), product.transposed(np.ones((2, 1))).tolist()
        ([[6.0], [14.0]], [[10.0]])
        >>> product.normal(np.array([[1.0]])).tolist()  # 3² + 7²
        [[58.0]]
    """

    kernel: KernelFunction
    x1: Points
    x2: Points

    def __call__(self, values: Float[np.ndarray, "n2 k"]) -> Float[np.ndarray, "n1 k"]:
        """K(x1, x2) v."""
        product = np.empty((len(self.x1), values.shape[1]), values.dtype)
        for chosen, block in self._blocks():
            product[chosen] = block @ values
        return product

    def normal(self, values: Float[np.ndarray, "n2 k"]) -> Float[np.ndarray, "n2 k"]:
        """K(x2, x1) K(x1, x2) v, in one pass over the blocks."""
        product = np.zeros_like(values)
        for _, block in self._blocks(once=True):
            product += block.T @ (block @ values)
        return product

    def transposed(self, values: Float[np.ndarray, "n1 k"]) -> Float[np.ndarray, "n2 k"]:
        """K(x2, x1) v."""
        product = np.zeros((len(self.x2), values.shape[1]), values.dtype)
        for chosen, block in self._blocks(once=True):
            product += block.T @ values[chosen]
        return product

    def _blocks(self, once: bool = False) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows and their block; with `once`, rows that came before are left out."""
        second, done = jnp.asarray(self.x2), 0
        for chosen in _slices(len(self.x1), len(self.x2)):
            block = np.asarray(self.kernel(jnp.asarray(self.x1[chosen]), second))
            if once:
                block, chosen = block[done - chosen.start :], slice(done, chosen.stop)
            done = chosen.stop
            yield chosen, block


def rounding_of(x: Points) -> float:
    """The ε to which a kernel of these points is right: that of their precision.

    Example:
        >>> rounding_of(np.ones(2, np.float32)) == 2.0**-23, rounding_of(np.ones(2)) == 2.0**-52
        (True, True)
    """
    single = x.dtype in (np.float32, np.float16, jnp.bfloat16)
    return float(np.finfo(np.float32 if single else np.float64).eps)


def require_memory(num_bytes: int, what: str) -> None:
    """Raise a MemoryError, before any work, if so much is not free.

    Example: one byte is always free.
        >>> require_memory(1, "a flag")
    """
    available = available_memory()
    if available is not None and num_bytes > 0.95 * available:
        raise MemoryError(
            f"{what} needs {readable(num_bytes)}, and {readable(available)} are free: use float32, "
            "conjugate gradients (which keep no matrix) or Nyström centres."
        )


def _slices(num_rows: int, num_columns: int) -> Iterator[slice]:
    size = max(1, min(num_rows, _ENTRIES // num_columns))
    return (slice(start, start + size) for start in _starts(num_rows, size))


def _starts(total: int, size: int) -> Iterator[int]:
    """Where blocks begin; the last ends at the end."""
    return (min(start, total - size) for start in range(0, total, size))


def _check_entries(column: np.ndarray) -> None:
    # A point with a NaN makes its whole row NaN, so that one column tells.
    if not np.isfinite(column).all():
        raise ValueError("the kernel must be finite, got NaN or infinity.")
