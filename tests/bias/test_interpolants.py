"""Solutions of least norm and least entropy, against other solvers."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from theorylab import bias


def equations(seed, n=2, d=5):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal(n)


def entropy(weights, alpha):
    """R_α as the source prints it."""
    z = weights / alpha**2
    return alpha**2 / 4 * np.sum(2 - np.sqrt(4 + z**2) + z * np.arcsinh(z / 2))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("alpha", [3.0, 0.5, 0.1])
def test_least_entropy_agrees_with_a_primal_solver(seed, alpha):
    """Oracle: sequential quadratic programming on w, from the least ℓ₂ norm."""
    x, y = equations(seed)
    found = minimize(
        # Scaled so that the objective is of order one: the solver's tolerance is absolute.
        lambda w: entropy(w, alpha) * 16 * alpha**2,
        jac=lambda w: 4 * alpha**2 * np.arcsinh(w / (2 * alpha**2)),
        x0=np.linalg.lstsq(x, y, rcond=None)[0],
        constraints={"type": "eq", "fun": lambda w: x @ w - y, "jac": lambda w: x},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    np.testing.assert_allclose(bias.least_entropy(x, y, alpha), found.x, atol=2e-6)


@pytest.mark.parametrize("alpha", [1e3, 1.0, 1e-3, 1e-8])
def test_least_entropy_satisfies_its_optimality_conditions(alpha):
    """Oracle: Xw = y, and the mirror map of w lies in the row space of X."""
    x, y = equations(7, n=8, d=20)
    weights = bias.least_entropy(x, y, alpha)
    np.testing.assert_allclose(x @ weights, y, atol=1e-12)
    dual = np.arcsinh(weights / (2 * alpha**2))
    inside = np.linalg.pinv(x) @ (x @ dual)
    np.testing.assert_allclose(inside, dual, atol=1e-11 * np.abs(dual).max())


def test_the_scale_leads_from_least_l2_to_least_l1():
    x, y = equations(3, n=8, d=20)
    wide = bias.least_entropy(x, y, 1e3)
    np.testing.assert_allclose(wide, bias.least_l2(x, y), atol=1e-11)
    least = np.abs(bias.least_l1(x, y)).sum()
    norms = [np.abs(bias.least_entropy(x, y, alpha)).sum() for alpha in (1e-1, 1e-2, 1e-4, 1e-8)]
    assert all(a > b > least for a, b in pairwise(norms))
    # The excess falls as a power of α that is small where another vertex is nearly as good.
    np.testing.assert_allclose(norms[-1], least, rtol=1e-2)


def test_zero_is_the_solution_of_zero():
    x, y = equations(0)
    np.testing.assert_array_equal(bias.least_entropy(x, 0 * y, 0.1), np.zeros(5))


@pytest.mark.parametrize("seed", range(5))
def test_least_l1_is_the_best_of_all_vertices(seed):
    """Oracle: a linear program has an optimal vertex, here one with n non-zero weights."""
    x, y = equations(seed)
    vertices = [np.linalg.solve(x[:, list(pick)], y) for pick in combinations(range(5), 2)]
    best = min(np.abs(vertex).sum() for vertex in vertices)
    weights = bias.least_l1(x, y)
    np.testing.assert_allclose(x @ weights, y, atol=1e-12)
    np.testing.assert_allclose(np.abs(weights).sum(), best, rtol=1e-12)


def test_least_l2_agrees_with_the_formula():
    """Oracle: Xᵀ(XXᵀ)⁻¹y."""
    x, y = equations(4)
    np.testing.assert_allclose(bias.least_l2(x, y), x.T @ np.linalg.solve(x @ x.T, y), rtol=1e-12)


@pytest.mark.parametrize(
    "solve", [bias.least_l1, bias.least_l2, lambda x, y: bias.least_entropy(x, y, 1.0)]
)
def test_bad_equations_are_refused(solve):
    x, y = equations(0)
    with pytest.raises(ValueError, match="rows of x must be independent"):
        solve(np.stack([x[0], 2 * x[0]]), y)
    with pytest.raises(ValueError, match="x and y must be finite"):
        solve(x, np.array([1.0, np.nan]))


def test_bad_scales_and_too_few_steps_are_refused():
    x, y = equations(0)
    for alpha in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="scale must be positive and finite"):
            bias.least_entropy(x, y, alpha)
    with pytest.raises(RuntimeError, match="needs more than 1 steps"):
        bias.least_entropy(x, y, 1e-3, max_steps=1)
