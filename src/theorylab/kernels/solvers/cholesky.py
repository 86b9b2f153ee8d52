"""The exact solution of (K + λI)α = y, with its jitter, conditioning and residual told.

K is factorised in place, LLᵀ = K + λI, in one triangle of the array; the other triangle keeps K, so
that the residual is that of the matrix which was asked for, at no cost in memory. Where rounding
has made K + λI indefinite, the least jitter of n ε tr(K)/n · 1, 10, 100, ... that helps is added
and reported: a ridge that nobody asked for is never silent.

The ridge λ is that of the loss ½Σ(f − y)² + ½λ‖f‖². (The source writes ½Σ(f − y)² + λ‖f‖² and
prints the same equation, where 2λ belongs.) Outputs share the kernel: K ⊗ I_k is never formed.

Source: golikov · kernel-solvers · 2.89–2.93.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError
from scipy.linalg.blas import get_blas_funcs
from scipy.linalg.lapack import get_lapack_funcs

Matrix = Float[np.ndarray, "n n"]


class CholeskyFactor(NamedTuple):
    """LLᵀ = K + (λ + jitter) I.

    Args:
        factor: L in the lower triangle (above it, what is left of K).
        diagonal: That of K.
        ridge: λ, as it was asked for.
        jitter: What had to be added to λ, 0 if nothing.
        condition: An estimate of ‖A‖₁‖A⁻¹‖₁ for A = LLᵀ.

    Example: log det of a diagonal matrix.
        >>> factor = cholesky_factor(np.diag([1.0, 2.0]), ridge=1.0)
        >>> round(math.exp(factor.log_determinant), 6)  # (1 + 1)(2 + 1)
        6.0
    """

    factor: Matrix
    diagonal: Float[np.ndarray, " n"]
    ridge: float
    jitter: float
    condition: float

    @property
    def log_determinant(self) -> float:
        """The log of det(K + (λ + jitter) I)."""
        return 2.0 * float(np.sum(np.log(self.factor.diagonal())))


class CholeskySolution(NamedTuple):
    """α, and how far it can be trusted.

    Args:
        coefficients: α.
        jitter: What had to be added to λ, 0 if nothing.
        condition: The condition number, estimated in the 1-norm: digits lost are its logarithm.
        residual: ‖(K + λI)α − y‖/‖y‖, in Frobenius norm, without the jitter.

    Example: one equation, 2α = 6.
        >>> solution = cholesky_solve(np.array([[2.0]]), np.array([[6.0]]))
        >>> solution.coefficients.round(6).tolist(), solution.jitter, round(solution.residual, 6)
        ([[3.0]], 0.0, 0.0)
    """

    coefficients: Float[np.ndarray, "n k"]
    jitter: float
    condition: float
    residual: float


def cholesky_solve(
    kernel: Matrix,
    targets: Float[np.ndarray, "n k"],
    ridge: float = 0.0,
    overwrite: bool = False,
) -> CholeskySolution:
    """Solve (K + λI)α = y exactly.

    Args:
        kernel: K(X, X), float32 or float64, C-ordered as NumPy's are.
        targets: y.
        ridge: λ.
        overwrite: Whether the array of K may be used for the factor, which saves a copy of it.

    Example:
        >>> kernel, y = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[3.0], [3.0]])
        >>> solution = cholesky_solve(kernel, y, ridge=1.0)
        >>> solution.coefficients.round(6).tolist(), solution.jitter
        ([[0.75], [0.75]], 0.0)
    """
    factor = cholesky_factor(kernel, ridge, overwrite)
    _check_targets(targets, len(kernel))
    alpha = apply_inverse(factor, targets)
    misfit = _product(factor, alpha) - targets
    scale = np.linalg.norm(targets)
    residual = float(np.linalg.norm(misfit) / (scale if scale > 0 else 1.0))
    return CholeskySolution(alpha, factor.jitter, factor.condition, residual)


def cholesky_factor(
    kernel: Matrix, ridge: float = 0.0, overwrite: bool = False, rounding: float | None = None
) -> CholeskyFactor:
    """Factorise K + λI once, for many right-hand sides.

    Args:
        kernel: As for `cholesky_solve`, like `ridge` and `overwrite`.
        ridge: λ.
        overwrite: Whether the array of K may be used for the factor.
        rounding: The ε to which entries of K are right, if it is not that of its own precision.

    Example: a singular kernel gets a jitter, which is reported.
        >>> factor = cholesky_factor(np.ones((2, 2)))
        >>> 0 < factor.jitter < 1e-12
        True
    """
    _check(kernel, ridge)
    work = kernel if overwrite and kernel.flags.c_contiguous else np.array(kernel, order="C")
    diagonal = work.diagonal().copy()
    potrf, pocon = get_lapack_funcs(("potrf", "pocon"), (work,))
    norm = _one_norm(work) + ridge
    epsilon = float(np.finfo(work.dtype).eps) if rounding is None else rounding
    step = epsilon * max(float(np.sum(diagonal)), float(np.finfo(work.dtype).tiny))
    jitters = (0.0, *(step * 10.0**power for power in range(8)))
    for jitter in jitters:
        np.fill_diagonal(work, diagonal + ridge + jitter)
        # Fortran's lower triangle is the upper one here; the strictly lower one stays as it is.
        factor, failed_at = potrf(work.T, lower=1, overwrite_a=1, clean=0)
        if not failed_at:
            inverse_condition, _ = pocon(factor, norm + jitter, uplo="L")
            condition = math.inf if inverse_condition == 0 else 1 / float(inverse_condition)
            return CholeskyFactor(factor, diagonal, float(ridge), jitter, condition)
        _mirror(work)
    raise LinAlgError(
        f"the kernel must be positive semi-definite to rounding, got one that is not even with a "
        f"jitter of {jitters[-1]:.3g} beside the ridge {ridge}."
    )


def apply_inverse(
    factor: CholeskyFactor, targets: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "n k"]:
    """(K + (λ + jitter) I)⁻¹ y, from the factor.

    Example: (K + λI)⁻¹y of a diagonal matrix.
        >>> factor = cholesky_factor(np.diag([1.0, 3.0]), ridge=1.0)
        >>> apply_inverse(factor, np.array([[2.0], [4.0]])).round(6).tolist()
        [[1.0], [1.0]]
    """
    (potrs,) = get_lapack_funcs(("potrs",), (factor.factor,))
    solution, _ = potrs(factor.factor, targets.astype(factor.factor.dtype), lower=1)
    return np.ascontiguousarray(solution)


def whiten(factor: CholeskyFactor, targets: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """L⁻¹y, whose columns' squared lengths are yᵀ(K + (λ + jitter) I)⁻¹y.

    Example: L = diag(2, 3).
        >>> factor = cholesky_factor(np.diag([4.0, 9.0]))
        >>> whiten(factor, np.array([[2.0], [9.0]])).round(6).tolist()
        [[1.0], [3.0]]
    """
    (trtrs,) = get_lapack_funcs(("trtrs",), (factor.factor,))
    solution, _ = trtrs(factor.factor, targets.astype(factor.factor.dtype), lower=1)
    return solution


def _product(factor: CholeskyFactor, values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """(K + λI) v, from the triangle that the factor left alone and the diagonal."""
    (symm,) = get_blas_funcs(("symm",), (factor.factor,))
    product = symm(1.0, factor.factor, np.asfortranarray(values), lower=0)
    correction = factor.diagonal + factor.ridge - factor.factor.diagonal()
    return product + correction[:, None] * values


def _mirror(matrix: Matrix, size: int = 1024) -> None:
    """Copy the strictly lower triangle onto the upper one, in blocks."""
    for start in range(0, len(matrix), size):
        end = start + size
        matrix[start:end, end:] = matrix[end:, start:end].T
        block = np.tril(matrix[start:end, start:end], -1)
        matrix[start:end, start:end] = block + block.T  # the diagonal is set anew at each try


def _one_norm(matrix: Matrix, size: int = 1024) -> float:
    """The largest sum of absolute values in a row, without a second matrix."""
    starts = range(0, len(matrix), size)
    return max(float(np.abs(matrix[i : i + size]).sum(axis=1).max()) for i in starts)


def _check(kernel: np.ndarray, ridge: float) -> None:
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1] or kernel.shape[0] < 1:
        raise ValueError(f"kernel must be a square matrix, got shape {kernel.shape}.")
    if kernel.dtype not in (np.float32, np.float64):
        raise ValueError(f"kernel must be float32 or float64, got {kernel.dtype}.")
    if not 0 <= ridge < math.inf:
        raise ValueError(f"ridge must be at least 0, got {ridge}.")
    size = 1024
    largest, tolerance = 0.0, 0.0
    for start in range(0, len(kernel), size):
        band = kernel[start : start + size]
        largest = max(largest, float(np.abs(band).max()))
        gap = float(np.abs(band - kernel[:, start : start + size].T).max())
        tolerance = max(tolerance, gap)
        if not math.isfinite(float(band.sum())):
            raise ValueError("kernel must be finite, got NaN or infinity.")
    if tolerance > math.sqrt(np.finfo(kernel.dtype).eps) * largest:
        raise ValueError(
            f"kernel must be symmetric, got entries that differ from their mirror image by "
            f"{tolerance:.3g}, where the largest is {largest:.3g}."
        )


def _check_targets(targets: np.ndarray, num_samples: int) -> None:
    if targets.ndim != 2 or targets.shape[0] != num_samples:
        raise ValueError(f"targets must have shape ({num_samples}, k), got {targets.shape}.")
    if not np.isfinite(targets).all():
        raise ValueError("targets must be finite, got NaN or infinity.")
