"""What is measured at the end of a descent, and which raises of the learning rate count."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.data import Dataset
from theorylab.experiments.features.agop._catapult_descent import measured_descent, num_spikes
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
    found = measured_descent(
        lambda w, x: x @ w,
        jnp.zeros((2, 1)),
        train,
        test,
        jnp.diag(jnp.array([1.0, 0.0])),
        scheduled(lambda step: jnp.where(step < 3, 0.5, 1.0)),
        1e-12,
        100,
    )
    # w − w* halves three times, and is 0 after the step with η = 1 (the Hessian is I).
    assert found.num_steps == 4
    np.testing.assert_allclose(found.rates[:4], [0.5, 0.5, 0.5, 1.0])
    np.testing.assert_allclose(found.losses[:4], [12.5 / 4**t for t in range(4)], rtol=1e-12)
    np.testing.assert_allclose((found.test, found.best_test), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found.alignment, 9 / 25, rtol=1e-12)
