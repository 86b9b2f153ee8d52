"""PAC-Bayes bounds against numbers made by hand."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from theorylab.generalization import (
    chernoff_upper,
    choice_penalty,
    gaussian_divergence,
    mcallester_gap,
    pac_bayes_gap,
)


def test_the_divergence_is_that_of_gaussian_laws():
    """Oracle: the mean of log densities, whose integral is exact for this many nodes."""
    w, start, s = np.array([0.3, -1.0]), np.array([0.0, 0.5]), 0.7
    nodes, weights = np.polynomial.hermite_e.hermegauss(10)
    law: Any = stats.norm
    logs = [
        weights @ (law(a, s).logpdf(a + s * nodes) - law(b, s).logpdf(a + s * nodes))
        for a, b in zip(w, start, strict=True)
    ]
    expected = sum(logs) / math.sqrt(2 * math.pi)
    found = gaussian_divergence({"w": jnp.asarray(w)}, {"w": jnp.asarray(start)}, {"w": s})
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_weights_that_did_not_move_need_no_noise():
    """Oracle: limits."""
    assert gaussian_divergence([jnp.ones(2)], [jnp.ones(2)], [0.0]) == 0
    assert gaussian_divergence([jnp.ones(2)], [jnp.zeros(2)], [0.0]) == math.inf


def test_the_weights_of_the_choices_sum_to_one():
    """Oracle: a law. Σⱼ e^(−penalty) over all whole numbers, the rest beyond 10⁴ is 4/3 · 10⁻⁴."""
    total = sum(math.exp(-choice_penalty([j])) for j in range(-10_000, 10_001))
    np.testing.assert_allclose(total, 1 - 4 / 3 * 1e-4, atol=1e-7)
    np.testing.assert_allclose(choice_penalty([2, 2]), 2 * choice_penalty([2]))


def test_the_bounds_by_hand():
    """Oracle: the formulas with numbers put in."""
    np.testing.assert_allclose(
        pac_bayes_gap(5.0, 100, 0.1), math.sqrt((5 + math.log(2 * 10 / 0.1)) / 200)
    )
    np.testing.assert_allclose(
        mcallester_gap(5.0, 100, 0.1), math.sqrt((5 + math.log(200 / 0.1)) / 198)
    )
    with pytest.raises(ValueError, match="delta"):
        pac_bayes_gap(5.0, 100, 0.0)


@pytest.mark.parametrize("probability", [0.02, 0.3, 0.9])
def test_the_upper_bound_of_a_mean_holds_with_its_confidence(probability):
    """Oracle: simulation of the worst law, which is 0 or 1; it fails in 5 % at most."""
    counts = np.random.default_rng(0).binomial(30, probability, 2000)
    bounds = np.array([chernoff_upper(c / 30, 30, 0.05) for c in range(31)])
    assert np.mean(bounds[counts] >= probability) >= 0.95
    assert chernoff_upper(0.2, 10**6, 0.05) < 0.2011
