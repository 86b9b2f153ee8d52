"""Fixed features of the network: kernels by autodiff, ridge regression in feature space."""

import jax
import jax.numpy as jnp
import numpy as np

from theorylab.data import Dataset
from theorylab.features.gradient import (
    OnlineRecipe,
    baselines,
    distinct_network,
    error_rate,
    kernel_ridge_error,
    learn_online,
    ridge_error,
    streamed_ridge_error,
    symmetric_network,
    tangent_kernel,
)


def test_the_tangent_kernel_is_that_of_the_jacobian():
    network = symmetric_network(jax.random.key(0), 2, 3, 0.2)
    x = jax.random.normal(jax.random.key(1), (4, 3))
    jacobian = jax.jacobian(lambda net: net(x))(network)
    rows = np.concatenate([jacobian.outputs, np.reshape(jacobian.weights, (4, -1))], axis=1)
    np.testing.assert_allclose(tangent_kernel(network)(x, x), rows @ rows.T, atol=1e-12)


def test_ridge_regression_is_that_of_the_features_and_of_the_best_ridge():
    """Oracle: the normal equations in feature space, here of the inputs themselves."""
    x = jax.random.normal(jax.random.key(2), (60, 3))
    y = jnp.where(x[:, :1] + 0.5 * x[:, 1:2] + 0.3 > 0, 1.0, -1.0)
    data, test = (
        Dataset(x[part], y[part], "line", "made up") for part in (slice(30), slice(30, 60))
    )
    errors = []
    for ridge in (0.01, 1.0):
        scale = (data.x**2).sum() / 30
        moment = data.x.T @ data.x + ridge * scale * jnp.eye(3)
        outputs = test.x @ jnp.linalg.solve(moment, data.x.T @ data.y)
        errors.append(float(np.mean(np.asarray(outputs * test.y) <= 0)))
    found = float(ridge_error(lambda x: x, data, test, (0.01, 1.0)))
    assert found == min(errors)
    assert 0 < found < 0.3
    assert kernel_ridge_error(lambda x, other: x @ other.T, data, test, (0.01, 1.0)) == found


def test_the_recipe_learns_what_its_kernels_start_from():
    """A half-space in three dimensions: error far below chance after some steps."""

    def sampler(key, num_samples):
        x = jax.random.normal(key, (num_samples, 3))
        return Dataset(x, jnp.sign(x[:, :1]), "half-space", "made up")

    test = sampler(jax.random.key(3), 200)
    run = learn_online(
        jax.random.key(4),
        sampler,
        3,
        1.0,
        OnlineRecipe(8, 50, 2.0, 0.1),
        [50],
        lambda network: error_rate(network, test),
    )
    assert run.records[0] < 0.1


def test_a_stream_is_fitted_like_the_samples_it_brings():
    """Oracle: ridge regression on all batches in one dataset."""

    def sampler(key, num_samples):
        x = jax.random.normal(key, (num_samples, 4))
        noise = jax.random.normal(jax.random.fold_in(key, 1), (num_samples, 1))
        return Dataset(x, jnp.sign(x[:, :1] - 0.4 * x[:, 1:2] + noise), "noisy", "made up")

    key, test = jax.random.key(5), sampler(jax.random.key(6), 300)
    parts = [sampler(one, 7) for one in jax.random.split(key, 5)]
    x, y = (jnp.concatenate([getattr(part, name) for part in parts]) for name in "xy")
    whole = Dataset(x, y, "all", "made up")

    def features(x):
        return jnp.concatenate([x, x**2], axis=1)

    for ridges in ((1e-6,), (10.0,)):
        expected = ridge_error(features, whole, test, ridges)
        assert streamed_ridge_error(key, features, sampler, 7, 5, test, ridges) == expected


def test_distinct_neurons_are_no_copies_and_have_both_signs():
    network = distinct_network(jax.random.key(7), 6, 3, bias=2.0, weight_scale=0.5)
    assert network.biases.tolist() == [2.0, -2.0] * 3
    units = network.weights / jnp.linalg.norm(network.weights, axis=1, keepdims=True)
    assert float(jnp.abs(units @ units.T - jnp.eye(6)).max()) < 0.9999
    assert len(set(np.abs(network.outputs).tolist())) == 6


def test_a_kernel_made_row_by_row_is_the_kernel(monkeypatch):
    """Oracle: the kernel at once; 9 rows, 2 at a time."""
    made = distinct_network(jax.random.key(3), 6, 4, bias=0.5)
    x, other = jax.random.normal(jax.random.key(4), (9, 4)), jnp.eye(4)
    expected = tangent_kernel(made)(x, other)
    monkeypatch.setattr(baselines, "_TOGETHER", 20)
    monkeypatch.setattr(baselines, "_IN_TURN", 12)
    np.testing.assert_allclose(tangent_kernel(made)(x, other), expected, rtol=1e-12)
    assert float(jnp.abs(expected).max()) > 0.1
