"""Kernel ridge regression on m′ centres, by preconditioned conjugate gradients (Falkon's way).

f(x) = K(x, C) α̃ with centres C among the n training points, where the least squares with penalty
½λ‖f‖² give

    (K(C, X) K(X, C) + λ K(C, C)) α̃ = K(C, X) y

With K(C, C) = TᵀT and (n/m′) TTᵀ + λI = AᵀA (T and A upper triangular), α̃ = T⁻¹A⁻¹β turns it into
a system whose matrix is close to I, because K(C, X)K(X, C) ≈ (n/m′) K(C, C)² for random centres:
O(log n) iterations do. With m′ ∝ √n, time is O(n√n log n) and memory O(n) if blocks of K(X, C) are
made again at every iteration, O(n√n) if they are kept.

Source: golikov · kernel-solvers · 2.94–2.95; Rudi, Carratino and Rosasco (2017), arXiv:1705.10958.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import cholesky, solve_triangular

from .blocks import BlockProduct, KernelFunction, Points, gram, require_memory, rounding_of, rows
from .cholesky import cholesky_factor
from .conjugate import conjugate_gradients


class NystromSolution(NamedTuple):
    """α̃, and how it was reached.

    Args:
        coefficients: α̃, with f(x) = K(x, C) α̃.
        num_steps: Of conjugate gradients.
        residual: The relative residual of the preconditioned system.
        converged: Whether the tolerance was reached.
        jitter: What had to be added to K(C, C), 0 if nothing.
        num_operations: Multiplications and kernel entries: nm′ entries and 2nm′k products for each
            iteration, 4m′²k for its triangular solves, m′³ for the preconditioner.

    Example: with all points as centres it is kernel ridge regression, α = y/(K + λ).
        >>> kernel, x = lambda x1, x2: x1 @ x2.T, np.array([[1.0]])
        >>> solution = nystrom_solve(kernel, x, x, targets=np.array([[3.0]]), ridge=0.5)
        >>> solution.coefficients.round(6).tolist(), solution.converged
        ([[2.0]], True)
    """

    coefficients: Float[np.ndarray, "centres k"]
    num_steps: int
    residual: float
    converged: bool
    jitter: float
    num_operations: int


def nystrom_solve(
    kernel: KernelFunction,
    x: Points,
    centres: Points,
    targets: Float[np.ndarray, "n k"],
    ridge: float,
    tolerance: float = 1e-4,
    max_steps: int = 100,
    keep: bool = True,
) -> NystromSolution:
    """Solve kernel ridge regression on the centres.

    Args:
        kernel: (x1, x2) ─► K(x1, x2).
        x: The training points X.
        centres: The centres C, random ones of X.
        targets: y.
        ridge: λ, positive.
        tolerance: The relative residual at which to stop.
        max_steps: When to stop without.
        keep: Whether K(X, C) is kept in memory, or made again in blocks at every iteration.

    Example:
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> def bell(x1, x2): return np.exp(-((x1 - x2.T) ** 2))
        >>> solution = nystrom_solve(bell, x, x[::5], x, ridge=1e-3)
        >>> solution.coefficients.shape, solution.converged
        ((10, 1), True)
    """
    _check(x, centres, targets, ridge)
    n, m, k = len(x), len(centres), targets.shape[1]
    root = cholesky_factor(gram(kernel, centres), overwrite=True, rounding=rounding_of(x))
    precondition = _preconditioner(np.tril(root.factor).T, n, ridge)
    kept = _product(kernel, x, centres, keep)

    def system(values: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
        middle = solve_triangular(precondition.outer, values)
        image = kept.normal(solve_triangular(precondition.upper, middle))
        inside = solve_triangular(precondition.upper, image, trans=1)
        return solve_triangular(precondition.outer, inside + ridge * middle, trans=1)

    right = precondition.up(kept.transposed(targets))
    found = conjugate_gradients(system, right, tolerance=tolerance, max_steps=max_steps)
    passes = found.num_steps + 2  # one for the right-hand side, one for the last residual
    entries = n * m * (1 if keep else passes) + m**2
    return NystromSolution(
        coefficients=precondition.down(found.coefficients),
        num_steps=found.num_steps,
        residual=found.residual,
        converged=found.converged,
        jitter=root.jitter,
        num_operations=entries + passes * (2 * n * m * k + 4 * m**2 * k) + m**3,
    )


class _Preconditioner(NamedTuple):
    """T and A, both upper triangular."""

    upper: Float[np.ndarray, "m m"]  # T
    outer: Float[np.ndarray, "m m"]  # A

    def down(self, values: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
        """T⁻¹A⁻¹v."""
        return solve_triangular(self.upper, solve_triangular(self.outer, values))

    def up(self, values: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
        """A⁻ᵀT⁻ᵀv."""
        inside = solve_triangular(self.upper, values, trans=1)
        return solve_triangular(self.outer, inside, trans=1)


def _preconditioner(
    upper: Float[np.ndarray, "m m"], num_points: int, ridge: float
) -> _Preconditioner:
    """A from T: AᵀA = (n/m′) TTᵀ + λI."""
    m = len(upper)
    inner = (num_points / m) * upper @ upper.T + ridge * np.eye(m)
    return _Preconditioner(upper, cholesky(inner, lower=False, overwrite_a=True))


class _Kept(NamedTuple):
    """A matrix with the products of a `BlockProduct`."""

    matrix: Float[np.ndarray, "n m"]

    def normal(self, values: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
        return self.matrix.T @ (self.matrix @ values)

    def transposed(self, values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "m k"]:
        return self.matrix.T @ values


def _product(
    kernel: KernelFunction, x: Points, centres: Points, keep: bool
) -> _Kept | BlockProduct:
    return _Kept(rows(kernel, x, centres)) if keep else BlockProduct(kernel, x, centres)


def _check(x: Points, centres: Points, targets: np.ndarray, ridge: float) -> None:
    if targets.ndim != 2 or targets.shape[0] != len(x):
        raise ValueError(f"targets must have shape ({len(x)}, k), got {targets.shape}.")
    if not np.isfinite(targets).all():
        raise ValueError("targets must be finite, got NaN or infinity.")
    if not 1 <= len(centres) <= len(x):
        raise ValueError(f"centres must be from 1 to the {len(x)} points, got {len(centres)}.")
    if centres.shape[1:] != x.shape[1:]:
        raise ValueError(
            f"centres must have the shape {x.shape[1:]} of the points, got {centres.shape[1:]}."
        )
    if not 0 < ridge < math.inf:
        raise ValueError(f"ridge must be positive with Nyström centres, got {ridge}.")
    require_memory(24 * len(centres) ** 2, f"a preconditioner of {len(centres)} centres")
