"""Kernels by drawing networks, against the same draws by hand and the limit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels, ntk, sampled_kernels
from theorylab.models import mlp, network

X1, X2 = jax.random.normal(jax.random.key(1), (4, 3)), jax.random.normal(jax.random.key(2), (2, 3))


def test_kernels_are_means_over_the_draws():
    """Oracle: every network by itself, means and errors by NumPy."""
    model = network(mlp([5], num_outputs=2, activation="tanh"), (3,), bias="normal")
    key = jax.random.key(0)
    found = sampled_kernels(model.init, model.apply, X1, X2, 4, key)
    draws = [model.init(k) for k in jax.random.split(key, 4)]
    nngp = [model.apply(w, X1) @ model.apply(w, X2).T / 2 for w in draws]
    tangent = [ntk(model.apply, w, X1, X2) for w in draws]
    for estimate, samples in ((found.nngp, nngp), (found.ntk, tangent)):
        np.testing.assert_allclose(estimate.mean, np.mean(samples, axis=0), rtol=1e-12)
        error = np.std(samples, axis=0, ddof=1) / 2
        np.testing.assert_allclose(estimate.error, error, rtol=1e-10)


def test_means_lie_within_their_errors_of_the_limit():
    """Oracle: the closed form at infinite width, within 4 errors; the bias, O(1/400), is less."""
    architecture = mlp([400], activation="erf")
    model = network(architecture, (3,))
    found = sampled_kernels(model.init, model.apply, X1, None, 40, jax.random.key(3))
    limit = infinite_kernels(architecture, X1)
    for estimate, expected in zip(found, (limit.nngp, limit.ntk), strict=True):
        deviations = np.abs(np.asarray(estimate.mean - expected) / np.asarray(estimate.error))
        assert deviations.max() < 4.0
        assert deviations.max() > 0.1


def test_one_draw_is_a_kernel_with_an_unknown_error():
    init = lambda key: jax.random.normal(key, (3, 1))  # noqa: E731
    found = sampled_kernels(init, lambda w, x: x @ w, X1, X2, 1, jax.random.key(0))
    np.testing.assert_allclose(found.ntk.mean, X1 @ X2.T, rtol=1e-12)
    assert bool(jnp.isinf(found.ntk.error).all())


def test_no_draws_and_bad_inputs_are_refused():
    init = lambda key: jnp.ones((3, 1))  # noqa: E731
    apply = lambda w, x: x @ w  # noqa: E731
    with pytest.raises(ValueError, match="num_samples must be at least 1, got 0"):
        sampled_kernels(init, apply, X1, X2, 0, jax.random.key(0))
    with pytest.raises(ValueError, match="x1 must be finite"):
        sampled_kernels(init, apply, X1 * jnp.nan, X2, 2, jax.random.key(0))
