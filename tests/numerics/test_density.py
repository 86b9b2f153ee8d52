"""Estimated densities against exact spectra and laws."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from theorylab.numerics import (
    marchenko_pastur,
    smoothed_density,
    spectral_cdf,
    spectral_density,
    spectral_distance,
)

SIZE = 500
KEY = jax.random.key(0)


@partial(jax.jit, static_argnames=("num_steps", "num_probes"))
def density_of(dense, key, num_steps=40, num_probes=20):
    return spectral_density(lambda v: dense @ v, len(dense), key, num_steps, num_probes)


@pytest.fixture(scope="module")
def covariance():
    """XXᵀ/n of Gaussian data, p/n = ½: the law of Marchenko and Pastur."""
    data = np.random.default_rng(0).standard_normal((SIZE, 2 * SIZE))
    return jnp.asarray(data @ data.T / (2 * SIZE))


def law(t: np.ndarray, ratio: float) -> np.ndarray:
    """Marchenko and Pastur's distribution, by integrating the density."""
    low, high = (1 - np.sqrt(ratio)) ** 2, (1 + np.sqrt(ratio)) ** 2

    def density(s):
        return np.sqrt(max((high - s) * (s - low), 0)) / (2 * np.pi * ratio * s)

    return np.array([integrate.quad(density, low, np.clip(s, low, high))[0] for s in t])


def test_the_distance_to_the_exact_spectrum_is_below_a_hundredth_of_the_range(covariance):
    """Oracle: dense eigenvalues."""
    exact = np.linalg.eigvalsh(covariance)
    found = density_of(covariance, KEY)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, rtol=1e-12)
    assert float(spectral_distance(found, jnp.asarray(exact))) < 0.01 * np.ptp(exact)


def test_the_cumulative_is_the_law_of_marchenko_and_pastur(covariance):
    """Oracle: the law, off by O(1/p); most points lie in the band, which is not idle."""
    t = np.linspace(0.2, 2.6, 13)
    found = spectral_cdf(density_of(covariance, KEY), jnp.asarray(t))
    expected = law(t, 0.5)
    np.testing.assert_allclose(marchenko_pastur(jnp.asarray(t), 0.5), expected, atol=1e-6)
    assert np.abs(found.value - expected).max() < 0.02
    assert np.mean((found.low - 2e-3 <= expected) & (expected <= found.high + 2e-3)) > 0.8
    assert np.max(found.high - found.low) < 0.05
    middle = smoothed_density(density_of(covariance, KEY), jnp.asarray(t[3:-3]), 0.1)
    slope = (law(t[3:-3] + 1e-3, 0.5) - law(t[3:-3] - 1e-3, 0.5)) / 2e-3
    np.testing.assert_allclose(middle.value, slope, rtol=0.1)


def test_as_many_steps_as_eigenvalues_are_exact_for_every_probe():
    """Oracle: (vᵀu)² summed over the eigenvectors gives vᵀA²v, for weights and nodes."""
    dense = jnp.diag(jnp.array([1.0, 2.0, 2.0, -5.0]))
    found = density_of(dense, KEY, 4, 3)
    key = jax.random.split(jax.random.split(KEY, 3)[1])[0]
    start = np.asarray(jax.random.normal(key, (4,)))
    expected = start @ np.asarray(dense) ** 2 @ start / (start @ start)
    assert float(found.nodes[1] ** 2 @ found.weights[1]) == pytest.approx(expected, rel=1e-12)


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="must be at least 1, got 0 and 20"):
        spectral_density(lambda v: v, 3, KEY, num_steps=0)
    with pytest.raises(ValueError, match="num_probes must be at least 2 for an interval, got 1"):
        spectral_cdf(density_of(jnp.eye(4), KEY, 2, 1), jnp.zeros(1))
    found = density_of(jnp.eye(4), KEY, 2, 2)
    with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\), got 95"):
        spectral_cdf(found, jnp.zeros(1), confidence=95.0)
    with pytest.raises(ValueError, match="bandwidth must be positive, got 0"):
        smoothed_density(found, jnp.zeros(1), bandwidth=0.0)


def test_a_tolerance_is_met_or_what_is_needed_is_told():
    """Oracle: the exact distribution of the diagonal at a few points."""
    values = jnp.asarray(np.random.default_rng(0).standard_normal(200))
    found = spectral_density(lambda v: values * v, 200, KEY, 20, tolerance=0.04, budget=2000)
    assert found.converged
    assert found.products == found.nodes.size
    at = jnp.array([-1.0, 0.0, 1.0])
    band = spectral_cdf(found, at)
    # The band at a node has half of a weight beside it; three standard errors and one node.
    exact = jnp.mean(values[None, :] <= at[:, None], axis=1)
    assert np.all(np.abs(band.value - exact) <= 0.06 + float(found.weights.max()) / 2)
    short = spectral_density(lambda v: values * v, 200, KEY, 20, tolerance=0.01, budget=200)
    assert not short.converged
    assert short.products == 200 < short.needed
    with pytest.raises(TypeError, match="a tolerance needs values"):
        jax.jit(lambda key: spectral_density(lambda v: v, 9, key, tolerance=0.1))(KEY)
