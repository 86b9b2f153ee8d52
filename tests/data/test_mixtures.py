"""Mixtures and separable data: samples against exact moments."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import gaussian_mixture, hypercube_mixture, xor_mixture
from theorylab.data.mixtures import hypercube_accuracy, orthogonal_mixture, separable_law

NUM_SAMPLES = 40000


@pytest.fixture(scope="module")
def uneven():
    means = jnp.array([[2.0, 0.0, 1.0], [-1.0, 1.0, 0.0], [0.0, -3.0, 0.5]])
    shares, deviations = jnp.array([0.5, 0.3, 0.2]), jnp.array([0.5, 1.0, 2.0])
    return gaussian_mixture(means, jnp.array([1.0, -1.0, 1.0]), shares, deviations)


def assert_mean(samples, expected):
    """Within 5 standard errors of the mean of samples."""
    error = np.std(samples, axis=0) / np.sqrt(len(samples))
    assert np.all(np.abs(np.mean(samples, axis=0) - expected) < 5 * error + 1e-12)


def test_samples_of_a_mixture_have_its_moments(uneven):
    data, chosen = uneven.sample_with_clusters(jax.random.key(0), NUM_SAMPLES)
    x, y = np.asarray(data.x), np.asarray(data.y[:, 0])
    assert_mean(x, np.asarray(uneven.mean))
    assert_mean(y[:, None] * x, np.asarray(uneven.label_mean))
    assert_mean(x[:, :, None] * x[:, None, :], np.asarray(uneven.second_moment))
    assert_mean((x**2).sum(axis=1), float(uneven.mean_square))
    assert_mean(np.linalg.norm(x, axis=1), uneven.mean_norm)
    assert_mean(np.asarray(chosen) == 2, 0.2)
    np.testing.assert_array_equal(y, np.asarray(uneven.labels)[np.asarray(chosen)])


def test_the_mean_square_is_the_trace_of_the_second_moment(uneven):
    np.testing.assert_allclose(uneven.mean_square, jnp.trace(uneven.second_moment), rtol=1e-12)


def test_xor_has_no_linear_signal_and_a_quadratic_one():
    """E[y] = 0 and E[yx] = 0, but E[y(x₁² − x₂²)] = d."""
    law = xor_mixture(9, deviation=0.5)
    np.testing.assert_allclose(law.label_mean, 0, atol=1e-15)
    data = law.sample(jax.random.key(1), NUM_SAMPLES)
    assert_mean(np.asarray(data.y[:, 0] * (data.x[:, 0] ** 2 - data.x[:, 1] ** 2)), 9.0)


def test_the_best_guess_of_a_corner_is_as_good_as_its_formula():
    """Oracle: signs counted; the posterior, summed over all corners by brute force, on samples."""
    law = hypercube_mixture(3, 5, relative_noise=0.9)
    minuses = (np.asarray(law.means) < 0).sum(axis=1)
    np.testing.assert_array_equal(law.labels, np.where(minuses % 2 == 0, 1.0, -1.0))
    data = law.sample(jax.random.key(3), 10000)
    deviation = float(law.deviations[0])
    distances = ((data.x[:, None] - law.means[None]) ** 2).sum(axis=2)
    posterior = jnp.exp(-distances / (2 * deviation**2)) @ law.labels
    right = np.asarray(jnp.sign(posterior) == data.y[:, 0])
    assert_mean(right, hypercube_accuracy(3, deviation))
    assert_mean(np.asarray((data.x**2).sum(axis=1)), 3 * (1 + 0.9**2))


def test_orthogonal_clusters_are_at_their_distance():
    law = orthogonal_mixture(3, 4, separation=0.5)
    np.testing.assert_allclose(law.means @ law.means.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(law.directions, np.eye(3, 4), atol=1e-12)
    assert law.labels.tolist() == [1.0, -1.0, 1.0]


def test_separable_samples_have_their_margin_and_moments():
    law = separable_law(jnp.array([3.0, 0.0, 4.0]), margin=0.3, spread=1.0, radius=2.0)
    data = law.sample(jax.random.key(2), NUM_SAMPLES)
    x, y = np.asarray(data.x), np.asarray(data.y[:, 0])
    margins = y * (x @ np.array([0.6, 0.0, 0.8]))
    assert 0.3 - 1e-12 <= margins.min() < 0.301
    assert_mean(y, 0.0)
    assert_mean(y[:, None] * x, 0.8 * np.array([0.6, 0.0, 0.8]))
    assert_mean((x**2).sum(axis=1), float(law.mean_square))
    assert np.linalg.norm(x, axis=1).max() <= float(law.largest_norm) + 1e-12


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: xor_mixture(1), "dimension must be at least 2, got 1"),
        (lambda: orthogonal_mixture(5, 4), "dimension must be at least 5, got 4"),
        (lambda: gaussian_mixture(jnp.eye(2), jnp.zeros(2)), "labels must be -1 or 1"),
        (
            lambda: gaussian_mixture(jnp.eye(2), jnp.ones(2), jnp.array([0.5, 0.6])),
            "add up to 1",
        ),
        (
            lambda: gaussian_mixture(jnp.eye(2), jnp.ones(2), jnp.array([jnp.nan, 0.5])),
            "add up to 1",
        ),
        (
            lambda: inspect.unwrap(gaussian_mixture)(jnp.eye(3), jnp.ones(2)),
            "one for each of 2 labels, got 3 of them",
        ),
        (lambda: gaussian_mixture(jnp.nan * jnp.eye(2), jnp.ones(2)), "means must be finite"),
        (lambda: gaussian_mixture(jnp.eye(2), jnp.ones(2), deviations=jnp.inf), "and finite"),
        (lambda: separable_law(jnp.ones(3), 1.0, spread=float("nan")), "spread and radius not"),
        (lambda: xor_mixture(4, deviation=0.0), "deviations must be positive"),
        (lambda: hypercube_mixture(60, 100), r"num_bits must be in \[1, 16\], got 60"),
        (lambda: hypercube_accuracy(3, 0.0), "deviation must be positive"),
        (lambda: separable_law(jnp.ones(3), margin=0.0), "margin must be positive"),
        (lambda: separable_law(jnp.zeros(3), margin=1.0), "direction must not be zero"),
    ],
)
def test_laws_that_are_none_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
