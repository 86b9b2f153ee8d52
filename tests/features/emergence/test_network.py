"""Truncated ReLUs with noise inside: closed forms against quadrature, twins against all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features.emergence import (
    Scales,
    first_half,
    opening,
    outputs,
    preactivations,
    smoothed_outputs,
    smoothed_relu,
    start_scales,
    truncated_relu,
    unbiased_start,
)
from theorylab.features.fixed import random_features, tangent_features

Z = jnp.array([-0.7, -0.05, 0.0, 0.3, 0.98, 1.4])


@pytest.mark.parametrize("noise", [0.05, 0.4])
def test_the_smoothed_neuron_is_the_mean_over_noise(noise):
    """Oracle: a sum over a fine grid of the noise; kinks leave errors of its square, 1e-8."""
    xi = np.linspace(-9, 9, 40_001)
    weights = np.exp(-(xi**2) / 2)
    weights /= weights.sum()
    noisy = np.asarray(Z)[:, None] + noise * xi
    np.testing.assert_allclose(smoothed_relu(Z, noise), np.clip(noisy, 0, 1) @ weights, atol=1e-7)
    inside = ((noisy > 0) & (noisy < 1)) @ weights
    np.testing.assert_allclose(opening(Z, noise), inside, atol=3e-4)  # a step on the grid
    slope = jax.vmap(jax.grad(lambda z: smoothed_relu(z, noise)))(Z)
    np.testing.assert_allclose(slope, opening(Z, noise), atol=1e-14)


def test_without_noise_it_is_the_truncated_relu():
    np.testing.assert_allclose(smoothed_relu(Z, 1e-6), truncated_relu(Z), atol=1e-6)
    assert truncated_relu(jnp.array([-1.0, 0.5, 3.0])).tolist() == [0.0, 0.5, 1.0]


def test_the_unbiased_start_is_zero_everywhere_and_has_the_stated_scales():
    """Oracle: opposite twins cancel exactly; 4 standard errors of a standard deviation."""
    scales = start_scales(num_relevant=5, structure=0.25, scale=5.0)
    assert scales == Scales(1 / 5, 1 / 25, 4.0)
    start = unbiased_start(jax.random.key(0), 400, 6, scales)
    x = jax.random.normal(jax.random.key(1), (5, 6))
    np.testing.assert_allclose(outputs(start, x), 0.0, atol=1e-12)
    np.testing.assert_allclose(smoothed_outputs(start, x, 0.1), 0.0, atol=1e-12)
    for values, expected in zip(start, scales, strict=True):
        half = values[:400]
        np.testing.assert_allclose(half.std(), expected, rtol=4 / np.sqrt(2 * half.size))
    assert (start.outer[:400] == -start.outer[400:]).all()


def test_outputs_are_the_formula():
    """Oracle: a loop over neurons."""
    start = unbiased_start(jax.random.key(0), 3, 2, Scales(1.0, 1.0, 1.0))
    uneven = start._replace(outer=jnp.arange(6.0))
    x = np.array([[0.5, -1.0], [2.0, 0.3]])
    total = sum(
        i * np.clip(x @ np.asarray(w) + float(b), 0, 1)
        for i, (w, b) in enumerate(zip(uneven.weights, uneven.biases, strict=True))
    )
    np.testing.assert_allclose(outputs(uneven, jnp.asarray(x))[:, 0], total, rtol=1e-12)
    assert preactivations(uneven, jnp.asarray(x)).shape == (2, 6)


@pytest.mark.parametrize("kind", ["tangent", "random"])
def test_half_of_the_twins_has_the_same_kernel_of_fixed_features(kind):
    """Oracle: K = ψψᵀ of all neurons is twice that of one of every pair."""
    start = unbiased_start(jax.random.key(0), 3, 2, Scales(1.0, 1.0, 1.0))
    x = jax.random.normal(jax.random.key(1), (4, 2))

    def kernel(neurons):
        if kind == "tangent":
            features = tangent_features(outputs, neurons)
        else:
            free = type(neurons)(*(name == "outer" for name in neurons._fields))
            features = random_features(outputs, neurons, free)
        jacobian = jax.jacobian(features.apply)(features.params, x)
        psi = jnp.concatenate([jnp.reshape(leaf, (4, -1)) for leaf in jax.tree.leaves(jacobian)], 1)
        return psi @ psi.T

    np.testing.assert_allclose(kernel(start), 2 * kernel(first_half(start)), rtol=1e-12)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="structure and scale must be positive, got 5, 0"):
        start_scales(5, 0.0, 1.0)
    with pytest.raises(ValueError, match="num_pairs and dimension must be at least 1, got 0"):
        unbiased_start(jax.random.key(0), 0, 3, Scales(1.0, 1.0, 1.0))
