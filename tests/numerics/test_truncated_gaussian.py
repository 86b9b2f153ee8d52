"""Truncated Gaussians: closed forms against quadrature, enumeration and exact tails."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from theorylab.numerics import truncated_gaussian

THRESHOLDS = (0.0, 0.3, 1.0, 2.5, 6.0)


def _integral(f, a):
    """∫ f φ from a on, cut where φ is below 1e-300."""
    return integrate.quad(lambda z: f(z) * stats.norm.pdf(z), a, a + 30, epsabs=0, epsrel=1e-12)[0]


@pytest.mark.parametrize("a", THRESHOLDS)
def test_moments_are_those_of_quadrature(a):
    """Oracle: adaptive quadrature of the density beyond the threshold."""
    mass, first, second = (_integral(lambda z, p=p: z**p, a) for p in range(3))
    found = truncated_gaussian.conditional_moments(a)
    mean = first / mass
    expected = (mean, second / mass, _integral(lambda z: (z - mean) ** 2, a) / mass)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    excess = [_integral(lambda z, p=p: (z - a) ** p, a) for p in range(3)]
    np.testing.assert_allclose(truncated_gaussian.excess_moments(a), excess, rtol=1e-10)
    np.testing.assert_allclose(truncated_gaussian.mills_ratio(a), mass / stats.norm.pdf(a), 1e-12)


def test_mills_ratio_lies_between_its_bounds():
    """A strict inequality at every a > 0; far out, all three are 1/a."""
    a = jnp.linspace(0.01, 30.0, 200)
    lower, upper = truncated_gaussian.mills_bounds(a)
    ratio = truncated_gaussian.mills_ratio(a)
    assert bool(jnp.all((lower < ratio) & (ratio < upper)))
    np.testing.assert_allclose(30 * np.array([lower[-1], upper[-1]]), 1, rtol=2e-3)


@pytest.mark.parametrize("n", [1, 2, 50, 10**6])
def test_maxima_are_rarely_larger_than_the_bound(n):
    """Oracle: 1 − (1 − tail)ⁿ by scipy's tails; the lemmas' 1/n and 2/n."""
    tail = stats.norm.sf(2 * math.sqrt(math.log(n)))
    one, both = (truncated_gaussian.maximum_tail(n, absolute) for absolute in (False, True))
    np.testing.assert_allclose(one, -np.expm1(n * np.log1p(-tail)), rtol=1e-9)
    assert one <= 1 / n
    assert one < both <= 2 / n


def test_small_ball_is_attained_by_equal_steps_and_by_no_others():
    """Oracle: all 2⁸ sums of signs; s = 2 outcomes lie in an open interval of length 4."""
    signs = np.array(list(itertools.product((-1, 1), repeat=8)))
    bound = truncated_gaussian.small_ball_bound(8, 2)

    def most(steps):
        sums = np.sort(signs @ steps)
        inside = np.searchsorted(sums, sums + 4 - 1e-9) - np.arange(len(sums))
        return inside.max() / len(sums)

    assert most(np.ones(8)) == pytest.approx(bound)
    assert most(np.array([1, 1, 1.5, 2, 1, 1.1, 1.2, 3])) < bound
    large = truncated_gaussian.small_ball_bound(10**4, 3)
    assert large == pytest.approx(3 * math.sqrt(2 / math.pi) / 100, rel=1e-3)


def test_sizes_outside_their_domain_are_refused():
    with pytest.raises(ValueError, match="num_terms must be at least 1, got 0"):
        truncated_gaussian.maximum_tail(0)
    with pytest.raises(ValueError, match=r"num_outcomes must be in \[1, 5\], got 6"):
        truncated_gaussian.small_ball_bound(4, 6)
    with pytest.raises(ValueError, match="num_terms must be at most 10"):
        truncated_gaussian.small_ball_bound(10**9, 1)
