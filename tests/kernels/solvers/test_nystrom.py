"""Regression on centres: the normal equations by NumPy, exact when all points are centres."""

import numpy as np
import pytest

from theorylab.kernels.solvers import nystrom_solve

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 2))
Y = np.stack([np.sin(X[:, 0]), X[:, 0] * X[:, 1]], axis=1)
CENTRES = X[::8]


def laplace(x1, x2):
    gaps = np.asarray(x1)[:, None] - np.asarray(x2)[None]
    return np.exp(-np.sqrt(np.sum(gaps**2, axis=2)))


@pytest.mark.parametrize("keep", [True, False])
def test_solution_solves_the_normal_equations(keep):
    """Oracle: (K_CX K_XC + λK_CC)⁻¹ K_CX y, dense."""
    found = nystrom_solve(laplace, X, CENTRES, Y, 0.1, tolerance=1e-12, keep=keep)
    tall, small = laplace(X, CENTRES), laplace(CENTRES, CENTRES)
    expected = np.linalg.solve(tall.T @ tall + 0.1 * small, tall.T @ Y)
    np.testing.assert_allclose(found.coefficients, expected, rtol=1e-7, atol=1e-9)
    assert found.converged
    assert found.jitter == 0.0


def test_all_points_as_centres_give_the_exact_solution():
    """(K² + λK)α̃ = Ky has the solution of (K + λI)α = y, and the ridge is λ, not 2λ."""
    found = nystrom_solve(laplace, X, X, Y, 0.5, tolerance=1e-13, max_steps=500)
    exact = np.linalg.solve(laplace(X, X) + 0.5 * np.eye(120), Y)
    np.testing.assert_allclose(found.coefficients, exact, rtol=1e-6, atol=1e-8)


def test_the_preconditioner_keeps_iterations_few_and_operations_are_counted():
    found = nystrom_solve(laplace, X, CENTRES, Y, 1e-3, tolerance=1e-6)
    assert found.num_steps < 20
    again = nystrom_solve(laplace, X, CENTRES, Y, 1e-3, tolerance=1e-6, keep=False)
    passes = found.num_steps + 2
    assert again.num_operations - found.num_operations == 120 * 15 * (passes - 1)
    assert found.num_operations == (
        120 * 15 + 15**2 + 15**3 + passes * (2 * 120 * 15 * 2 + 4 * 15**2 * 2)
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ridge": 0.0}, "ridge must be positive with Nyström centres, got 0.0"),
        ({"targets": Y[:5]}, r"targets must have shape \(120, k\), got \(5, 2\)"),
        ({"targets": Y * np.nan}, "targets must be finite"),
        ({"centres": X[:0]}, "centres must be from 1 to the 120 points, got 0"),
        ({"centres": X[:5, :1]}, r"centres must have the shape \(2,\) of the points, got \(1,\)"),
    ],
)
def test_bad_input_is_refused(changed, message):
    given = {"x": X, "centres": CENTRES, "targets": Y, "ridge": 0.1} | changed
    call = getattr(nystrom_solve, "__wrapped__", nystrom_solve)
    with pytest.raises(ValueError, match=message):
        call(laplace, **given)


def test_points_in_single_precision_have_a_jitter_of_their_precision():
    """Centres that come twice: the kernel is singular, and right to 1e-7 only."""

    def rounded(x1, x2):
        return laplace(x1, x2).astype(np.float32)

    x = np.concatenate([X, X]).astype(np.float32)
    y = np.concatenate([Y, Y])
    found = nystrom_solve(rounded, x, x[::4], y, 0.1, tolerance=1e-6)
    assert 1e-8 < found.jitter < 1e-2
    once = nystrom_solve(laplace, np.concatenate([X, X]), X[::4], y, 0.1, tolerance=1e-6)
    fitted, expected = laplace(x, x[::4]) @ found.coefficients, laplace(X, X[::4])
    np.testing.assert_allclose(fitted[:120], expected @ once.coefficients, atol=2e-3)
