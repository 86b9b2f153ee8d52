"""Patches: the moments in closed form against samples, the law of projections, the linear error."""

import math

import jax
import numpy as np
import pytest
from scipy import stats

from theorylab.data import patches

LAW = patches.patch_law(num_patches=20, dimension=3)


@pytest.fixture(scope="module")
def samples():
    data = patches.signal_among_noise(jax.random.key(0), LAW, num_samples=4000)
    return np.asarray(data.x), np.asarray(data.y[:, 0])


def test_moments_are_those_of_samples(samples):
    """Five standard errors of 84,000 patches, whose squares have a variance of about 2σ⁴."""
    x, y = samples
    rows = x.reshape(-1, 3)
    np.testing.assert_allclose(
        rows.T @ rows / len(rows), LAW.patch_second_moment, atol=5 * LAW.noise**2 * 1.5 / 290
    )
    np.testing.assert_allclose(
        np.einsum("n,npd->d", y, x) / len(rows), LAW.patch_label_moment, atol=5 * LAW.noise / 290
    )
    assert abs(y.mean()) < 5 / math.sqrt(len(y))
    energy = (x**2).sum(axis=(1, 2))
    expected = 1 + 20 * 3 * LAW.noise**2
    assert energy.mean() == pytest.approx(expected, abs=5 * energy.std() / math.sqrt(len(y)))


def test_one_patch_is_the_signal_anywhere_and_the_others_are_gaussian(samples):
    """Exactly one patch equals y w*; the others are normal; places are even."""
    x, y = samples
    signal = np.asarray(LAW.signal)
    assert np.linalg.norm(signal) == pytest.approx(1)
    at_signal = np.all(np.isclose(x, y[:, None, None] * signal[None, None, :], atol=1e-12), axis=2)
    assert np.all(at_signal.sum(axis=1) == 1)
    assert stats.chisquare(at_signal.sum(axis=0)).pvalue > 1e-3
    projections = (x @ signal)[~at_signal] / LAW.noise
    assert stats.kstest(projections, "norm").pvalue > 1e-3


def test_linear_error_is_that_of_samples_and_not_at_least_0_49(samples):
    """Oracle: Φ(−1/log k), and the sign of the sum, within four binomial standard errors."""
    x, y = samples
    assert LAW.linear_error == pytest.approx(stats.norm.cdf(-1 / math.log(20)), rel=1e-12)
    wrong = np.mean(y * (x @ np.asarray(LAW.signal)).sum(axis=1) <= 0)
    assert wrong == pytest.approx(LAW.linear_error, abs=4 * 0.5 / math.sqrt(len(y)))
    louder = patches.patch_law(20, 3, noise_factor=2.0)
    assert louder.linear_error == pytest.approx(stats.norm.cdf(-0.5 / math.log(20)), rel=1e-12)


def test_laws_outside_their_domain_are_refused():
    with pytest.raises(ValueError, match="num_patches must be at least 2, got 1"):
        patches.patch_law(1, 3)
    with pytest.raises(ValueError, match="dimension must be at least 1, got 0"):
        patches.patch_law(10, 0)
    with pytest.raises(ValueError, match=r"noise must be positive, got -0\."):
        patches.patch_law(10, 3, noise_factor=-1.0)
    with pytest.raises(ValueError, match="num_samples must be at least 1, got 0"):
        patches.signal_among_noise(jax.random.key(0), LAW, 0)
