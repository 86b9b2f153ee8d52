"""Spearman's rank correlation: against scipy, against counting all orders, and its coverage."""

import itertools

import numpy as np
import pytest
from scipy import stats

from theorylab.numerics import rank_correlations, spearman

GENERATOR = np.random.default_rng(0)


def scipy_spearman(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The correlation and its p-value."""
    return np.asarray(stats.spearmanr(x, y), dtype=float)


@pytest.mark.parametrize("n", [5, 12, 40])
@pytest.mark.parametrize("ties", [False, True])
def test_the_estimate_is_scipy_s(n, ties):
    """Oracle: scipy.stats.spearmanr, with and without ties."""
    x, y = GENERATOR.normal(size=(2, n))
    if ties:
        x, y = x.round(), y.round()
    expected = scipy_spearman(x, y)[0]
    np.testing.assert_allclose(spearman(x, y).estimate, expected, atol=1e-11)
    np.testing.assert_allclose(spearman(x, -y).estimate, -expected, atol=1e-11)


@pytest.mark.parametrize("ties", [False, True])
def test_zero_is_left_out_where_all_orders_say_so(ties):
    """Oracle: the permutation test by brute force, on few points."""
    for _ in range(20):
        x, y = GENERATOR.normal(size=(2, 6))
        y = y + x
        if ties:
            x, y = np.floor(x), np.floor(y)
        if np.ptp(x) == 0 or np.ptp(y) == 0:
            continue
        found = spearman(x, y)
        orders = np.array(list(itertools.permutations(stats.rankdata(y))))
        others = np.corrcoef(stats.rankdata(x), orders)[0, 1:]
        p_value = np.mean(np.abs(others) >= abs(found.estimate) - 1e-9)
        assert (found.low > 0 or found.high < 0) == (p_value <= 0.05)


def test_zero_is_left_out_where_student_s_approximation_says_so():
    """Oracle: scipy's p-value, which makes the same approximation."""
    for _ in range(50):
        x, y = GENERATOR.normal(size=(2, 15))
        y = y + 0.6 * x
        found = spearman(x, y)
        assert (found.low > 0 or found.high < 0) == (scipy_spearman(x, y)[1] <= 0.05)


def test_only_the_order_counts():
    x = GENERATOR.normal(size=10)
    y = GENERATOR.normal(size=10)
    assert spearman(x, y) == spearman(np.exp(x), y**3)


def test_three_points_say_nothing_of_zero():
    """The fewest orders, 3! = 6, never make a two-sided 5 %."""
    found = spearman(np.arange(3.0), np.arange(3.0))
    assert (found.estimate, found.low, found.high) == (1.0, -1.0, 1.0)


def test_each_seed_has_its_own_correlation():
    x, y = GENERATOR.normal(size=(2, 4, 9))
    expected = [scipy_spearman(one, other)[0] for one, other in zip(x, y, strict=True)]
    np.testing.assert_allclose(rank_correlations(x, y), expected, atol=1e-11)


def test_what_is_constant_or_broken_is_unknown():
    line = np.arange(5.0)
    assert np.isnan(spearman(line, np.zeros(5))).all()
    assert np.isnan(spearman(line, np.where(line == 2, np.nan, line))).all()


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="two equal axes of 3 points"):
        spearman(np.arange(2.0), np.arange(2.0))
    with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\), got 1"):
        spearman(np.arange(4.0), np.arange(4.0), confidence=1.0)
