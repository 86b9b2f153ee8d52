"""Tail bounds against optimised exponential moments, hand-computed numbers and extremal laws."""

import math

import numpy as np
import pytest
from scipy import optimize

from theorylab.generalization import tail_bounds


def log_moment_bound(log_moment, t):
    """Min over s > 0 of log E exp(sX) − st: what every exponential bound relaxes."""
    found = optimize.minimize_scalar(
        lambda s: log_moment(s) - s * t,
        bounds=(1e-9, 50),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return found.fun  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("delta", [0.1, 1.0, 5.0])
def test_chernoff_for_all_deviations_is_the_poisson_moment_bound(delta):
    """Oracle: numerical minimisation, log E exp(sX) = μ(eˢ − 1) for a Poisson sum."""
    mu = 3.0
    expected = log_moment_bound(lambda s: mu * math.expm1(s), (1 + delta) * mu)
    np.testing.assert_allclose(tail_bounds.log_chernoff_far(mu, delta), expected, rtol=1e-8)


def test_chernoff_up_to_one_relaxes_the_general_form_and_no_further():
    """Oracle: δ²/3 ≤ (1 + δ)log(1 + δ) − δ if and only if δ is at most about 1.81."""
    near = np.linspace(0.01, 1, 50)
    assert np.all(
        tail_bounds.log_chernoff_above(7.0, near) >= tail_bounds.log_chernoff_far(7.0, near)
    )
    assert tail_bounds.chernoff_shorthand(7.0, 2.0) < tail_bounds.log_chernoff_far(7.0, 2.0)


def test_chernoff_below_relaxes_the_moment_bound():
    """Oracle: numerical minimisation for −X: never above the bound, and close for small δ."""
    mu = 3.0
    for delta in (0.05, 0.5, 0.9):
        moment = log_moment_bound(lambda s: mu * math.expm1(-s), -(1 - delta) * mu)
        assert moment <= tail_bounds.log_chernoff_below(mu, delta) + 1e-12
    np.testing.assert_allclose(tail_bounds.log_chernoff_below(mu, 0.05), -0.00375, rtol=1e-12)


def test_hoeffding_is_the_gaussian_moment_bound_for_signs():
    """Oracle: log E exp(sX) ≤ ms²/2 for m signs, minimised: −t²/2m on each side."""
    expected = math.log(2) + log_moment_bound(lambda s: 50 * s**2, 20.0)
    np.testing.assert_allclose(tail_bounds.log_hoeffding(4.0 * 100, 20.0), expected, rtol=1e-8)


def test_bernstein_by_hand():
    """Oracle: t = 3, v = 2, M = 1 gives −(9/2)/(2 + 1) = −3/2."""
    np.testing.assert_allclose(tail_bounds.log_bernstein(2.0, 1.0, 3.0), -1.5, rtol=1e-15)
    matrix = tail_bounds.log_matrix_bernstein(2.0, 1.0, (4, 6), 3.0)
    np.testing.assert_allclose(matrix, math.log(10) - 1.5, rtol=1e-15)
    mean = tail_bounds.matrix_bernstein_mean(2.0, 3.0, (4, 6))
    np.testing.assert_allclose(mean, 2 * math.sqrt(math.log(10)) + math.log(10), rtol=1e-15)


def test_markov_and_chebyshev_are_attained():
    """Oracle: X = t with probability q, else 0, attains Markov; X = ±t, else 0, Chebyshev."""
    q, t = 0.2, 3.0
    np.testing.assert_allclose(np.exp(tail_bounds.log_markov(q * t, t)), q, rtol=1e-14)
    np.testing.assert_allclose(np.exp(tail_bounds.log_chebyshev(q * t**2, t)), q, rtol=1e-14)


def test_anti_concentration_by_hand():
    """Oracle: at t = σ the bounds are 2/3 and 4/5, around 0.6827."""
    np.testing.assert_allclose(tail_bounds.anti_concentration(2.0, 2.0), (2 / 3, 0.8), rtol=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tail_bounds.log_markov(-1.0, 1.0), "mean must be positive, got -1.0"),
        (lambda: tail_bounds.log_chebyshev(1.0, np.array([0.0])), "t must be positive, got 0.0"),
        (lambda: tail_bounds.log_chernoff_above(1.0, 1.5), "delta must be at most 1, got 1.5"),
        (lambda: tail_bounds.log_chernoff_below(1.0, 1.0), "delta must be below 1, got 1.0"),
        (
            lambda: tail_bounds.anti_concentration(1.0, 1.5),
            "at most the standard deviation, got 1.5",
        ),
        (lambda: tail_bounds.matrix_bernstein_mean(1.0, 1.0, (0, 2)), "at least one row"),
        (lambda: tail_bounds.log_bernstein(float("nan"), 1.0, 1.0), "variance must be positive"),
    ],
)
def test_outside_its_domain_a_bound_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
