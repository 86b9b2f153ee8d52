"""Momentum against the recursions of the book, and its rates on quadratics."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.training import (
    descend,
    every,
    gradient_descent,
    heavy_ball,
    nesterov,
    with_learning_rates,
)

ETA, BETA, STEPS = 0.07, 0.8, 25


def objective(w):
    """Smooth, not quadratic, in two dimensions."""
    return jnp.log(jnp.cosh(3 * w[0] - w[1])) + w[0] ** 2 + 0.1 * w[1] ** 4


START = jnp.array([1.0, -2.0])
gradient = jax.jit(jax.grad(objective))


def path(optimizer):
    return descend(objective, START, optimizer, every(1, STEPS), lambda w: w).records


def test_heavy_ball_is_both_of_its_textbook_forms():
    """Oracle: w₊ = w - η∇f + β(w - w₋), and u = -∇f + βu, w₊ = w + ηu, by hand (§2.3)."""
    two_term, velocity_form, u = [START, START - ETA * gradient(START)], [START], jnp.zeros(2)
    for _ in range(STEPS - 1):
        before, now = two_term[-2:]
        two_term.append(now - ETA * gradient(now) + BETA * (now - before))
    for _ in range(STEPS):
        u = -gradient(velocity_form[-1]) + BETA * u
        velocity_form.append(velocity_form[-1] + ETA * u)
    measured = path(heavy_ball(ETA, BETA))
    np.testing.assert_allclose(measured, two_term, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(measured, velocity_form, rtol=1e-12, atol=1e-13)


def test_nesterov_s_parameters_are_the_look_ahead_of_the_book_s():
    """Oracle: u = -∇f(w + ηβu) + βu, w₊ = w + ηu by hand; compared at w + ηβu."""
    w, u, look_ahead = START, jnp.zeros(2), []
    for _ in range(STEPS + 1):
        look_ahead.append(w + ETA * BETA * u)
        u = -gradient(look_ahead[-1]) + BETA * u
        w = w + ETA * u
    np.testing.assert_allclose(path(nesterov(ETA, BETA)), look_ahead, rtol=1e-12, atol=1e-13)


def test_momentum_needs_the_square_root_of_the_steps():
    """Oracle: with the best η and β for condition κ, steps ∝ κ (descent) and √κ (heavy ball)."""
    conditions = np.array([10.0, 100.0, 1000.0])

    def steps_needed(optimizer, condition, most):
        scales = jnp.array([1.0, condition])
        run = descend(
            lambda w: jnp.sum(scales * w**2) / 2,
            jnp.ones(2),
            optimizer,
            every(1, most),
            jnp.linalg.norm,
        )
        return jnp.argmax(run.records < 1e-6)

    def plain(condition):
        return steps_needed(gradient_descent(2 / (condition + 1)), condition, 8000)

    def with_momentum(condition):
        root = jnp.sqrt(condition)
        optimizer = heavy_ball(4 / (root + 1) ** 2, ((root - 1) / (root + 1)) ** 2)
        return steps_needed(optimizer, condition, 1000)

    slope = lambda steps: np.polyfit(np.log(conditions), np.log(steps), 1)[0]  # noqa: E731
    assert slope(jax.jit(jax.vmap(plain))(conditions)) == pytest.approx(1, abs=0.1)
    assert slope(jax.jit(jax.vmap(with_momentum))(conditions)) == pytest.approx(0.5, abs=0.1)


def test_bad_settings_are_refused():
    for make in (
        gradient_descent,
        lambda eta: heavy_ball(eta, 0.9),
        lambda eta: nesterov(eta, 0.9),
    ):
        with pytest.raises(ValueError, match=r"learning_rate must be positive, got -0\.1"):
            make(-0.1)
        with pytest.raises(ValueError, match="learning_rate must be positive, got nan"):
            make(jnp.array(jnp.nan))
    for make in (heavy_ball, nesterov):
        with pytest.raises(ValueError, match=r"momentum must be in \[0, 1\), got 1.0"):
            make(0.1, 1.0)


def test_factors_multiply_the_finished_update():
    """Oracle: Adam's first step is −η sign(gradient), here times the factor."""
    optimizer = with_learning_rates(optax.adam(0.1), (3.0, 1.0))
    params = (jnp.asarray([1.0, -2.0]), jnp.asarray([5.0]))
    updates, _ = optimizer.update(params, optimizer.init(params), params)
    for update, expected in zip(jax.tree.leaves(updates), ([-0.3, 0.3], [-0.1]), strict=True):
        np.testing.assert_allclose(update, expected, rtol=1e-6)


def test_a_known_learning_rate_is_checked_inside_a_compiled_function():
    """Oracle: the same call outside; a JAX number that is known is not a traced one."""
    rate, gradient_of_one = jnp.asarray(0.5), jnp.ones(2)

    def update(gradient):
        optimizer = gradient_descent(rate)
        return optimizer.update(gradient, optimizer.init(gradient))[0]

    np.testing.assert_array_equal(jax.jit(update)(gradient_of_one), update(gradient_of_one))
