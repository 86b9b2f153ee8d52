"""Laws of inputs: supports exactly, moments within standard errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import Gaussian, Hypercube, Sphere, gaussian, hypercube, sphere
from theorylab.data.inputs import chebyshev_points

LAWS = [Sphere(4, radius=3.0), Gaussian((4.0, 1.0, 0.01)), Hypercube(5)]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_sample_moments_agree_with_the_exact_ones(law):
    """Every entry of mean and second moment within 5 standard errors (about 60 entries in all)."""
    n = 20_000
    x = np.asarray(law.sample(jax.random.key(7), n))
    products = x[:, :, None] * x[:, None, :]
    for samples, exact in [(x, law.mean), (products, law.covariance)]:
        error = np.abs(samples.mean(axis=0) - np.asarray(exact))
        # The rounding term is for entries without variance: a sign squared is always one.
        assert np.all(error <= 5 * samples.std(axis=0) / np.sqrt(n) + 1e-12)


def test_the_sphere_has_its_radius_and_its_fourth_moment():
    """Oracle: E x₁⁴ = 3r⁴/d(d+2), which tells a sphere from a scaled Gaussian (3r⁴/d²)."""
    x = sphere(jax.random.key(0), 20_000, 4, radius=3.0)
    np.testing.assert_allclose(jnp.linalg.norm(x, axis=1), 3.0, rtol=1e-12)
    fourth = np.asarray(x[:, 0]) ** 4
    assert abs(fourth.mean() - 3 * 81 / 24) < 5 * fourth.std() / np.sqrt(len(fourth))


def test_the_hypercube_has_only_corners():
    x = hypercube(jax.random.key(0), 500, 3)
    assert set(np.unique(x)) == {-1.0, 1.0}
    assert len(np.unique(x, axis=0)) == 8


def test_the_short_forms_draw_the_same_inputs():
    key = jax.random.key(3)
    np.testing.assert_array_equal(sphere(key, 4, 2), Sphere(2).sample(key, 4))
    np.testing.assert_array_equal(hypercube(key, 4, 2), Hypercube(2).sample(key, 4))
    np.testing.assert_array_equal(gaussian(key, 4, (2.0,)), Gaussian((2.0,)).sample(key, 4))


@pytest.mark.parametrize("n", [1, 2, 7])
def test_chebyshev_points_are_the_roots(n):
    """Oracle: numpy's roots of the Chebyshev polynomial."""
    roots = np.polynomial.chebyshev.chebroots([0.0] * n + [1.0])
    np.testing.assert_allclose(chebyshev_points(n), np.sort(roots), atol=1e-14)


def test_bad_sizes_are_refused():
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="num_samples must be at least 1, got -1"):
        sphere(key, -1, 3)
    with pytest.raises(ValueError, match="dimension must be at least 1, got 0"):
        hypercube(key, 3, 0)
    with pytest.raises(ValueError, match="radius must be positive and finite, got 0"):
        Sphere(3, radius=0.0)
    with pytest.raises(ValueError, match="num_samples must be at least 1, got 0"):
        chebyshev_points(0)
    for spectrum in [(), (1.0, 0.0), (1.0, -2.0), (float("nan"),), (float("inf"),)]:
        with pytest.raises(ValueError, match="spectrum must be a tuple of positive"):
            Gaussian(spectrum)
