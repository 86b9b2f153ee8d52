"""Theory's time against training steps, and the largest stable learning rate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels.prediction import (
    Descent,
    fitted_outputs,
    largest_learning_rate,
    training_steps,
    training_time,
)
from theorylab.training import cross_entropy, descend, gradient_descent, heavy_ball, squared

X = jax.random.normal(jax.random.key(0), (4, 3))
KERNEL = X @ X.T
Y = jax.random.normal(jax.random.key(1), (4, 2))


def trained(optimizer, loss, num_steps):
    def objective(weights):
        return loss(X @ weights, Y)

    return descend(objective, jnp.zeros((3, 2)), optimizer, [num_steps], lambda w: X @ w).records[0]


@pytest.mark.parametrize("normalization", ["half_sum", "sum", "mean", "half_mean", "mean_entries"])
def test_small_steps_follow_the_flow_at_the_mapped_time(normalization):
    """Oracle: descent on the loss itself; its error is of the order of one step."""
    loss = squared(normalization)
    rate = training_steps(1e-4, 1.0, loss, 4, 2)  # one step of which takes the time 1e-4
    found = trained(gradient_descent(rate), loss, 3000)
    time = training_time(3000, rate, loss, 4, 2)
    assert time == pytest.approx(0.3)
    np.testing.assert_allclose(found, fitted_outputs(KERNEL, Y, jnp.array([time]))[0], atol=2e-3)


def test_exact_steps_use_the_converted_rate():
    """η of `Descent` is 2s times the optimiser's: exact, at any rate."""
    rate = training_time(1, 0.2, squared("mean"), 4, 2)
    found = trained(gradient_descent(0.2), squared("mean"), 25)
    np.testing.assert_allclose(found, fitted_outputs(KERNEL, Y, [25], Descent(rate))[0], rtol=1e-11)


def test_momentum_multiplies_the_time():
    time = training_time(4000, 1e-4, momentum=0.9)
    found = trained(heavy_ball(1e-4, 0.9), squared("half_sum"), 4000)
    np.testing.assert_allclose(found, fitted_outputs(KERNEL, Y, jnp.array([time]))[0], atol=5e-3)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_training_is_stable_below_the_largest_rate_and_not_above(momentum, nesterov):
    import optax

    loss = squared("mean")
    largest = float(largest_learning_rate(KERNEL, loss, 2, momentum, nesterov))
    losses = [
        float(loss(trained(optax.sgd(f * largest, momentum, nesterov), loss, 1500), Y))
        for f in (0.97, 1.03)
    ]
    assert losses[0] < 10 < 1e5 < losses[1]


def test_what_has_no_such_time_is_refused():
    with pytest.raises(ValueError, match="that of the squared loss, got cross_entropy"):
        training_time(1, 0.1, cross_entropy("mean"))
    with pytest.raises(ValueError, match="time must be at least 0, got -1"):
        training_steps(-1.0, 0.1)
    with pytest.raises(ValueError, match=r"momentum must be in \[0, 1\), got 1.5"):
        largest_learning_rate(KERNEL, momentum=1.5)
