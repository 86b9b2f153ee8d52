"""Predictions of training, against networks that are linear, dense algebra and limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from theorylab.kernels import ntk
from theorylab.kernels.prediction import (
    Descent,
    HeavyBall,
    Nesterov,
    coefficients,
    fitted_outputs,
    kernel_modes,
    linearized_params,
    predicted_outputs,
    weight_distance,
)
from theorylab.models import linearize, mlp, network
from theorylab.training import descend, gradient_descent, heavy_ball, nesterov, squared

N, M, K = 5, 3, 2
KEYS = jax.random.split(jax.random.key(0), 5)
FEATURES = jax.random.normal(KEYS[0], (N + M, 7))
KERNEL, CROSS = FEATURES[:N] @ FEATURES[:N].T, FEATURES[N:] @ FEATURES[:N].T
Y = jax.random.normal(KEYS[1], (N, K))
START, TEST_START = jax.random.normal(KEYS[2], (N, K)), jax.random.normal(KEYS[3], (M, K))


def test_flow_is_the_matrix_exponential():
    """Oracle: scipy's expm, and a dense inverse of a well-conditioned kernel."""
    times = [0.0, 0.1, 2.0]
    fitted = fitted_outputs(KERNEL, Y, times, start=START)
    predicted = predicted_outputs(KERNEL, CROSS, Y, times, start=START, test_start=TEST_START)
    for t, at_train, at_test in zip(times, fitted, predicted, strict=True):
        left = expm(-t * np.asarray(KERNEL))
        np.testing.assert_allclose(at_train, Y + left @ (START - Y), rtol=1e-11)
        change = np.linalg.solve(KERNEL, (np.eye(N) - left) @ (START - Y))
        np.testing.assert_allclose(at_test, TEST_START - CROSS @ change, rtol=1e-10)


def test_ridge_ends_in_kernel_ridge_regression():
    """Oracle: (K + ρI)⁻¹(y − f₀) by a dense solver; the path begins at f₀."""
    alpha = coefficients(KERNEL, Y, [0.0, np.inf], ridge=0.3, start=START)
    np.testing.assert_array_equal(alpha[0], 0.0)
    solved = np.linalg.solve(KERNEL + 0.3 * np.eye(N), Y - START)
    np.testing.assert_allclose(alpha[1], solved, rtol=1e-11)
    fitted = fitted_outputs(KERNEL, Y, [0.0, np.inf], ridge=0.3, start=START)
    np.testing.assert_allclose(fitted[0], START, rtol=1e-12)
    np.testing.assert_allclose(fitted[1], START + KERNEL @ solved, rtol=1e-11)


