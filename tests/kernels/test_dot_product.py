"""Kernels of vectors, against SciPy's distances, their features and derivatives by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from theorylab.kernels import dot_product as kernels


def points(n=5, d=3, seed=0, unit=False):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return jnp.asarray(x / np.linalg.norm(x, axis=1, keepdims=True) if unit else x)


def test_kernels_of_distances_are_those_of_scipy():
    """Oracle: scipy.spatial.distance.cdist; and exactly 1 on the diagonal."""
    x, z = points(), points(4, seed=1)
    distances = cdist(x, z)
    np.testing.assert_allclose(kernels.gaussian_kernel(x, z), np.exp(-(distances**2)), rtol=1e-13)
    np.testing.assert_allclose(kernels.laplace_kernel(x, z), np.exp(-distances), rtol=1e-13)
    np.testing.assert_array_equal(np.diag(kernels.laplace_kernel(x, x)), np.ones(5))


def test_quadratic_features_have_the_polynomial_kernel_for_inner_products():
    x, z = points(), points(4, seed=1)
    gram = kernels.quadratic_features(x) @ kernels.quadratic_features(z).T
    np.testing.assert_allclose(gram, kernels.polynomial_kernel(x, z, degree=2), rtol=1e-12)
    assert kernels.quadratic_features(x).shape == (5, 1 + 3 + 3 + 3)


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_tensor_powers_have_powers_for_inner_products(degree):
    x, z = points(), points(4, seed=1)
    gram = kernels.tensor_power(x, degree) @ kernels.tensor_power(z, degree).T
    np.testing.assert_allclose(gram, (x @ z.T) ** degree, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("dimension", "degree"), [(2, 3), (3, 2), (4, 1)])
def test_the_power_kernel_has_the_rank_of_its_features(dimension, degree):
    """Oracle: the numerical rank of a Gram matrix of more points than features."""
    x = points(40, dimension)
    rank = np.linalg.matrix_rank(np.asarray(kernels.power_kernel(x, x, degree)))
    assert rank == kernels.power_rank(dimension, degree)


def test_series_features_approach_the_gaussian_kernel():
    """Oracle: the kernel of distances, with the rest of the exponential series as the error."""
    x = points(unit=True)
    features = kernels.series_features(x, kernels.gaussian_coefficients(9))
    error = np.abs(features @ features.T - kernels.gaussian_kernel(x, x)).max()
    np.testing.assert_allclose(error, 1 - sum(kernels.gaussian_coefficients(9)), rtol=1e-9)


def test_taylor_coefficients_are_derivatives():
    """Oracles: repeated differentiation of the Laplace profile; the exponential series; a sine."""
    found = kernels.taylor_coefficients(lambda t: jnp.exp(-jnp.sqrt(2 - 2 * t)), 5)
    derivative, expected = (lambda t: jnp.exp(-jnp.sqrt(2 - 2 * t))), []
    for k in range(5):
        expected.append(float(derivative(0.0)) / float(np.prod(np.arange(1, k + 1))))
        derivative = jax.grad(derivative)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    gaussian = kernels.taylor_coefficients(lambda t: jnp.exp(2 * t - 2), 20)
    np.testing.assert_allclose(gaussian, kernels.gaussian_coefficients(20), atol=1e-13)
    np.testing.assert_allclose(
        kernels.taylor_coefficients(jnp.sin, 4), [0.0, 1.0, 0.0, -1 / 6], atol=1e-14
    )


def test_bad_input_is_refused():
    x = points()
    with pytest.raises(ValueError, match="degree must be at least 1, got 0"):
        kernels.polynomial_kernel(x, x, degree=0)
    with pytest.raises(ValueError, match="degree must not be negative, got -1"):
        kernels.tensor_power(x, -1)
    with pytest.raises(ValueError, match="coefficients must not be negative"):
        kernels.series_features(x, [1.0, -0.5])
    with pytest.raises(ValueError, match=r"num_terms must be in \[1, 64\], got 0"):
        kernels.taylor_coefficients(jnp.sin, 0)
