import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels, posterior, predict_ensemble
from theorylab.models import NTK, mlp

X, Y = jax.random.normal(jax.random.key(0), (3, 2)), jnp.array([[1.0], [-1.0], [0.5]])
X_TEST = jax.random.normal(jax.random.key(1), (2, 2))
NETWORK, SCALES = mlp([1], activation="erf"), NTK(weight_scale=1.5)


def test_the_moments_are_those_of_inverses_written_out():
    """Oracle: the closed form at time ∞ with the inverse of Θ, in NumPy."""
    found = predict_ensemble(NETWORK, X, Y, X_TEST, [jnp.inf], SCALES)
    (k, theta), (k_cross, theta_cross), (k_test, _) = (
        map(np.asarray, infinite_kernels(NETWORK, *pair, parametrization=SCALES))
        for pair in ((X,), (X_TEST, X), (X_TEST,))
    )
    through = theta_cross @ np.linalg.inv(theta)
    mixed = through @ k_cross.T
    np.testing.assert_allclose(found.mean[0], through @ Y, rtol=1e-9)
    covariance = k_test + through @ k @ through.T - mixed - mixed.T
    np.testing.assert_allclose(found.covariance[0], covariance, rtol=1e-8)


def test_training_the_last_layer_only_is_the_posterior():
    """Oracle: Bayes' posterior without noise."""
    found = predict_ensemble(NETWORK, X, Y, X_TEST, [jnp.inf], SCALES, trained="last")
    train, cross, test = (
        infinite_kernels(NETWORK, *pair, parametrization=SCALES).nngp
        for pair in ((X,), (X_TEST, X), (X_TEST,))
    )
    expected = posterior(train, cross, test, Y)
    np.testing.assert_allclose(found.mean[0], expected.mean, rtol=1e-9)
    np.testing.assert_allclose(found.covariance[0], expected.covariance, rtol=1e-8, atol=1e-12)


def test_what_is_trained_is_checked():
    with pytest.raises(ValueError, match="trained must be all or last, got 'first'"):
        predict_ensemble(NETWORK, X, Y, X_TEST, [1.0], trained="first")
