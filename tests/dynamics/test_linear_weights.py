"""The closed form of a linear model's weights, against the iteration itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics import linear
from theorylab.training import descend, gradient_descent, gradient_flow, squared

SHAPES = [(6, 3), (3, 6), (4, 4)]  # more samples, more weights, square


def problem(shape, seed=0):
    keys = jax.random.split(jax.random.key(seed), 3)
    n, d = shape
    x, y = jax.random.normal(keys[0], shape), jax.random.normal(keys[1], (n,))
    return x, y, jax.random.normal(keys[2], (d,))


def objective(x, y):
    return lambda w: squared("half_sum")(x @ w[:, None], y[:, None])


@pytest.mark.parametrize("shape", SHAPES)
def test_descent_weights_are_those_of_the_iteration(shape):
    """Oracle: gradient descent by automatic differentiation, also where it diverges."""
    x, y, start = problem(shape)
    steps = np.array([0, 1, 2, 7, 50])

    @jax.jit
    @jax.vmap
    def both(rate):
        run = descend(objective(x, y), start, gradient_descent(rate), steps, lambda w: w)
        closed = linear.descent_weights(x, y, start, rate, jnp.asarray(steps))
        return closed, run.records

    closed, iterated = both(jnp.array([0.1, 1.0, 1.9, 2.1]) / jnp.linalg.norm(x, 2) ** 2)
    np.testing.assert_allclose(closed, iterated, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES[:2])
def test_flow_weights_are_those_of_the_flow(shape):
    """Oracle: an adaptive Runge–Kutta method of order five, to its tolerance."""
    x, y, start = problem(shape, seed=1)
    run = gradient_flow(objective(x, y), start, [0.0, 0.1, 3.0], lambda w: w)
    closed = linear.flow_weights(x, y, start, run.steps)
    np.testing.assert_allclose(closed, run.records, atol=1e-7)


def test_directions_that_no_sample_sees_stay_where_they_are():
    """Oracle: the projection on the null space of a matrix of rank one."""
    x = jnp.outer(jnp.array([1.0, -2.0, 0.5]), jnp.array([3.0, 0.0, 4.0]) / 5)
    start = jnp.array([1.0, 2.0, 3.0])
    for found in (
        linear.descent_weights(x, jnp.ones(3), start, 0.1, jnp.array([10_000])),
        linear.flow_weights(x, jnp.ones(3), start, jnp.array([1e4])),
    ):
        unseen = np.array([[0.0, 1.0, 0.0], [4.0, 0.0, -3.0]]) / np.array([[1.0], [5.0]])
        np.testing.assert_allclose(unseen @ found[0], unseen @ start, atol=1e-12)


def test_slow_directions_do_not_cancel():
    """Oracle: (1 − (1 − r)ᵗ)/σ → tησ for r = ησ² far below rounding."""
    x = jnp.diag(jnp.array([1.0, 1e-12]))
    found = linear.descent_weights(x, jnp.ones(2), jnp.zeros(2), 0.5, jnp.array([10]))
    np.testing.assert_allclose(found[0, 1], 10 * 0.5 * 1e-12, rtol=1e-12)


def test_critical_learning_rate_is_two_over_the_top_eigenvalue():
    x, _, _ = problem((6, 3), seed=2)
    top = np.linalg.eigvalsh(x.T @ x)[-1]
    np.testing.assert_allclose(linear.largest_regression_rate(x), 2 / top, rtol=1e-12)
