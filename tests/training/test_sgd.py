"""Mini-batch SGD: which examples are drawn, how noisy the gradient is, how the steps go."""

import itertools
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.training import Batches, descend, empirical_risk, every, sgd, squared
from theorylab.training.sgd import draw_indices, new_sampler


class Examples(NamedTuple):
    x: jax.Array
    y: jax.Array


N = 7
risk = empirical_risk(squared("mean"), lambda w, x: x @ w)
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def examples():
    x = jax.random.normal(jax.random.key(1), (N, 2))
    return Examples(x, jax.random.normal(jax.random.key(2), (N, 1)))


@partial(jax.jit, static_argnums=(0, 1, 3))
def drawn(batch, num_batches, key=KEY, num_samples=N):
    """The first batches of a stream, (batches, size)."""

    def next_batch(sampler, _):
        return draw_indices(batch, sampler, num_samples)

    return jax.lax.scan(next_batch, new_sampler(key, num_samples), length=num_batches)[1]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 7])
def test_every_epoch_visits_every_example_once(size):
    """Oracle: sorting. 7 is prime: sizes other than 1 and 7 make batches that reach over two."""
    stream = np.asarray(drawn(Batches(size), 6 * N)).ravel()
    epochs = stream.reshape(-1, N)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(N), (6 * size, 1)))
    if size > 1:
        assert len({tuple(epoch) for epoch in epochs}) > 1  # each epoch has its own order


def test_epochs_are_uniformly_shuffled():
    """Oracle: 6 orders of 3 examples, of probability 1/6 each; χ² with 5 degrees < 20.5 (0.1 %)."""
    orders = np.asarray(drawn(Batches(3), 3000, num_samples=3))
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert ((counts - 500) ** 2 / 500).sum() < 20.5


def test_batches_with_replacement_are_independent_and_uniform():
    """Oracle: 49 pairs of draws, of probability 1/49 each; χ² with 48 degrees < 84 (0.1 %)."""
    pairs = np.asarray(drawn(Batches(2, replace=True), 9800))
    counts = np.zeros((N, N))
    np.add.at(counts, tuple(pairs.T), 1)
    assert ((counts - 200) ** 2 / 200).sum() < 84
    # One after another, too: the last of a batch and the first of the next.
    counts = np.zeros((N, N))
    np.add.at(counts, (pairs[:-1, 1], pairs[1:, 0]), 1)
    assert ((counts - 200) ** 2 / 200).sum() < 84


@pytest.mark.parametrize("replace", [True, False])
def test_gradient_noise_is_that_of_all_possible_batches(replace, examples):
    """Oracle: enumeration of all batches gives γ²/B, times (n - B)/(n - 1) without replacement.

    What `draw_indices` gives then agrees within 4 standard errors of its mean.
    """
    size, w = 3, jnp.array([[0.5], [-1.0]])
    one = jax.vmap(jax.grad(risk), in_axes=(None, 0, 0))(
        w, examples.x[:, None], examples.y[:, None]
    )
    one = np.asarray(one)[:, :, 0]
    noise = lambda chosen: ((one[chosen].mean(axis=1) - one.mean(axis=0)) ** 2).sum(axis=1)  # noqa: E731

    gamma2 = ((one - one.mean(axis=0)) ** 2).sum(axis=1).mean()
    batches = (
        itertools.product(range(N), repeat=size)
        if replace
        else itertools.combinations(range(N), size)
    )
    exact = noise(np.array(list(batches))).mean()
    factor = 1 if replace else (N - size) / (N - 1)
    np.testing.assert_allclose(exact, gamma2 / size * factor, rtol=1e-12)

    batch = Batches(size, replace)
    firsts = jax.vmap(lambda key: drawn(batch, 2, key)[1])(jax.random.split(KEY, 4000))
    sampled = noise(np.asarray(firsts))
    assert abs(sampled.mean() - exact) < 4 * sampled.std() / np.sqrt(len(sampled))


@pytest.mark.parametrize(
    "batch", [Batches(3), Batches(4, replace=True)], ids=["epochs", "replaced"]
)
def test_steps_go_as_in_a_python_loop(batch, examples):
    """Oracle: momentum by hand, w - η u with u = g + βu, on the batches drawn."""
    optimizer, start = optax.sgd(0.1, momentum=0.5), jnp.array([[1.0], [1.0]])
    trajectory = jax.jit(
        lambda: sgd(risk, start, examples, optimizer, batch, every(3, 12), lambda w: w, KEY)
    )()

    path, u = [np.asarray(start)], 0
    x, y = map(np.asarray, examples)
    for chosen in np.asarray(drawn(batch, 12)):
        residual = x[chosen] @ path[-1] - y[chosen]
        u = 2 / batch.size * x[chosen].T @ residual + 0.5 * u
        path.append(path[-1] - 0.1 * u)
    np.testing.assert_allclose(trajectory.records, path[::3], rtol=1e-12)
    np.testing.assert_allclose(trajectory.params, path[-1], rtol=1e-12)


def test_a_batch_of_everything_is_full_batch_descent(examples):
    """Oracle: `descend`; the order within a batch is irrelevant."""
    start, steps = jnp.ones((2, 1)), every(5, 20)
    full = descend(lambda w: risk(w, *examples), start, optax.adam(0.1), steps, lambda w: w)
    batches = sgd(risk, start, examples, optax.adam(0.1), Batches(N), steps, lambda w: w, KEY)
    np.testing.assert_allclose(batches.records, full.records, rtol=1e-12)


def test_forty_seeds_are_one_program_and_equal_the_single_runs(examples):
    """Oracle: the same function, seed by seed; Python runs through it once for all forty."""
    traced = []

    def run(key):
        traced.append(key)
        start, batches = jax.random.split(key)
        params = jax.random.normal(start, (2, 1))
        optimizer = optax.sgd(0.05)
        measure = lambda w: risk(w, *examples)  # noqa: E731
        return sgd(risk, params, examples, optimizer, Batches(3), every(10, 40), measure, batches)

    keys = jax.random.split(jax.random.key(9), 40)
    program = jax.jit(jax.vmap(run))
    together = program(keys)
    program(keys)
    assert len(traced) == 1
    single = jax.jit(run)
    for seed, key in enumerate(keys):
        alone = single(key)
        np.testing.assert_allclose(together.records[seed], alone.records, rtol=1e-12)
        np.testing.assert_allclose(together.params[seed], alone.params, rtol=1e-12)
    assert len(traced) == 2


def test_bad_input_is_refused(examples):
    def run(data=examples, batch=Batches(3)):  # noqa: B008 (it is frozen)
        return sgd(risk, jnp.ones((2, 1)), data, optax.sgd(0.1), batch, [1], lambda w: w, KEY)

    with pytest.raises(ValueError, match="batch size must be at least 1, got 0"):
        Batches(0)
    with pytest.raises(ValueError, match="without replacement, got 8 > 7"):
        run(batch=Batches(8))
    assert run(batch=Batches(8, replace=True)).params.shape == (2, 1)
    with pytest.raises(ValueError, match="as many samples, got 7 and 6"):
        run(Examples(examples.x, examples.y[:6]))
    with pytest.raises(ValueError, match=r"shape \(n, k\), got \(3, 1\) and \(3,\)"):
        run(Examples(examples.x, examples.y[:, 0]))
    with pytest.raises(ValueError, match="at least one sample, got none"):
        run(Examples(examples.x[:0], examples.y[:0]), Batches(1, replace=True))