@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_descent_with_weight_decay_is_descent_in_feature_space(ridge):
    """Oracle: gradient descent on the weights of a linear model, with a penalty ½ρ‖w − w₀‖²."""
    start = jax.random.normal(KEYS[4], (7, K))
    x, tests = FEATURES[:N], FEATURES[N:]
    rate = 0.05

    def objective(weights):
        return squared("half_sum")(x @ weights, Y) + ridge * jnp.sum((weights - start) ** 2) / 2

    steps = [0, 1, 5, 40]
    run = descend(objective, start, gradient_descent(rate), steps, lambda w: (x @ w, tests @ w, w))
    given = {"method": Descent(rate), "ridge": ridge, "start": x @ start}
    fitted = fitted_outputs(KERNEL, Y, steps, **given)
    predicted = predicted_outputs(KERNEL, CROSS, Y, steps, **given, test_start=tests @ start)
    distance = jnp.sum((run.records[2] - start[None]) ** 2, axis=(1, 2))
    np.testing.assert_allclose(fitted, run.records[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(predicted, run.records[1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(weight_distance(KERNEL, Y, steps, **given), distance, atol=1e-11)


@pytest.mark.parametrize(
    ("optimizer", "method"),
    [
        (gradient_descent(0.1), Descent(0.1)),
        (heavy_ball(0.1, 0.5), HeavyBall(0.1, 0.5)),
        (nesterov(0.1, 0.5), Nesterov(0.1, 0.5)),
    ],
)
def test_linearised_network_follows_the_closed_form(optimizer, method):
    """Oracle: a network made linear and trained by theorylab's own optimisers."""
    model = network(mlp([16], activation="erf"), input_shape=(3,))
    params = model.init(KEYS[0])
    x, tests = jax.random.normal(KEYS[1], (4, 3)), jax.random.normal(KEYS[2], (2, 3))
    y = jnp.sign(x[:, :1])
    linear = linearize(model.apply, params)
    steps = [0, 3, 60]
    run = jax.jit(
        lambda: (
            descend(
                lambda w: squared("half_sum")(linear(w, x), y),
                params,
                optimizer,
                steps,
                lambda w: (linear(w, x), linear(w, tests), w),
            ).records
        )
    )()
    modes = kernel_modes(ntk(model.apply, params, x))
    cross = ntk(model.apply, params, tests, x)
    start, test_start = model.apply(params, x), model.apply(params, tests)
    fitted = fitted_outputs(modes, y, steps, method, start=start)
    predicted = predicted_outputs(
        modes, cross, y, steps, method, start=start, test_start=test_start
    )
    np.testing.assert_allclose(fitted, run[0], atol=1e-6 * 1e-4)
    np.testing.assert_allclose(predicted, run[1], atol=1e-6 * 1e-4)
    alpha = coefficients(modes, y, steps, method, start=start)
    reached = linearized_params(model.apply, params, x, alpha[-1])
    for found, expected in zip(jax.tree.leaves(reached), jax.tree.leaves(run[2]), strict=True):
        np.testing.assert_allclose(found, expected[-1], atol=1e-10)


def test_weights_end_at_the_least_distance():
    """(y − f₀)ᵀH⁻¹(y − f₀), by a dense solver."""
    gap = np.asarray(Y - START)
    expected = np.sum(gap * np.linalg.solve(KERNEL, gap))
    assert float(weight_distance(KERNEL, Y, [np.inf], start=START)[0]) == pytest.approx(
        expected, rel=1e-11
    )


def test_singular_kernel_moves_only_what_it_can():
    """A kernel of rank 1: the mean of the targets is learned, their difference never."""
    kernel, y = jnp.ones((2, 2)), jnp.array([[1.0], [3.0]])
    fitted = fitted_outputs(kernel, y, [1.0, np.inf])
    np.testing.assert_allclose(fitted[1], 2.0, rtol=1e-14)
    np.testing.assert_allclose(fitted[0], 2 * (1 - np.exp(-2.0)), rtol=1e-14)
    predicted = predicted_outputs(kernel, jnp.ones((1, 2)), y, [1e9, np.inf])
    np.testing.assert_allclose(predicted, 2.0, rtol=1e-6)


def test_predictions_can_be_differentiated_and_compiled():
    slope = jax.jit(jax.grad(lambda t: jnp.sum(fitted_outputs(jnp.eye(2), jnp.ones((2, 1)), t))))
    np.testing.assert_allclose(slope(jnp.array([0.3])), [2 * np.exp(-0.3)], rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((KERNEL, Y[:3], [1.0]), r"targets must have shape \(5, k\), got \(3, 2\)"),
        ((KERNEL, Y.at[0, 0].set(jnp.nan), [1.0]), "targets must be finite"),
        ((KERNEL, Y, [-1.0]), "times must not be negative"),
    ],
)
def test_bad_input_is_refused_before_work(arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(fitted_outputs, "__wrapped__", fitted_outputs)(*arguments)


def test_what_does_not_fit_together_is_refused():
    predict = getattr(predicted_outputs, "__wrapped__", predicted_outputs)
    with pytest.raises(ValueError, match=r"ridge must be at least 0, got -0.1"):
        fitted_outputs(KERNEL, Y, [1.0], ridge=-0.1)
    with pytest.raises(ValueError, match=r"cross must have shape \(m, 5\): a row for each test"):
        predict(KERNEL, CROSS.T, Y, [1.0])
    with pytest.raises(ValueError, match="start and test_start must be given together"):
        predict(KERNEL, CROSS, Y, [1.0], start=START)
    with pytest.raises(ValueError, match=r"coefficients must have the shape \(2, 1\)"):
        linearized_params(lambda w, x: x @ w, jnp.ones((3, 1)), jnp.ones((2, 3)), jnp.ones((2, 4)))
