"""Catapults on polynomials: which rate at which step, runs by hand, and the order of axes."""

import jax
import jax.numpy as jnp
import numpy as np

from theorylab.data import Dataset
from theorylab.experiments.features.agop._catapult_descent import Measurement
from theorylab.experiments.features.agop._polynomial_catapults import (
    PATIENCE,
    catapulted,
    descend_each,
    drawn,
    listed,
)


def test_samples_are_those_of_the_polynomial():
    """Oracle: x₁x₂ without noise, and two parts of one draw."""
    train, test = drawn(jax.random.key(0), 5, 7, 3, noise=0.0)
    assert (train.x.shape, test.x.shape) == ((7, 5), (3, 5))
    for part in (train, test):
        np.testing.assert_allclose(part.y[:, 0], part.x[:, 0] * part.x[:, 1], rtol=1e-12)


def test_a_list_is_followed_up_to_the_last_raise_that_is_taken():
    """Oracle: rates by hand, in units of 2; the third raise is not taken."""
    optimizer, first_end = listed(2.0, (0.5, 1.0, 3.0, 9.0), (2, 4, 6), jnp.array(2))
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
    given = (apply, jnp.array([0.1, 3.0]), data, data, jnp.eye(1))
    run = catapulted(*given, num_raises=1, target=1e-8, max_steps=400, factor=1.3)
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
        draw = jax.random.uniform(key)
        return Measurement(draw, number, *[jnp.zeros((2,))] * (len(Measurement._fields) - 2))

    keys = jax.random.split(jax.random.key(1), 3)
    found = descend_each(told, keys, (0, 4))
    draws = np.asarray(jax.vmap(jax.random.uniform)(keys))
    np.testing.assert_array_equal(found.test, np.stack([draws, draws], axis=1))
    np.testing.assert_array_equal(found.best_test, [[0, 4]] * 3)
    assert found.losses.shape == (3, 2, 2)
