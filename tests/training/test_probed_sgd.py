"""The driver that probes every step, against `sgd` and against the batch that it steps on."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.data import Dataset
from theorylab.training import (
    Batches,
    empirical_risk,
    every,
    follow_critical,
    gradient_descent,
    probed_sgd,
    sgd,
    squared,
)

KEY = jax.random.key(1)
RISK = empirical_risk(squared("mean"), lambda w, x: x @ w)


@pytest.fixture(scope="module")
def data():
    x = jax.random.normal(jax.random.key(0), (7, 2))
    return Dataset(x, jnp.sin(x[:, :1]), "sine", "random numbers")


@pytest.fixture(scope="module")
def run(data):
    args = (RISK, jnp.zeros((2, 1)), data, gradient_descent(0.1), Batches(3))
    probe = lambda w, batch, step: (w, batch, step)  # noqa: E731
    return jax.jit(lambda: probed_sgd(*args, 9, probe, KEY))()


def test_the_weights_are_those_of_sgd(data, run):
    """Oracle: `sgd` measured at every step; record t is before step t."""
    args = (RISK, jnp.zeros((2, 1)), data, gradient_descent(0.1), Batches(3))
    plain = sgd(*args, every(1, 9), lambda w: w, KEY)
    np.testing.assert_allclose(run.records[0], plain.records[:-1], rtol=1e-12)
    np.testing.assert_allclose(run.params, plain.params, rtol=1e-12)
    assert run.steps.tolist() == run.records[2].tolist() == list(range(9))
    assert not run.diverged


def test_the_batch_is_that_of_the_step(data, run):
    """Oracle: the recorded batch, by hand: w′ = w − η (2/b) xᵀ(xw − y)."""
    w, batch, _ = run.records
    x, y = np.asarray(batch.x), np.asarray(batch.y)
    np.testing.assert_array_equal(x, np.asarray(data.x)[batch.indices])
    after = np.concatenate([w[1:], run.params[None]])
    for t in range(9):
        step = -0.1 * 2 / 3 * x[t].T @ (x[t] @ w[t] - y[t])
        np.testing.assert_allclose(after[t] - w[t], step, rtol=1e-9, atol=1e-12)


def test_a_schedule_sees_the_batch(data):
    """η = 1/x₀₀² of the batch: the recorded weights follow it."""
    rate = lambda w, batch: 1 / batch.x[0, 0] ** 2  # noqa: E731
    args = (RISK, jnp.zeros((2, 1)), data, follow_critical(rate, 0.01), Batches(3))
    run = probed_sgd(*args, 2, lambda w, batch, step: batch, KEY)
    x, y = np.asarray(run.records.x), np.asarray(run.records.y)
    w = np.zeros((2, 1))
    for t in range(2):
        w = w - 0.01 / x[t, 0, 0] ** 2 * 2 / 3 * x[t].T @ (x[t] @ w - y[t])
    np.testing.assert_allclose(run.params, w, rtol=1e-10)


def test_divergence_is_data(data):
    args = (RISK, jnp.ones((2, 1)), data, optax.sgd(1e200), Batches(3))
    run = probed_sgd(*args, 4, lambda w, batch, step: w.sum(), KEY)
    assert run.diverged
    assert run.diverged_at == 2  # w is 10²⁰⁰ after one step, and infinite after two


def test_no_steps_are_refused(data):
    args = (RISK, jnp.zeros((2, 1)), data, optax.sgd(0.1))
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        probed_sgd(*args, Batches(3), 0, lambda w, batch, step: step, KEY)
    with pytest.raises(ValueError, match="at most the number of samples"):
        probed_sgd(*args, Batches(8), 1, lambda w, batch, step: step, KEY)
