"""Gated patches: the closed forms against dense linear algebra, brute force and simulation."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from theorylab.data import patch_law
from theorylab.data.patches import noise_scale
from theorylab.kernels import gated_patches

GENERATOR = np.random.default_rng(0)


def test_ratio_is_fisher_s_by_dense_algebra():
    """Oracle: sᵀΣ⁻¹s with Σ = log²k (diag(p(1 − p)) + ppᵀ) solved directly."""
    p = GENERATOR.uniform(0.05, 0.95, size=5)
    s = np.array([1.0, 0.0, 1.0, 1.0, 0.0])
    covariance = math.log(300) ** 2 * (np.diag(p * (1 - p)) + np.outer(p, p))
    expected = math.sqrt(s @ np.linalg.solve(covariance, s))
    np.testing.assert_allclose(gated_patches.signal_to_noise(p, s, 300), expected, rtol=1e-12)


def test_one_gate_divides_the_noise_by_the_root_of_what_it_keeps():
    """Oracle: SNR = 1/(log k √p); p → 1 is the linear classifier."""
    p = np.array([[0.2], [1 - 1e-12]])
    expected = stats.norm.cdf(-1 / (math.log(1000) * np.sqrt(p[:, 0])))
    np.testing.assert_allclose(gated_patches.open_error(p, 1000), expected, rtol=1e-3)
    np.testing.assert_allclose(expected[1], patch_law(1000, 2).linear_error, rtol=1e-9)


def test_single_gate_error_is_fisher_s_in_the_plane():
    """Oracle: the covariance of the kept noise by integration, and s = w* turned to the gate."""
    g, k = 2.0, 1000
    sigma = math.log(k) / math.sqrt(k)
    cosine = g * sigma
    along = 2 * integrate.quad(lambda z: z**2 * stats.norm.pdf(z), g, np.inf)[0]
    across = 2 * stats.norm.sf(g)
    covariance = k * sigma**2 * np.diag([along, across])
    signal = np.array([cosine, math.sqrt(1 - cosine**2)])
    expected = stats.norm.cdf(-math.sqrt(signal @ np.linalg.solve(covariance, signal)))
    np.testing.assert_allclose(gated_patches.single_gate_error(g, k), expected, rtol=1e-9)
    wide = gated_patches.single_gate_error(1.0, 10**8)  # at right angles, the closed form
    kept = np.array([gated_patches.kept_part(1.0)])
    np.testing.assert_allclose(wide, gated_patches.open_error(kept, 10**8), rtol=1e-5)


def test_best_error_is_the_least_over_all_choices():
    """Oracle: dense algebra for every subset of open gates."""
    p = GENERATOR.uniform(0.1, 0.9, size=3)
    covariance = math.log(50) ** 2 * (np.diag(p * (1 - p)) + np.outer(p, p))
    ratios = [
        math.sqrt(max(0.0, np.array(s) @ np.linalg.solve(covariance, np.array(s))))
        for s in itertools.product((0.0, 1.0), repeat=3)
    ]
    found = gated_patches.best_error(p, 50)
    np.testing.assert_allclose(found, stats.norm.cdf(-max(ratios)), rtol=1e-10)
    assert found <= gated_patches.open_error(p, 50)


def test_kept_part_is_uniform_over_random_gates():
    """Oracle: Kolmogorov and Smirnov's test, on Gaussian projections."""
    p = gated_patches.kept_part(GENERATOR.normal(size=4000))
    assert np.asarray(stats.kstest(p, "uniform"), float)[1] > 1e-3
    np.testing.assert_allclose(gated_patches.kept_part(1.0), 2 * stats.norm.sf(1.0), rtol=1e-12)


def test_logarithm_for_failure_inverts_the_law_of_the_error():
    """Oracle: at that k, a kept part equal to the probability has just that error."""
    logarithm = float(gated_patches.logarithm_for_failure(0.2, 0.1))
    error = gated_patches.open_error(np.array([0.2]), math.exp(logarithm))
    np.testing.assert_allclose(error, 0.1, rtol=1e-9)


