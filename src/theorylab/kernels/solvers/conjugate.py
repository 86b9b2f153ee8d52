"""Conjugate gradients for (K + λI)α = y, with products alone: no matrix is kept.

    p = z + βp,   α ← α + γp,   r ← r − γ(K + λI)p,   z = P⁻¹r

with the preconditioner P⁻¹ ≈ (K + λI)⁻¹. Every column of y has its own γ and β and one product
serves all. A low-rank K ≈ LLᵀ with r columns (`pivoted_cholesky`, `nystrom_factor`) gives

    P⁻¹v = (v − L (LᵀL + λI)⁻¹ Lᵀv)/λ

which leaves the iteration only the eigenvalues that LLᵀ missed.

Source: golikov · kernel-solvers · 2.94–2.95.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from .blocks import KernelFunction, Points, diagonal, gram, rounding_of, rows
from .cholesky import cholesky_factor

LinearMap = Callable[[Float[np.ndarray, "n k"]], Float[np.ndarray, "n k"]]


class ConjugateSolution(NamedTuple):
    """α, and how it was reached.

    Args:
        coefficients: α.
        num_steps: How many products were taken.
        residuals: ‖r‖/‖y‖ of the worst column before the first and after every iteration, as the
            recursion has it.
        residual: The same at the end, from a product of its own.
        converged: Whether the tolerance was reached.

    Example: a multiple of the identity is solved by one product.
        >>> solution = conjugate_gradients((2 * np.eye(3)).__matmul__, np.ones((3, 1)))
        >>> solution.num_steps, solution.converged, solution.residuals.round(6).tolist()
        (1, True, [1.0, 0.0])
    """

    coefficients: Float[np.ndarray, "n k"]
    num_steps: int
    residuals: Float[np.ndarray, " iterations"]
    residual: float
    converged: bool


def conjugate_gradients(
    product: LinearMap,
    targets: Float[np.ndarray, "n k"],
    ridge: float = 0.0,
    preconditioner: LinearMap | None = None,
    tolerance: float = 1e-6,
    max_steps: int = 1000,
) -> ConjugateSolution:
    """Solve (K + λI)α = y from products v ─► Kv.

    Args:
        product: v ─► Kv, such as a `BlockProduct`, or `matrix.__matmul__`.
        targets: y.
        ridge: λ.
        preconditioner: v ─► P⁻¹v; none if not given.
        tolerance: The relative residual at which to stop.
        max_steps: When to stop without.

    Example:
        >>> kernel = np.diag([1.0, 2.0, 3.0])
        >>> solution = conjugate_gradients(kernel.__matmul__, np.ones((3, 1)))
        >>> solution.num_steps, solution.coefficients.round(6).ravel().tolist()
        (3, [1.0, 0.5, 0.333333])
    """
    _check(targets, ridge, tolerance, max_steps)
    precondition = preconditioner or (lambda values: values)

    def matrix(values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        return product(values) + ridge * values

    lengths = np.linalg.norm(targets, axis=0)
    scale = np.where(lengths > 0, lengths, 1.0)
    alpha, left = np.zeros_like(targets), targets.copy()
    improved = precondition(left)
    direction = improved.copy()
    agreement = np.sum(left * improved, axis=0)
    history = [float(np.max(lengths / scale))]
    while history[-1] > tolerance and len(history) <= max_steps:
        pushed = matrix(direction)
        curvature = np.sum(direction * pushed, axis=0)
        step = np.divide(agreement, curvature, out=np.zeros_like(agreement), where=curvature > 0)
        alpha += step[None] * direction
        left -= step[None] * pushed
        history.append(float(np.max(np.linalg.norm(left, axis=0) / scale)))
        improved = precondition(left)
        before, agreement = agreement, np.sum(left * improved, axis=0)
        ratio = np.divide(agreement, before, out=np.zeros_like(before), where=before > 0)
        direction = improved + ratio[None] * direction
    misfit = np.linalg.norm(matrix(alpha) - targets, axis=0) / scale
    return ConjugateSolution(
        coefficients=alpha,
        num_steps=len(history) - 1,
        residuals=np.array(history),
        residual=float(np.max(misfit)),
        converged=history[-1] <= tolerance,
    )


def low_rank_preconditioner(factor: Float[np.ndarray, "n r"], ridge: float) -> LinearMap:
    """The map v ─► (LLᵀ + λI)⁻¹v, by Woodbury's identity.

    Args:
        factor: L, of `pivoted_cholesky` or `nystrom_factor`.
        ridge: λ, positive.

    Example: (LLᵀ + λI)⁻¹ = diag(1/5, 1) for L = (2, 0)ᵀ and λ = 1.
        >>> precondition = low_rank_preconditioner(np.array([[2.0], [0.0]]), ridge=1.0)
        >>> precondition(np.array([[5.0], [3.0]])).round(6).tolist()
        [[1.0], [3.0]]
    """
    if not 0 < ridge < math.inf:
        raise ValueError(f"a low-rank preconditioner needs a positive ridge, got {ridge}.")
    small = cho_factor(factor.T @ factor + ridge * np.eye(factor.shape[1], dtype=factor.dtype))

    def precondition(values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        return (values - factor @ cho_solve(small, factor.T @ values)) / ridge

    return precondition


def pivoted_cholesky(
    kernel: KernelFunction, x: Points, rank: int, tolerance: float = 1e-10
) -> Float[np.ndarray, "n r"]:
    """L with LLᵀ ≈ K(X, X): each column removes the point whose diagonal is worst explained.

    Args:
        kernel: (x1, x2) ─► K(x1, x2); one row of K is computed for each column of L.
        x: The points X.
        rank: The most columns.
        tolerance: Stop when the unexplained share of the trace is below it.

    Example: the kernel xx′ has rank 1, so one column is enough.
        >>> x = np.array([[1.0], [2.0], [3.0]])
        >>> factor = pivoted_cholesky(lambda x1, x2: x1 @ x2.T, x, rank=3)
        >>> factor.shape, (factor @ factor.T).round(6).tolist()
        ((3, 1), [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]])
    """
    _check_rank(rank, len(x))
    left = diagonal(kernel, x)
    trace = left.sum()
    factor = np.zeros((len(x), rank))
    for column in range(rank):
        pivot = int(np.argmax(left))
        if left[pivot] <= 0 or left.sum() <= tolerance * trace:
            return factor[:, :column]
        row = rows(kernel, x[pivot : pivot + 1], x)[0] - factor @ factor[pivot]
        factor[:, column] = row / math.sqrt(left[pivot])
        left = np.maximum(left - factor[:, column] ** 2, 0.0)
        left[pivot] = 0.0
    return factor


def nystrom_factor(kernel: KernelFunction, x: Points, centres: Points) -> Float[np.ndarray, "n r"]:
    """L with LLᵀ = K(X, C) K(C, C)⁻¹ K(C, X), from some of the points as centres C.

    Args:
        kernel: (x1, x2) ─► K(x1, x2).
        x: The points X.
        centres: The centres C.

    Example: the kernel xx′ has rank 1, so one centre is enough.
        >>> x = np.array([[1.0], [2.0], [3.0]])
        >>> factor = nystrom_factor(lambda x1, x2: x1 @ x2.T, x, centres=x[:1])
        >>> factor.round(6).tolist()
        [[1.0], [2.0], [3.0]]
    """
    _check_rank(len(centres), len(x))
    root = cholesky_factor(gram(kernel, centres), overwrite=True, rounding=rounding_of(x))
    return solve_triangular(root.factor, rows(kernel, x, centres).T, lower=True, overwrite_b=True).T


def _check(targets: np.ndarray, ridge: float, tolerance: float, max_steps: int) -> None:
    if targets.ndim != 2 or not np.isfinite(targets).all():
        raise ValueError(f"targets must be finite, of shape (n, k); got shape {targets.shape}.")
    if not 0 <= ridge < math.inf:
        raise ValueError(f"ridge must be at least 0, got {ridge}.")
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance must be in (0, 1), got {tolerance}.")
    if max_steps < 1:
        raise ValueError(f"max_steps must be at least 1, got {max_steps}.")


def _check_rank(rank: int, num_samples: int) -> None:
    if not 1 <= rank <= num_samples:
        raise ValueError(f"rank must be from 1 to the {num_samples} points, got {rank}.")
