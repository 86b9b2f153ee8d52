"""Flow in function space on any loss, against closed forms and flow in the space of weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels.prediction import (
    HeavyBall,
    coefficients,
    fitted_outputs,
    kernel_modes,
    loss_coefficients,
)
from theorylab.training import Solver, cross_entropy, gradient_flow, logistic, squared, zero_one

KEYS = jax.random.split(jax.random.key(3), 3)
X = jax.random.normal(KEYS[0], (4, 6))
KERNEL = X @ X.T
Y = jax.random.normal(KEYS[1], (4, 2))
START = jax.random.normal(KEYS[2], (4, 2))
TIGHT = Solver(method="dopri8", rtol=1e-11, atol=1e-12)
TIMES = [0.0, 0.2, 1.5]


def test_squared_loss_is_the_closed_form():
    """Oracle: an ODE solver, which the closed form must meet to its tolerance of 1e-8."""
    found = loss_coefficients(squared("half_sum"), KERNEL, Y, TIMES, START, solver=TIGHT)
    np.testing.assert_allclose(found, coefficients(KERNEL, Y, TIMES, start=START), atol=1e-8)


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (cross_entropy("mean"), jnp.eye(2)[jnp.array([0, 1, 1, 0])]),
        (logistic("sum"), jnp.sign(Y)),
    ],
)
def test_other_losses_are_gradient_flow_of_the_weights(loss, targets):
    """Oracle: the linear model's own weights, f = xᵀw, whose kernel is xᵀx′."""
    run = gradient_flow(
        lambda w: loss(X @ w, targets), jnp.zeros((6, 2)), TIMES, lambda w: X @ w, TIGHT
    )
    alpha = loss_coefficients(loss, KERNEL, targets, TIMES, solver=TIGHT)
    np.testing.assert_allclose(jnp.einsum("mn,tnk->tmk", KERNEL, alpha), run.records, atol=1e-8)


def test_momentum_is_the_damped_oscillator():
    """Closed form in every mode: r̈ + γṙ + λr = 0, under-damped here; and the heavy ball's limit."""
    friction = 0.5
    alpha = loss_coefficients(
        squared("half_sum"), KERNEL, Y, TIMES, friction=friction, solver=TIGHT
    )
    values, vectors = map(np.asarray, kernel_modes(KERNEL))
    omega = np.sqrt(values - friction**2 / 4)
    for t, found in zip(TIMES, jnp.einsum("mn,tnk->tmk", KERNEL, alpha), strict=True):
        swing = np.cos(omega * t) + friction / (2 * omega) * np.sin(omega * t)
        left = np.exp(-friction * t / 2) * swing
        np.testing.assert_allclose(found, Y - (vectors * left) @ vectors.T @ Y, atol=1e-8)
    rate = 1e-6
    ball = HeavyBall(rate, 1 - friction * rate**0.5)
    np.testing.assert_allclose(
        fitted_outputs(KERNEL, Y, [1500], ball)[0], KERNEL @ alpha[-1], atol=2e-2
    )


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="loss must have a gradient, got zero_one"):
        loss_coefficients(zero_one("mean"), KERNEL, Y, TIMES)
    with pytest.raises(ValueError, match="friction must be at least 0, got -1"):
        loss_coefficients(squared("sum"), KERNEL, Y, TIMES, friction=-1.0)
    with pytest.raises(ValueError, match="increasing and not negative"):
        loss_coefficients(squared("sum"), KERNEL, Y, [1.0, 0.5])