def test_sampled_features_have_the_mean_and_the_spread_of_the_formula():
    """Along w*: mean 1, variance log²k p, for a gate that is orthogonal to w* and just open."""
    k = 200
    gates = jnp.array([[0.0, 1.0]])
    threshold = noise_scale(k) * 1.0  # keeps 2Φᶜ(1) of the noise
    features = gated_patches.sampled_features(
        jax.random.key(0), gates, jnp.array([threshold]), k, 4000
    )
    along = np.asarray(features)[:, 0, 0]
    variance = math.log(k) ** 2 * 2 * stats.norm.sf(1.0)
    np.testing.assert_allclose(along.mean(), 0.0, atol=4 * math.sqrt(variance / 4000))
    np.testing.assert_allclose(along.var(), variance, rtol=4 * math.sqrt(2 / 4000))
    opened = gated_patches.sampled_features(jax.random.key(0), gates, jnp.zeros(1), k, 4000)
    np.testing.assert_allclose(
        np.asarray(opened)[:, 0, 0].mean(), 1.0, atol=4 * math.log(k) / math.sqrt(4000)
    )


def test_fitted_discriminant_has_the_error_of_gaussians():
    """Oracle: two independent Gaussian features with means 1 and 0.5: Φ(−√1.25)."""
    features = GENERATOR.normal(size=(40_000, 2)) + np.array([1.0, 0.5])
    error = gated_patches.discriminant_error(features)
    expected = stats.norm.cdf(-math.sqrt(1.25))
    assert abs(error - expected) < 4 * math.sqrt(expected / 20_000)


def test_soft_threshold_without_threshold_is_the_linear_classifier():
    outputs = gated_patches.soft_threshold_outputs(jax.random.key(1), 0.0, 100, 4000)
    error = float(np.mean(np.asarray(outputs) <= 0))
    assert abs(error - patch_law(100, 2).linear_error) < 4 * 0.5 / math.sqrt(4000)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: noise_scale(1), "num_patches must be at least 2, got 1"),
        (
            lambda: gated_patches.signal_to_noise(np.array([1.0]), np.ones(1), 10),
            r"kept parts must be in \(0, 1\)",
        ),
        (lambda: gated_patches.single_gate_error(3.0, 20), "projection must be below"),
        (lambda: gated_patches.best_error(np.full(11, 0.5), 10), "at most 10 gates, got 11"),
        (
            lambda: gated_patches.logarithm_for_failure(0.1, 0.6),
            r"error must be in \(0, 0.5\), got 0.6",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("bias", [-0.4, 0.4])
def test_gated_features_are_the_gradient_where_the_bias_is_not_positive(bias):
    """Oracle: sums over patches written out, with slope 2 for |z| < b if b > 0."""
    x = GENERATOR.normal(size=(3, 5, 2))
    gate = np.array([0.8, -0.6])
    z = np.abs(x @ gate)
    single = np.einsum("np,npd->nd", (z >= -bias).astype(float), x)
    slopes = (z > -bias).astype(float) + (z < bias)
    given = (jnp.asarray(gate), bias, jnp.asarray(x))
    np.testing.assert_allclose(gated_patches.gated_features(*given), single, rtol=1e-12)
    expected = np.einsum("np,npd->nd", slopes, x)
    np.testing.assert_allclose(gated_patches.tangent_features(*given), expected, rtol=1e-12)
    assert np.allclose(single, expected) == (bias < 0)


def test_fitting_costs_what_it_should():
    """Oracle: 200 discriminants fitted to 100 Gaussian samples in 20 dimensions; δ = 1, to 0.01."""
    features = np.random.default_rng(0).normal(size=(200, 200, 20))
    features[:, :, 0] += 1
    found = np.mean([gated_patches.discriminant_error(each) for each in features])
    error = float(stats.norm.sf(1))
    assert found == pytest.approx(gated_patches.fitted_error(error, 20, 100), abs=0.01)
    assert gated_patches.fitted_error(error, 20, 10**9) == pytest.approx(error, abs=1e-6)
    with pytest.raises(ValueError, match="num_fitted must be above 20, got 20"):
        gated_patches.fitted_error(error, 20, 20)
