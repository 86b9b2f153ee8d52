"""Relabelling: entropies by hand, neurons that take no part, and what a loss depends on."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.experiments.features.emergence._relabelling import (
    Part,
    Roles,
    first_minimum,
    label_entropy,
    label_regularizer,
    learn,
    logits,
    matched_gaussians,
    quadratic_start,
    relabelled,
    smoothed,
)

RATE = 0.05
fit = jax.jit(partial(learn, num_records=2, num_steps=100, batch_size=8, learning_rate=RATE))


@pytest.fixture(scope="module")
def parts():
    """Points in the plane with the class of their length, which one quadratic neuron knows."""
    x = jax.random.normal(jax.random.key(0), (64, 2))
    long = ((x**2).sum(axis=1) > 1.4).astype(float)
    return Part(x, jnp.stack([1 - long, long], axis=1)), Part(2 * x, jnp.tile(jnp.eye(2), (32, 1)))


def test_the_regularizer_wants_all_classes_and_sure_answers():
    """Oracle: entropies by hand, ln 3 = 1.0986; by definition minus one and plus the other."""
    sure, same = jnp.eye(3), jnp.tile(jnp.eye(3)[:1], (3, 1))
    unsure = jnp.full((3, 3), 1 / 3)
    expected = [-np.log(3), 0.0, -np.log(3) + 0.5 * np.log(3)]
    found = [label_regularizer(p, 0.5) for p in (sure, same, unsure)]
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose([label_entropy(sure), label_entropy(same)], [1.0, 0.0], atol=1e-10)


def test_only_the_first_neurons_take_part(parts):
    """Oracle: a network that has only these, and V(Wx + b)²/√m + c written as a loop."""
    whole = quadratic_start(jax.random.key(1), 2, 5, 2)._replace(biases=jnp.arange(5.0))
    x = parts[0].x[:4]
    expected = sum(
        ((x @ whole.weights[:, i] + i) ** 2)[:, None] * whole.outer[i][None, :] for i in range(3)
    )
    np.testing.assert_allclose(logits(whole, x, 3), expected / 3**0.5, rtol=1e-12)
    trained = fit(jax.random.key(2), whole, parts, parts, Roles(3.0)).network
    np.testing.assert_array_equal(trained.weights[:, 3:], whole.weights[:, 3:])
    assert (jnp.abs(trained.weights - whole.weights)[:, :3] > 0).all()


def test_a_student_learns_both_parts_and_a_student_of_one_does_not_see_the_other(parts):
    """Oracle: 𝓛 is realisable; without imitation, other labels of 𝓤 change nothing."""
    start = quadratic_start(jax.random.key(1), 2, 5, 2)
    known, other = parts
    flipped = Part(other.x, 1 - other.y)
    both = [
        fit(jax.random.key(2), start, (known, part), parts, Roles(5.0, imitation))
        for part, imitation in [(other, 0.0), (flipped, 0.0), (flipped, 1.0)]
    ]
    np.testing.assert_array_equal(both[0].network.weights, both[1].network.weights)
    assert (both[1].network.weights != both[2].network.weights).any()
    assert both[0].labelled[-1] > 0.9
    assert both[0].loss < 0.4


def test_the_first_step_follows_labels_and_the_regularizer():
    """Oracle: Adam's first step is the rate times the gradient's sign; for offsets it is p − y.

    One sample in each part, so that batches are known. With the regulariser alone and one answer,
    R is (λ − 1) times its entropy, so λ > 1 makes the answer surer.
    """
    start = quadratic_start(jax.random.key(1), 2, 3, 2)
    one = Part(jnp.ones((1, 2)), jnp.array([[1.0, 0.0]]))
    step = jax.jit(partial(learn, num_records=1, num_steps=1, batch_size=1, learning_rate=RATE))
    found = step(jax.random.key(0), start, (one, one), (one, one), Roles(3.0)).network.offsets
    np.testing.assert_allclose(found, [RATE, -RATE], rtol=1e-4)
    uncertain = Part(one.x, jax.nn.softmax(logits(start, one.x, 3.0)))  # no gradient of its own
    roles = Roles(3.0, 0.0, 1.0, 3.0)
    found = step(jax.random.key(0), start, (uncertain, one), (one, one), roles).network.offsets
    surer = 1.0 if uncertain.y[0, 0] > 0.5 else -1.0
    np.testing.assert_allclose(found, [surer * RATE, -surer * RATE], rtol=1e-4)


def test_a_teacher_gives_its_largest_answer(parts):
    """Oracle: argmax; its own labels are learned without error by itself."""
    network = quadratic_start(jax.random.key(3), 2, 5, 2)
    given = relabelled(network, parts[0].x, 4)
    answers = logits(network, parts[0].x, 4)
    assert (given.y.argmax(axis=1) == answers.argmax(axis=1)).all()
    np.testing.assert_array_equal(given.y.sum(axis=1), 1.0)


def test_bad_arguments_are_refused(parts):
    with pytest.raises(ValueError, match="num_neurons and num_classes must be at least 1"):
        quadratic_start(jax.random.key(0), 2, 0, 2)
    start = quadratic_start(jax.random.key(0), 2, 1, 2)
    with pytest.raises(ValueError, match="num_steps must be a multiple of 3"):
        learn(jax.random.key(0), start, parts, parts, Roles(1.0), 3, 10, 4, 0.1)


def test_gaussians_have_the_mean_and_variance_of_every_pixel():
    """Oracle: the moments of the images, within four standard errors of 4000 samples."""
    images = jax.random.uniform(jax.random.key(3), (50, 3)) * jnp.array([[1.0, 2.0, 0.0]])
    drawn = np.asarray(matched_gaussians(jax.random.key(4), images, 4000))
    deviation = np.asarray(images.std(axis=0))
    error = 4 * deviation / 4000**0.5
    assert (np.abs(drawn.mean(axis=0) - images.mean(axis=0)) <= error).all()
    assert (np.abs(drawn.std(axis=0) - deviation) <= error).all()
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 4 / 4000**0.5


def test_the_first_minimum_is_the_classical_one():
    """Oracle: a parabola with a second descent below it, and a curve that only falls, by hand."""
    x = np.arange(12.0)
    classical = np.where(x < 8, (x - 4) ** 2, 16 - 8 * (x - 8))
    assert first_minimum(jnp.array([classical, -x])).tolist() == [4, 11]
    np.testing.assert_allclose(smoothed(jnp.array(x**2))[1:-1], x[1:-1] ** 2 + 0.5, rtol=1e-12)
