"""Intervals for differences and ratios cover as often as they say."""

import numpy as np
import pytest

from theorylab.numerics import newcombe, welch, wilson


@pytest.mark.parametrize(("p", "q"), [(0.3, 0.2), (0.05, 0.0), (0.1, 0.02), (0.5, 0.5)])
def test_newcombe_covers_the_difference(p, q):
    """Oracle: simulation, 200 held-out inputs and 1,000 of its own; at least 93 % of 2,000."""
    rng = np.random.default_rng(0)
    draws = zip(*(rng.binomial(n, r, 2000).tolist() for n, r in ((200, p), (1000, q))), strict=True)
    found = [newcombe((a, 200), (b, 1000)) for a, b in draws]
    held = np.mean([each.low <= p - q <= each.high for each in found])
    assert 0.93 <= held <= (0.99 if q > 0 else 1.0)


@pytest.mark.parametrize("successes", [0, 3, 10])
def test_wilson_solves_its_equation(successes):
    """Oracle: (p − p̂)² = z² p(1 − p)/n at both ends."""
    interval, z = wilson(successes, 10), 1.959963984540054
    for p in (interval.low, interval.high):
        np.testing.assert_allclose((p - successes / 10) ** 2, z**2 * p * (1 - p) / 10, atol=1e-12)


def test_welch_covers_the_difference_of_means():
    """Oracle: simulation with unequal variances and sizes; 93 to 97 % of 2,000."""
    rng = np.random.default_rng(0)
    found = [welch(rng.normal(1, 3, 20), rng.normal(0, 1, 60)) for _ in range(2000)]
    assert 0.93 <= np.mean([each.low <= 1 <= each.high for each in found]) <= 0.97
    assert welch(np.ones(3), np.zeros(3)) == (1.0, 1.0, 1.0)
