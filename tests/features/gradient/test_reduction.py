"""Neurons in a few numbers: lengths and angles of gradients are those in all dimensions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import gaussian_mixture
from theorylab.features.gradient import mixture_gradients, reduced_mixture, reduced_weights


def test_gradients_keep_their_lengths_and_their_angles_with_the_means():
    """Oracle: the same neurons in all dimensions; three means, of which two are independent."""
    basis = jnp.linalg.qr(jax.random.normal(jax.random.key(0), (7, 7)))[0]
    flat = jnp.array([[3.0, 0.0], [0.0, 2.0], [1.0, -1.0]])
    means = flat @ basis[:, :2].T
    law = gaussian_mixture(means, jnp.array([1.0, -1.0, 1.0]), deviations=0.7)
    small = reduced_mixture(law)
    assert small.means.shape == (3, 3)
    weights, biases = jax.random.normal(jax.random.key(1), (5, 7)), jnp.full(5, 0.4)
    # Coordinates in the span of the means, from their inner products, and the length of the rest.
    along = np.linalg.lstsq(np.asarray(small.means[:, :2]), np.asarray(means @ weights.T))[0].T
    rest = np.sqrt((np.asarray(weights) ** 2).sum(axis=1) - (along**2).sum(axis=1))
    full = mixture_gradients(law, weights, biases)
    few = mixture_gradients(small, jnp.asarray(np.c_[along, rest]), biases)
    np.testing.assert_allclose(
        jnp.linalg.norm(few, axis=1), jnp.linalg.norm(full, axis=1), rtol=1e-10
    )
    np.testing.assert_allclose(few @ small.means.T, full @ means.T, rtol=1e-10)


def test_drawn_weights_have_the_moments_of_gaussian_ones():
    """E s² = d − q, Var s² = 2(d − q); within 5 standard errors."""
    drawn = np.asarray(reduced_weights(jax.random.key(2), 20000, 2, 12))
    assert abs((drawn[:, 2] ** 2).mean() - 10) < 5 * np.sqrt(20 / 20000)
    assert np.all(np.abs(drawn[:, :2].mean(axis=0)) < 5 / np.sqrt(20000))
    assert np.all(np.abs(drawn[:, :2].std(axis=0) - 1) < 5 / np.sqrt(40000))


def test_too_few_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"rank must be in \(0, 2\), got 2"):
        reduced_weights(jax.random.key(0), 5, 2, 2)
    with pytest.raises(ValueError, match="dimension must exceed the rank of the means, 2, got 2"):
        reduced_mixture(gaussian_mixture(jnp.eye(2), jnp.ones(2)))
