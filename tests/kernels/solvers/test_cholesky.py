"""The exact solver: dense oracles, jitter that is told, and an array that is used in place."""

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from theorylab.kernels.solvers import (
    apply_inverse,
    cholesky,
    cholesky_factor,
    cholesky_solve,
    whiten,
)

RANDOM = np.random.default_rng(0)
FEATURES = RANDOM.normal(size=(30, 40))
KERNEL = FEATURES @ FEATURES.T
Y = RANDOM.normal(size=(30, 2))


@pytest.mark.parametrize("ridge", [0.0, 2.0])
@pytest.mark.parametrize("overwrite", [False, True])
def test_solution_is_numpys(ridge, overwrite):
    kernel = KERNEL.copy()
    found = cholesky_solve(kernel, Y, ridge, overwrite)
    matrix = KERNEL + ridge * np.eye(30)
    np.testing.assert_allclose(found.coefficients, np.linalg.solve(matrix, Y), rtol=1e-9)
    assert found.jitter == 0.0
    assert found.residual < 1e-12
    exact = np.linalg.cond(matrix, 1)
    assert 0.3 * exact < found.condition <= 1.01 * exact
    assert np.array_equal(kernel, KERNEL) is not overwrite


def test_factor_gives_determinants_and_whitens():
    factor = cholesky_factor(KERNEL, 0.5)
    matrix = KERNEL + 0.5 * np.eye(30)
    assert factor.log_determinant == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-12)
    white = whiten(factor, Y)
    np.testing.assert_allclose(white.T @ white, Y.T @ np.linalg.solve(matrix, Y), rtol=1e-10)
    np.testing.assert_allclose(apply_inverse(factor, matrix), np.eye(30), atol=1e-10)


def test_singular_kernel_gets_a_jitter_that_is_told():
    """Rank 5 of 30: no factor without jitter; the residual is that of the kernel without it."""
    low = FEATURES[:, :5] @ FEATURES[:, :5].T - 1e-14 * np.eye(30)
    inside = low @ Y
    found = cholesky_solve(low, inside)
    assert 0 < found.jitter < 1e-9
    assert found.condition > 1e10
    np.testing.assert_allclose(
        found.residual,
        np.linalg.norm(low @ found.coefficients - inside) / np.linalg.norm(inside),
        rtol=1e-3,
        atol=1e-12,
    )
    outside = cholesky_solve(low, Y)
    assert outside.residual > 0.5  # what the kernel cannot reach shows


def test_failed_tries_leave_the_kernel_as_it_was(monkeypatch):
    """Every try begins from K, also in blocks smaller than the matrix and in place."""
    mirror = cholesky._mirror
    monkeypatch.setattr(cholesky, "_mirror", lambda matrix: mirror(matrix, 7))
    low = FEATURES[:, :5] @ FEATURES[:, :5].T - 1e-14 * np.eye(30)
    found = cholesky_factor(low.copy(), overwrite=True)
    root = np.tril(found.factor)
    np.testing.assert_allclose(root @ root.T, low, atol=1e-9)


def test_single_precision_is_kept():
    found = cholesky_solve(KERNEL.astype(np.float32), Y.astype(np.float32), 1.0)
    assert found.coefficients.dtype == np.float32
    expected = np.linalg.solve(KERNEL + np.eye(30), Y)
    np.testing.assert_allclose(found.coefficients, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "ridge", "message"),
    [
        (KERNEL[:3], 0.0, r"kernel must be a square matrix, got shape \(3, 30\)"),
        (KERNEL + np.triu(np.ones((30, 30)), 1), 0.0, "kernel must be symmetric"),
        (np.full((2, 2), np.nan), 0.0, "kernel must be finite"),
        (KERNEL, -1.0, "ridge must be at least 0, got -1.0"),
        (KERNEL, np.nan, "ridge must be at least 0, got nan"),
    ],
)
def test_bad_input_is_refused(kernel, ridge, message):
    call = getattr(cholesky_factor, "__wrapped__", cholesky_factor)
    with pytest.raises(ValueError, match=message):
        call(kernel, ridge)


def test_indefinite_kernels_and_wrong_targets_are_refused():
    with pytest.raises(LinAlgError, match="positive semi-definite to rounding"):
        cholesky_factor(np.array([[1.0, 2.0], [2.0, 1.0]]))
    solve = getattr(cholesky_solve, "__wrapped__", cholesky_solve)
    with pytest.raises(ValueError, match=r"targets must have shape \(30, k\), got \(29, 2\)"):
        solve(KERNEL, Y[1:])
    with pytest.raises(ValueError, match="targets must be finite"):
        solve(KERNEL, Y * np.nan)
