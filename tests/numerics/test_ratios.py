"""Intervals of ratios: exact cases, invariance, and coverage by simulation."""

import numpy as np
import pytest

from theorylab.numerics import mean_ratio, norm_ratio


@pytest.mark.parametrize(("num_samples", "spread"), [(64, 0.5), (64, 1.0), (1000, 1.0)])
def test_the_interval_covers(num_samples, spread):
    """Oracle: log-normal pairs with E a/E b = exp(s²/2 − t²/2); 95 %, and 93 at n = 64."""
    rng = np.random.default_rng(0)
    true, hits, repeats = np.exp(spread**2 / 2 - 0.25 / 2), 0, 1500
    for _ in range(repeats):
        first, second = rng.normal(size=(2, num_samples))
        a, b = np.exp(spread * first), np.exp(0.5 * (0.6 * first + 0.8 * second))
        found = mean_ratio(a, b)
        hits += found.low <= true <= found.high
    assert 0.92 <= hits / repeats <= 0.97


def test_the_ratio_upside_down_has_the_interval_upside_down():
    """Invariance: the interval is symmetric in log R."""
    a, b = np.random.default_rng(0).exponential(size=(2, 30))
    one, other = mean_ratio(a, b), mean_ratio(b, a)
    np.testing.assert_allclose([one.low, one.high], [1 / other.high, 1 / other.low], rtol=1e-12)


def test_norms_are_roots_of_means():
    """Oracle: √ of all three numbers."""
    a, b = np.random.default_rng(1).exponential(size=(2, 30))
    np.testing.assert_allclose(norm_ratio(a, b), np.sqrt(mean_ratio(a, b)), rtol=1e-12)


def test_multiples_have_no_error():
    """Oracle: a = 3b."""
    b = np.arange(1.0, 6.0)
    np.testing.assert_allclose(mean_ratio(3 * b, b), (3.0, 3.0, 3.0), rtol=1e-12)
    assert mean_ratio(0 * b, b) == (0.0, 0.0, 0.0)


def test_what_is_not_finite_has_no_interval():
    """Comparisons with NaN are false."""
    assert all(map(np.isnan, mean_ratio(np.array([1.0, np.nan]), np.ones(2))))


@pytest.mark.parametrize(
    ("above", "below"), [([1.0], [1.0]), ([1.0, -1.0], [1.0, 1.0]), ([1.0, 1.0], [0.0, 0.0])]
)
def test_wrong_numbers_are_refused(above, below):
    """Too few, negative, or nothing below."""
    with pytest.raises(ValueError, match="above and below must"):
        mean_ratio(np.array(above), np.array(below))
