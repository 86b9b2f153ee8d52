"""Schedules against Python loops that follow their rules word by word."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.training import catapults, descend, every, follow_critical, stepwise, triangular


def loss(w):
    """The model f = w₀w₁ on one example with target 1: its kernel is K = |w|²."""
    return (w[0] * w[1] - 1) ** 2 / 2


def critical(w):
    """2/K."""
    return 2 / (w @ w)


START = np.array([0.3, 6.0])


def by_hand(num_steps, factor, patience, max_raises, start=None):
    """The rates and losses of the adaptive schedule, in a Python loop."""
    w, rates, losses, raises = START, [], [], []
    level, age = np.inf, patience if start is None else 0
    rate = None if start is None else start * 2 / (w @ w)
    for step in range(num_steps):
        residual = w[0] * w[1] - 1
        losses.append(residual**2 / 2)
        if step == 0:
            level = losses[0]
        if losses[-1] <= level and age >= patience and len(raises) < max_raises:
            rate, level, age = factor * 2 / (w @ w), losses[-1], 0
            raises.append(step)
        rates.append(rate)
        w, age = w - rate * residual * w[::-1], age + 1
    return np.array(rates), np.array(losses), raises


def run(num_steps, **settings):
    """The losses along the way, by `descend`, and the last state of the schedule."""
    optimizer = catapults(critical, **settings)
    record = descend(loss, jnp.array(START), optimizer, every(1, num_steps), loss)
    return record.records[:-1]


@pytest.mark.parametrize("start", [None, 0.5])
def test_raises_come_when_the_loss_is_back_and_patience_is_over(start):
    """Oracle: the rule in a Python loop, with its own update by hand."""
    _, losses, raises = by_hand(60, 1.3, 12, 3, start)
    # The third raise waits for the loss, the others for the end of patience.
    assert raises == ([0, 12, 41] if start is None else [12, 24, 36])
    measured = jax.jit(lambda: run(60, factor=1.3, patience=12, max_raises=3, start=start))()
    np.testing.assert_allclose(measured, losses, rtol=1e-9, atol=1e-14)


def test_no_raise_while_the_loss_is_above_its_level():
    """A loss that never comes back is raised once; one that is told to be low, every 2 steps."""
    optimizer = catapults(critical, factor=1.1, patience=2)
    w = jnp.array(START)
    for values, raises in [((1.0, 2.0, 3.0, 4.0, 5.0), 1), ((1.0,) * 5, 3)]:
        state: Any = optimizer.init(w)
        for value in values:
            _, state = optimizer.update(w, state, w, value=jnp.array(value))
        assert state.num_raises == raises


def test_the_number_of_raises_may_be_traced():
    """One program for several numbers of catapults; each is that of the Python loop."""

    def last(most):
        return run(14, factor=1.3, patience=4, max_raises=most, start=0.5)[-1]

    expected = [by_hand(14, 1.3, 4, most, 0.5)[1][-1] for most in (0, 1, 2)]
    measured = jax.vmap(last)(jnp.arange(3))
    np.testing.assert_allclose(measured, expected, rtol=1e-9, atol=1e-14)


def test_following_the_critical_rate_is_descent_with_that_rate():
    """Oracle: w ← w − c η_crit ∇f in a Python loop, with η_crit renewed every third step."""
    w, rate, expected = START, 0.0, []
    for step in range(7):
        expected.append((w[0] * w[1] - 1) ** 2 / 2)
        rate = 0.1 * 2 / (w @ w) if step % 3 == 0 else rate
        w = w - rate * (w[0] * w[1] - 1) * w[::-1]
    optimizer = follow_critical(critical, 0.1, every=3)
    record = descend(loss, jnp.array(START), optimizer, every(1, 6), loss)
    np.testing.assert_allclose(record.records, expected, rtol=1e-11)


def test_the_critical_rate_of_a_batch_is_that_of_the_batch_in_the_users_own_loop():
    """In a chain, with the batch as an extra argument: the rate is 3 times what it says."""
    optimizer = optax.chain(optax.identity(), follow_critical(lambda w, batch: batch.sum(), 3.0))
    w = jnp.ones(2)
    updates, states = optimizer.update(w, optimizer.init(w), w, batch=jnp.array([1.0, 2.0]))
    assert np.array_equal(np.asarray(updates), [-9.0, -9.0])
    assert jax.tree.leaves(states)[0] == 9.0  # the learning rate


def test_schedules_of_the_step_go_into_optax():
    """Two steps of SGD: η(0) and η(1) of the triangle."""
    optimizer = optax.sgd(triangular(1.0, 3.0, 4))
    w = jnp.ones(1)
    state = optimizer.init(w)
    first, state = optimizer.update(w, state)
    second, _ = optimizer.update(w, state)
    assert np.array_equal(np.asarray([first, second]), [[-1.0], [-2.0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: catapults(critical, factor=0.0), "factor must be positive, got 0.0"),
        (lambda: catapults(critical, patience=0), "patience must be at least 1, got 0"),
        (lambda: catapults(critical, max_raises=0), "max_raises must be at least 1, got 0"),
        (lambda: catapults(critical, max_raises=-1, start=0.5), "at least 0, got -1"),
        (lambda: follow_critical(critical, -1.0), "factor must be positive, got -1.0"),
        (lambda: follow_critical(critical, every=0), "every must be at least 1, got 0"),
        (lambda: triangular(1.0, 2.0, 3), "even number of at least 2, got 3"),
        (lambda: triangular(0.0, 2.0, 4), "low must be positive, got 0.0"),
        (lambda: stepwise([1.0], [3]), "one more than boundaries, got 1 and 1"),
        (lambda: stepwise([1.0, 2.0, 3.0], [3, 3]), r"increasing, got \[3, 3\]"),
        (lambda: stepwise([1.0, 2.0, 3.0], [0, 3]), r"positive and increasing, got \[0, 3\]"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_loss_must_be_told():
    optimizer = catapults(critical)
    with pytest.raises(ValueError, match="the schedule must be given value"):
        optimizer.update(jnp.ones(2), optimizer.init(jnp.ones(2)), jnp.ones(2))
