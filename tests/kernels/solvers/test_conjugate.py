"""Conjugate gradients: dense oracles, and preconditioners that spare iterations."""

import numpy as np
import pytest

from theorylab.kernels.solvers import (
    BlockProduct,
    conjugate_gradients,
    low_rank_preconditioner,
    nystrom_factor,
    pivoted_cholesky,
)

RANDOM = np.random.default_rng(0)
X = np.sort(RANDOM.uniform(-1, 1, (60, 1)), axis=0)
Y = np.concatenate([np.sin(3 * X), X**2, 0 * X], axis=1)  # a column of zeros is solved too


def bell(x1, x2):
    return np.exp(-((np.asarray(x1) - np.asarray(x2).T) ** 2) / 0.1)


KERNEL, RIDGE = bell(X, X), 1e-3
EXPECTED = np.linalg.solve(KERNEL + RIDGE * np.eye(60), Y)


def test_solution_is_numpys_and_the_residual_is_true():
    found = conjugate_gradients(BlockProduct(bell, X, X), Y, RIDGE, tolerance=1e-11)
    np.testing.assert_allclose(found.coefficients, EXPECTED, rtol=1e-6, atol=1e-7)
    assert found.converged
    assert found.residual < 1e-10
    assert len(found.residuals) == found.num_steps + 1
    misfit = (KERNEL + RIDGE * np.eye(60)) @ found.coefficients - Y
    scale = np.linalg.norm(Y, axis=0)[:2]
    worst = np.max(np.linalg.norm(misfit, axis=0)[:2] / scale)
    assert found.residual == pytest.approx(worst, rel=1e-2)


def test_distinct_eigenvalues_bound_the_iterations():
    """Exact arithmetic ends after as many iterations as there are distinct eigenvalues."""
    basis = np.linalg.qr(RANDOM.normal(size=(20, 20)))[0]
    matrix = (basis * np.repeat([1.0, 5.0, 20.0, 100.0], 5)) @ basis.T
    found = conjugate_gradients(matrix.__matmul__, RANDOM.normal(size=(20, 2)), tolerance=1e-10)
    assert found.num_steps == 4


def test_low_rank_preconditioners_are_woodbury_and_spare_iterations():
    plain = conjugate_gradients(KERNEL.__matmul__, Y, RIDGE, tolerance=1e-9)
    for factor in (pivoted_cholesky(bell, X, 12), nystrom_factor(bell, X, X[::5])):
        inverse = np.linalg.inv(factor @ factor.T + RIDGE * np.eye(60))
        precondition = low_rank_preconditioner(factor, RIDGE)
        np.testing.assert_allclose(precondition(Y), inverse @ Y, rtol=1e-6, atol=1e-7)
        found = conjugate_gradients(KERNEL.__matmul__, Y, RIDGE, precondition, tolerance=1e-9)
        np.testing.assert_allclose(found.coefficients, EXPECTED, rtol=1e-4, atol=1e-5)
        assert found.num_steps < plain.num_steps / 2


def test_pivoted_cholesky_is_exact_at_full_rank_and_stops_when_done():
    features = RANDOM.normal(size=(15, 4))

    def linear(x1, x2):
        return np.asarray(x1) @ np.asarray(x2).T

    factor = pivoted_cholesky(linear, features, 10)
    assert factor.shape == (15, 4)
    np.testing.assert_allclose(factor @ factor.T, features @ features.T, atol=1e-12)


def test_nystrom_factor_is_the_projection_on_its_centres():
    factor = nystrom_factor(bell, X, X[::10])
    approximation = factor @ factor.T
    np.testing.assert_allclose(approximation[::10], KERNEL[::10], atol=1e-8)
    assert np.linalg.eigvalsh(KERNEL - approximation).min() > -1e-8


def test_too_few_iterations_are_told():
    found = conjugate_gradients(KERNEL.__matmul__, Y, RIDGE, max_steps=3)
    assert not found.converged
    assert found.num_steps == 3
    assert found.residual > 1e-6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: conjugate_gradients(KERNEL.__matmul__, Y, -1.0), "ridge must be at least 0"),
        (lambda: conjugate_gradients(KERNEL.__matmul__, Y * np.nan), "targets must be finite"),
        (lambda: conjugate_gradients(KERNEL.__matmul__, Y, tolerance=0.0), "tolerance must be in"),
        (lambda: conjugate_gradients(KERNEL.__matmul__, Y, max_steps=0), "max_steps"),
        (lambda: low_rank_preconditioner(np.ones((3, 1)), 0.0), "needs a positive ridge, got 0.0"),
        (lambda: pivoted_cholesky(bell, X, 0), "rank must be from 1 to the 60 points, got 0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
