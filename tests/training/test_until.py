"""Training until a loss is reached: closed forms, and a loop in Python."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.data import Dataset
from theorylab.training import Batches, Until, ensemble, train_until
from theorylab.training.sgd import draw_indices, new_sampler

KEY = jax.random.key(3)


def risk(params, x, y):
    return jnp.mean((x @ params - y) ** 2)


def made_up(seed, num_samples):
    """A noisy line, which descent overfits: validation is best before the end."""
    x, noise = np.random.default_rng(seed).normal(size=(2, num_samples, 6))
    return Dataset(jnp.asarray(x), jnp.asarray(x[:, :1] + noise[:, :1]), "noisy line", "made up")


ONE = Dataset(jnp.ones((1, 1)), jnp.zeros((1, 1)), "y = 0", "made up")
TRAIN, VALIDATION = made_up(0, 8), made_up(1, 20)


@jax.jit
def on_one_sample(learning_rate):
    end = Until(1e-3, max_steps=50, check_every=1)
    optimizer = optax.sgd(learning_rate)
    return train_until(risk, jnp.ones((1, 1)), ONE, ONE, optimizer, Batches(1), end, KEY)


def test_descent_ends_when_the_closed_form_says():
    """Oracle: w_t = (1 − 2η)ᵗ, so L = w² < 10⁻³ first at t = ⌈log 10⁻³ / 2 log|1 − 2η|⌉."""
    fitted = on_one_sample(0.1)
    expected = math.ceil(math.log(1e-3) / (2 * math.log(0.8)))
    assert (int(fitted.num_steps), int(fitted.step)) == (expected, expected)
    assert (bool(fitted.reached), bool(fitted.diverged)) == (True, False)
    np.testing.assert_allclose(fitted.loss, 0.8 ** (2 * expected), rtol=1e-12)
    np.testing.assert_allclose(fitted.params, 0.8**expected, rtol=1e-12)


def test_descent_that_does_not_reach_ends_at_the_limit_or_where_it_is_not_finite():
    """With η = 1 the loss stays 1; with η = 10¹⁰⁰ it is infinite after two steps."""
    stuck = on_one_sample(1.0)
    assert (bool(stuck.reached), bool(stuck.diverged), int(stuck.num_steps)) == (False, False, 50)
    broken = on_one_sample(1e100)
    assert (bool(broken.reached), bool(broken.diverged), int(broken.num_steps)) == (False, True, 2)
    np.testing.assert_array_equal(broken.params, 1.0)  # the best was the beginning


@pytest.mark.parametrize("size", [3, 8])
def test_a_run_is_a_loop_of_steps_and_checks(size):
    """Oracle: the same batches in a Python loop, with the momentum written out."""
    end, batch = Until(1e-9, max_steps=50, check_every=4), Batches(size)
    optimizer = optax.sgd(0.05, momentum=0.5)
    large = lambda w, x, y: jnp.abs(w[0, 0]) < 0.3  # noqa: E731

    def run(key):
        start = jnp.zeros((6, 1))
        return train_until(risk, start, TRAIN, VALIDATION, optimizer, batch, end, key, large)

    fitted = jax.tree.map(lambda leaf: leaf[0], ensemble(run, KEY[None]))

    params, sampler, counted, checks = np.zeros((6, 1)), new_sampler(KEY, 8), 0, []
    momentum, x, y, before = 0.0, np.asarray(TRAIN.x), np.asarray(TRAIN.y), params
    drawn = jax.jit(lambda sampler: draw_indices(batch, sampler, 8))
    for step in range(51):
        if step % 4 == 0 or step == 50:
            error = np.asarray(VALIDATION.x) @ params - np.asarray(VALIDATION.y)
            checks.append((np.mean(error**2), step, counted, params))
        sampler, chosen = drawn(sampler)
        counted += bool(abs(params[0, 0]) < 0.3)
        inputs, targets = x[chosen], y[chosen]
        momentum = 0.5 * momentum + 2 / size * inputs.T @ (inputs @ params - targets)
        before, params = params, params - 0.05 * momentum
    best = min(checks, key=lambda check: check[0])
    np.testing.assert_allclose(fitted.validation, best[0], rtol=1e-12)
    assert (int(fitted.step), int(fitted.num_events)) == best[1:3]
    np.testing.assert_allclose(fitted.params, best[3], rtol=1e-11)
    np.testing.assert_allclose(fitted.loss, np.mean((x @ before - y) ** 2), rtol=1e-11)
    assert 0 < best[1] < 50


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="the loss to reach must be positive, got 0"):
        Until(0.0)
    with pytest.raises(ValueError, match="check_every must be at least 1, got 0"):
        Until(check_every=0)
    arguments = (jnp.zeros((6, 1)), TRAIN, VALIDATION, optax.sgd(0.1))
    with pytest.raises(ValueError, match="batch size must be at most"):
        train_until(risk, *arguments, Batches(9), Until(), KEY)
