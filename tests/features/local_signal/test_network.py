"""The soft-threshold filter and Algorithm 3.1: by hand, and against its gradient written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import patch_law, signal_among_noise
from theorylab.features.local_signal import network

LAW = patch_law(num_patches=6, dimension=3)


@pytest.mark.parametrize("bias", [-0.3, 0.4])
def test_step_is_the_gradient_written_out(bias):
    """Oracle: −y ς(−yf) Σᵢ q(Xᵢ) Xᵢ and −y ς(−yf) Σᵢ (1{z > −b} − 1{z < b}), sample by sample."""
    data = signal_among_noise(jax.random.key(1), LAW, 5)
    weights = np.array([0.5, -0.2, 0.9])
    by_weights, by_bias = np.zeros(3), 0.0
    for x, y in zip(np.asarray(data.x), np.asarray(data.y[:, 0]), strict=True):
        z = x @ weights
        f = np.sum(np.maximum(z + bias, 0) - np.maximum(bias - z, 0))
        pull = -y / (1 + np.exp(y * f)) / 5
        up, down = z > -bias, z < bias
        by_weights += pull * (up.astype(float) + down) @ x
        by_bias += pull * np.sum(up.astype(float) - down)
    before = network.Filter(jnp.asarray(weights), jnp.asarray(bias))
    after = network.descend_on_batch(before, data.x, data.y, network.FilterRates(0.7, 0.3))
    np.testing.assert_allclose(after.weights, weights - 0.7 * by_weights, rtol=1e-12)
    np.testing.assert_allclose(after.bias, bias - 0.3 * by_bias, rtol=1e-12)


def test_without_a_threshold_it_is_linear():
    """Oracle: b = 0 gives Σᵢ ⟨w, Xᵢ⟩."""
    data = signal_among_noise(jax.random.key(2), LAW, 5)
    params = network.small_filter(jax.random.key(3), 3, radius=2.0)
    assert float(jnp.linalg.norm(params.weights)) == pytest.approx(2.0)
    expected = data.x.sum(axis=1) @ params.weights
    np.testing.assert_allclose(network.outputs(params, data.x)[:, 0], expected, rtol=1e-12)


def test_learning_is_steps_on_fresh_batches():
    """Oracle: the same steps one by one, on samples drawn from the key and the step."""
    key, rates = jax.random.key(4), network.FilterRates(0.5, 0.1)
    params = start = network.small_filter(jax.random.key(5), 3)
    for step in range(2):
        batch = signal_among_noise(jax.random.fold_in(key, step), LAW, 5)
        params = network.descend_on_batch(params, batch.x, batch.y, rates)
    run = network.learn_filter(key, start, LAW, rates, batch_size=5, steps=[1, 2])
    np.testing.assert_allclose(run.params.weights, params.weights, rtol=1e-12)
    np.testing.assert_allclose(run.records.bias[-1], params.bias, rtol=1e-12)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match=r"radius must be positive, got 0\.0"):
        network.small_filter(jax.random.key(0), 3, radius=0.0)
    start = network.small_filter(jax.random.key(0), 3)
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        network.learn_filter(jax.random.key(0), start, LAW, network.FilterRates(0.1, 0.1), 0, [1])
