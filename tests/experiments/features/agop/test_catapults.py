"""Catapults on polynomials: what a descent measures, which raises count, and the order of axes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.data import Dataset, polynomial_agop
from theorylab.experiments.features.agop._catapults import (
    PATIENCE,
    DescentConfig,
    Measurement,
    Problem,
    Schedule,
    catapulted,
    descend_each,
    listed,
    measured_descent,
    num_spikes,
    pose,
)
from theorylab.training import catapults, descend_until
from theorylab.training.schedules import scheduled


def product_loss(w):
    return (w[0] * w[1] - 1) ** 2 / 2


def test_catapults_are_taken_before_it_ends():
    """Oracle: the schedule's own rule: a raise after 40 steps, small as the loss is before."""
    critical = lambda w: 2 / (w @ w)  # noqa: E731
    schedule = catapults(critical, 1.3, patience=40, max_raises=1, start=0.5)
    run = descend_until(
        product_loss, jnp.array([0.1, 6.0]), schedule, lambda s: s.learning_rate, 1e-6, 400, 100
    )
    rates = np.asarray(run.rates[: int(run.num_steps)])
    assert np.flatnonzero(np.diff(rates) > 0).tolist() == [39]
    assert run.num_steps >= 100
    assert num_spikes(np.asarray(run.losses), np.asarray(run.rates)) <= 1


def test_a_raise_counts_only_if_the_loss_spikes_before_the_next():
    """Oracle: counted by eye; a loss that falls with η, or a spike without a raise, is none."""
    rates = np.array([1.0, 1.0, 2.0, 2.0, 3.0, 3.0, np.nan])
    assert num_spikes(np.array([1, 9, 1, 1.6, 1, 1.4, np.nan]), rates) == 1
    assert num_spikes(np.array([1, 9, 1, 1.6, 1, 1.6, np.nan]), rates) == 2
    assert num_spikes(np.array([1.0, 9.0]), np.array([1.0, 1.0])) == 0
    with pytest.raises(ValueError, match="at least 1, got 0"):
        descend_until(product_loss, jnp.ones(2), optax.sgd(0.1), lambda s: 0.1, 1e-3, 0)


def test_measured_are_the_end_and_its_features():
    """Oracle: a linear network, whose AGOP is wwᵀ and whose losses are known."""
    x = jnp.eye(2)[jnp.array([0, 1, 0, 1])]
    train = Dataset(x, x @ jnp.array([[3.0], [4.0]]), law="y = wx", source="made up")
    test = Dataset(x, 1 + train.y, law="y = wx + 1", source="made up")
    start, reference = jnp.zeros((2, 1)), jnp.diag(jnp.array([1.0, 0.0]))
    problem = Problem(lambda w, x: x @ w, start, train, test, reference=reference)
    optimizer = scheduled(lambda step: jnp.where(step < 3, 0.5, 1.0))
    found = measured_descent(problem, optimizer, DescentConfig(target=1e-12, max_steps=100))
    # w − w* halves three times, and is 0 after the step with η = 1 (the Hessian is I).
    assert found.num_steps == 4
    np.testing.assert_allclose(found.rates[:4], [0.5, 0.5, 0.5, 1.0])
    np.testing.assert_allclose(found.losses[:4], [12.5 / 4**t for t in range(4)], rtol=1e-12)
    np.testing.assert_allclose((found.test, found.best_test), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found.alignment, 9 / 25, rtol=1e-12)


def test_samples_are_those_of_the_polynomial():
    """Oracle: x₁x₂ up to noise of 0.1 (five deviations), and two parts of one draw."""
    config = DescentConfig(dimension=5, num_train=200, num_test=300, width=4)
    problem = pose(jax.random.key(0), config)
    assert (problem.train.x.shape, problem.test.x.shape) == ((200, 5), (300, 5))
    for part in (problem.train, problem.test):
        noise = np.asarray(part.y[:, 0] - part.x[:, 0] * part.x[:, 1])
        assert 0.07 < noise.std() < 0.13
        assert np.abs(noise).max() < 0.5
    np.testing.assert_array_equal(problem.reference, polynomial_agop(2, 5))


def test_a_list_is_followed_up_to_the_last_raise_that_is_taken():
    """Oracle: rates by hand, in units of 2; the third raise is not taken."""
    optimizer, first_end = listed(2.0, Schedule((0.5, 1.0, 3.0, 9.0), (2, 4, 6)), jnp.array(2))
    state, rates = optimizer.init(jnp.array(1.0)), []
    for _ in range(8):
        update, state = optimizer.update(jnp.array(1.0), state)
        rates.append(-np.asarray(update).item())
    assert rates == [1.0, 1.0, 2.0, 2.0, 6.0, 6.0, 6.0, 6.0]
    assert first_end == 4 + PATIENCE


def test_a_run_begins_at_half_the_critical_rate_and_is_raised_so_often():
    """Oracle: y = ux with two weights u = ab, whose kernel (a² + b²)x² is known in closed form."""
    data = Dataset(jnp.ones((4, 1)), jnp.ones((4, 1)), law="y = 1", source="made up")
    apply = lambda w, x: x * w[0] * w[1]  # noqa: E731
    problem = Problem(apply, jnp.array([0.1, 3.0]), data, data, reference=jnp.eye(1))
    config = DescentConfig(target=1e-8, max_steps=400, factor=1.3)
    run = catapulted(problem, num_raises=1, config=config)
    taken = int(run.num_steps)
    rates = np.asarray(run.rates[:taken])
    # The mean square has curvature 2(a² + b²), so that η_crit(0) = 1/9.01.
    np.testing.assert_allclose(rates[0], 0.5 / 9.01, rtol=1e-6)
    assert np.sum(np.diff(rates) > 0) == 1
    assert run.reached
    assert taken >= 2 * PATIENCE
    w = np.array([0.1, 3.0])
    for rate, loss in zip(rates, np.asarray(run.losses), strict=False):
        np.testing.assert_allclose(loss, (w[0] * w[1] - 1) ** 2, rtol=1e-6, atol=1e-12)
        w = w - rate * 2 * (w[0] * w[1] - 1) * w[::-1]


def test_seeds_come_before_numbers_of_raises():
    """Oracle: a run that tells its key and its number."""

    def told(key, number):
        blank = dict.fromkeys(Measurement._fields, jnp.zeros(2))
        return Measurement(**blank | {"test": jax.random.uniform(key), "best_test": number})

    keys = jax.random.split(jax.random.key(1), 4)
    draws = np.asarray(jax.vmap(jax.random.uniform)(keys))
    found = descend_each(told, (keys,), (0, 3))
    np.testing.assert_array_equal(found.test, np.stack([draws, draws], axis=1))
    np.testing.assert_array_equal(found.best_test, [[0, 3]] * 4)
    assert found.losses.shape == (2, 2)
    folded = descend_each(told, (keys,), (0, 3), 2, 2)
    np.testing.assert_array_equal(folded.test, found.test.reshape(2, 2, 2))
    assert folded.losses.shape == (2, 2)
