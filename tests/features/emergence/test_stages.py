"""Three stages: gradients against Lemma A.6 by hand, what is kept and forgotten, twins."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import Dataset, dictionary_data, parity_mixture
from theorylab.features.emergence import (
    Scales,
    Stage,
    classify,
    emerge,
    emergence_stages,
    gradients,
    opening,
    outputs,
    preactivations,
    smoothed_outputs,
    smoothed_relu,
    start_scales,
    step,
    unbiased_start,
)
from theorylab.features.emergence import stages as module
from theorylab.training import Batches, hinge

LAW = parity_mixture(8, 3)


@pytest.fixture(scope="module")
def data():
    return dictionary_data(jax.random.key(0), LAW, 50)


@pytest.fixture(scope="module")
def start():
    drawn = unbiased_start(jax.random.key(1), 4, 8, Scales(1.0, 0.3, 3.0))
    return drawn._replace(outer=drawn.outer + 0.5)  # no longer 0 everywhere


@pytest.mark.parametrize("chunk", [50, 12])
def test_gradients_are_those_of_the_lemma(data, start, chunk, monkeypatch):
    """Oracle: Lemma A.6, with indicators 1[yg < 1] and openings, in chunks that do not divide n."""
    monkeypatch.setattr(module, "_CHUNK", chunk)
    x, y, noise = data.x, data.y, 0.2
    alpha = np.where(y > 0, 0.7, 1.3)
    found = gradients(start, x, y, noise, class_weights=(1.3, 0.7))
    z = preactivations(start, x)
    active = alpha * np.asarray(y * (y * smoothed_outputs(start, x, noise) < 1))
    assert 0 < np.count_nonzero(active) < 50
    opened = active * np.asarray(opening(z, noise))
    outer = np.asarray(start.outer)
    np.testing.assert_allclose(found.weights, -outer[:, None] * (opened.T @ x) / 50, atol=1e-13)
    np.testing.assert_allclose(found.biases, -outer * opened.mean(axis=0), atol=1e-13)
    expected = -(active * np.asarray(smoothed_relu(z, noise))).mean(axis=0)
    np.testing.assert_allclose(found.outer, expected, atol=1e-13)


def test_a_step_keeps_and_learns(start):
    """Oracle: by hand; the theory's stages forget w, then w and a."""
    gradient = jax.tree.map(jnp.ones_like, start)
    after = step(start, gradient, Stage(0.5, keep_weights=0.25, keep_outer=2.0, noise=0.1))
    np.testing.assert_allclose(after.weights, 0.25 * start.weights - 0.5)
    np.testing.assert_allclose(after.biases, start.biases - 0.5)
    np.testing.assert_allclose(after.outer, 2 * start.outer - 0.5)


def test_sizes_of_the_stages_are_the_sources():
    """Oracle: Lemmas A.12, A.17 and Theorem A.20 at k = 4, γ = ½, σ̃ = 3, m = 10."""
    first, second = emergence_stages(4, 0.5, 3.0, 10)
    assert first == Stage(0.25 * 3 / 4000, 0.0, 1.0, 1 / 8)
    assert second == Stage(1.0, 0.0, 0.0, 1 / 8)
    printed, _ = emergence_stages(4, 0.5, 3.0, 10, keep=0.1, printed="theorem")
    assert printed == Stage(0.25 * 9 / 4000, 0.1, 1.0, 1 / 16)


def test_twins_part_by_opposite_gradients_and_forgotten_weights_are_the_gradient(data):
    """Oracle: Lemma A.13. Twins have opposite gradients of w and b, and equal ones of a."""
    scales = start_scales(3, LAW.structure, LAW.scale())
    start = unbiased_start(jax.random.key(2), 4, 8, scales)
    found = emerge(start, data, emergence_stages(3, LAW.structure, LAW.scale(), 4))
    np.testing.assert_allclose(
        found.first.weights[:4], -found.first.weights[4:], rtol=1e-10, atol=1e-18
    )
    one = found.first_gradient
    np.testing.assert_allclose(one.biases[:4], -one.biases[4:], atol=1e-14)
    np.testing.assert_allclose(one.outer[:4], one.outer[4:], atol=1e-14)
    np.testing.assert_array_equal(found.second.weights, -found.second_gradient.weights)
    np.testing.assert_array_equal(found.second.outer, -found.second_gradient.outer)


def test_without_noise_forgotten_neurons_of_negative_bias_are_dead(data):
    """Why the noise is there: weights are 0 but for 1e-9 after the first step."""
    start = unbiased_start(jax.random.key(2), 4, 8, Scales(0.3, 0.1, 3.0))
    forgotten = start._replace(weights=1e-12 * start.weights)
    dead = np.asarray(gradients(forgotten, data.x, data.y, 1e-6).weights)
    dead = np.abs(dead).max(axis=1) == 0
    np.testing.assert_array_equal(dead, np.asarray(start.biases) < 0)
    alive = gradients(forgotten, data.x, data.y, noise=3**-1.5).weights
    assert np.abs(alive).max(axis=1).min() > 0


def test_the_classifier_is_descent_with_a_rate_for_every_block(start):
    """Oracle: two full steps with autodiff, at rates η and η/2."""
    data = Dataset(jnp.eye(8)[:2], jnp.array([[1.0], [-1.0]]), "two points", "made up")
    rates, neurons = (0.1, 0.01, 0.5), start
    run = classify(neurons, data, Batches(2), [2], lambda n: n.outer, rates, jax.random.key(0))
    for share in (1.0, 0.5):
        slope = jax.grad(lambda n: hinge("mean")(outputs(n, data.x), data.y))(neurons)
        neurons = type(neurons)(
            *(part - share * r * g for part, g, r in zip(neurons, slope, rates, strict=True))
        )
    for found, expected in zip(run.params, neurons, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-14)


def test_what_does_not_fit_is_refused(start, data):
    with pytest.raises(ValueError, match="num_pairs must be at least 1, got 0"):
        emergence_stages(5, 0.25, 5.0, 0)
    with pytest.raises(ValueError, match="printed must be lemmas or theorem, got 'lemma'"):
        inspect.unwrap(emergence_stages)(5, 0.25, 5.0, 3, printed="lemma")
    with pytest.raises(ValueError, match="rates must be at least 0, got"):
        classify(start, data, Batches(2), [1], lambda n: 0.0, (0.1, -1.0, 1.0), jax.random.key(0))
