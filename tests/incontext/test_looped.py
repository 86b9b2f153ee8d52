import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.incontext import condition_number, descent_weights, loop, loop_prompt
from theorylab.incontext.looped import (
    exponential_bound,
    exponential_examples,
    last_row_mask,
    least_squares_descent,
    log_squared_errors,
    loose_log_bound,
    masked_attention,
    tight_log_bound,
)

N, D = 7, 3


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D))
    theta = rng.normal(size=D)
    return (
        jnp.asarray(x),
        jnp.asarray(theta / np.linalg.norm(theta)),
        jnp.asarray(rng.normal(size=D)),
    )


def test_attention_is_zero_but_for_the_gradient_in_its_last_row(task):
    """Oracle: Lemma 8.13, [qᵀXᵀX + αyᵀX, 0], by dense products."""
    x, theta, q = task
    y, alpha = x @ theta, -1.7
    out = masked_attention(descent_weights(D), loop_prompt(x, y, alpha, q), last_row_mask(N + 1))
    np.testing.assert_array_equal(out[:N], 0.0)
    np.testing.assert_allclose(out[N, :D], q @ x.T @ x + alpha * y @ x, rtol=1e-12)
    assert out[N, D] == 0


def test_loops_are_steps_of_descent(task):
    """Oracle: gradient descent by autodiff, with a start and a rate for every step."""
    x, theta, q = task
    y, alpha = x @ theta, 0.6
    rates = jnp.linspace(0.02, 0.08, 25)
    looped = loop(descent_weights(D), loop_prompt(x, y, alpha, q), rates)
    gradient = jax.grad(lambda w: 0.5 * jnp.sum((y - x @ w) ** 2))
    w, path = -q / alpha, []
    for rate in rates:
        w = w - rate * gradient(w)
        path.append(w)
    np.testing.assert_allclose(looped.outputs, alpha * jnp.stack(path), rtol=1e-11)
    np.testing.assert_allclose(
        least_squares_descent(x, y, rates, -q / alpha), jnp.stack(path), rtol=1e-11
    )
    np.testing.assert_array_equal(looped.rows[:N], loop_prompt(x, y, alpha, q)[:N])
    assert looped.rows[N, D] == alpha


def test_errors_are_those_of_the_run(task):
    """Oracle: the run itself; at t = 0 the initial distance."""
    x, theta, _ = task
    values, vectors = jnp.linalg.eigh(x.T @ x)
    rate = 1 / values[-1]
    path = least_squares_descent(x, x @ theta, jnp.full(30, rate))
    measured = jnp.log(jnp.sum((path - theta[None, :]) ** 2, axis=1))
    errors = log_squared_errors(values, -vectors.T @ theta, rate, jnp.arange(31.0))
    np.testing.assert_allclose(errors[1:], measured, atol=1e-10)
    np.testing.assert_allclose(errors[0], 0.0, atol=1e-12)
    kappa = condition_number(x)
    tight = tight_log_bound(kappa, jnp.arange(31.0))
    assert (errors <= tight + 1e-12).all()
    assert (tight <= loose_log_bound(kappa, jnp.arange(31.0))).all()
    along = log_squared_errors(values, jnp.array([1.0, 0.0, 0.0]), rate, jnp.arange(1000.0))
    np.testing.assert_allclose(along, tight_log_bound(kappa, jnp.arange(1000.0)), rtol=1e-9)


def test_the_earlier_bound_reaches_its_condition_at_its_number_of_examples():
    """Oracle: the condition 8Td²/√n = 2^{−2T}, and numbers of the source's comparison."""
    for loops in (1, 5):
        n = exponential_examples(loops, 4)
        np.testing.assert_allclose(8 * loops * 16 / n**0.5, 2.0 ** (-2 * loops), rtol=1e-12)
        np.testing.assert_allclose(exponential_bound(loops, n, 4), 1.0, rtol=1e-12)
    assert exponential_examples(1, 4) == 262144


def test_empty_prompts_are_refused():
    with pytest.raises(ValueError, match="at least one example, got none"):
        loop_prompt(jnp.zeros((0, 2)), jnp.zeros(0), 1.0)
    with pytest.raises(ValueError, match="dimension must be at least 1, got 0"):
        descent_weights(0)
