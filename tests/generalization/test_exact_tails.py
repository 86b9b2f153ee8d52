"""Exact tails against enumeration and against SciPy where SciPy does not underflow."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from theorylab.generalization import exact_tails


@pytest.mark.parametrize("threshold", [-0.5, 0.0, 2.0, 2.5, 7.0, 8.0, 9.0])
def test_binomial_tails_are_sums_over_all_outcomes(threshold):
    """Oracle: enumeration of all 2⁸ outcomes."""
    p = 0.3
    above = below = 0.0
    for outcome in itertools.product((0, 1), repeat=8):
        weight = p ** sum(outcome) * (1 - p) ** (8 - sum(outcome))
        above += weight * (sum(outcome) >= threshold)
        below += weight * (sum(outcome) <= threshold)
    measured = np.exp(exact_tails.log_binomial_above(8, p, threshold))
    np.testing.assert_allclose(measured, above, rtol=1e-12, atol=1e-300)
    measured = np.exp(exact_tails.log_binomial_below(8, p, threshold))
    np.testing.assert_allclose(measured, below, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("threshold", [1.0, 4.0, 5.0, 10.0])
def test_tails_of_signs_are_sums_over_all_signs(threshold):
    """Oracle: enumeration of all 2¹⁰ sequences of signs."""
    sums = [sum(signs) for signs in itertools.product((-1, 1), repeat=10)]
    above = np.mean([total >= threshold for total in sums])
    beyond = np.mean([abs(total) >= threshold for total in sums])
    np.testing.assert_allclose(np.exp(exact_tails.log_signs_above(10, threshold)), above)
    np.testing.assert_allclose(np.exp(exact_tails.log_signs_beyond(10, threshold)), beyond)


def test_a_far_tail_agrees_with_scipy_and_goes_on_where_scipy_underflows():
    """Oracle: SciPy's survival function; beyond it, the leading atom and a geometric bound."""
    far = exact_tails.log_binomial_above(10_000, 1e-3, 60.0)
    np.testing.assert_allclose(far, math.log(stats.binom.sf(59, 10_000, 1e-3)), rtol=1e-10)
    np.testing.assert_allclose(np.exp(far), 5.8e-27, rtol=0.02)  # computed apart
    further = exact_tails.log_binomial_above(10_000, 1e-3, 1000.0)
    atom = stats.binom.logpmf(1000, 10_000, 1e-3)
    assert np.isfinite(further)
    assert atom < further < atom + 0.02  # later atoms fall by a factor of about 100 each


def test_a_normal_variable_is_within_a_distance_as_its_law_says():
    """Oracle: SciPy's distribution function."""
    t = np.array([0.1, 1.0, 3.0])
    expected = stats.norm.cdf(t, scale=2.0) - stats.norm.cdf(-t, scale=2.0)
    np.testing.assert_allclose(exact_tails.normal_within(2.0, t), expected, rtol=1e-12)


def test_the_distance_from_the_normal_law_is_half_the_largest_atom():
    """Oracle: for even m the largest atom is at 0, and half of it is the distance, by symmetry."""
    for m in (2, 10, 100):
        atom = math.comb(m, m // 2) / 2**m
        np.testing.assert_allclose(exact_tails.distance_from_normal(m), atom / 2, rtol=1e-10)


def test_impossible_sums_are_refused():
    with pytest.raises(ValueError, match=r"at least 1 trial and a probability in \(0, 1\)"):
        exact_tails.log_binomial_above(0, 0.5, 1.0)
    with pytest.raises(ValueError, match="threshold must be positive, got 0"):
        exact_tails.log_signs_beyond(10, 0.0)
