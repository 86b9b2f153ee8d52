"""The two-layer network: its symmetric start, its first step, its online training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import Dataset
from theorylab.features.gradient import (
    FiniteLaw,
    OnlineSchedule,
    ReluNetwork,
    error_rate,
    forgetting_schedule,
    gradient_step,
    loss_slope,
    margin_loss,
    risk,
    symmetric_network,
    train,
    train_exactly,
)
from theorylab.features.gradient import (
    network as module,
)

WIDTH, DIMENSION = 3, 4


@pytest.fixture(scope="module")
def law():
    """Points in general position with uneven probabilities."""
    x = jax.random.normal(jax.random.key(0), (9, DIMENSION))
    shares = jnp.arange(1.0, 10.0)
    return FiniteLaw(x, jnp.where(x[:, 0] * x[:, 1] > 0, 1.0, -1.0), shares / shares.sum())


@pytest.fixture(scope="module")
def start():
    return symmetric_network(jax.random.key(1), WIDTH, DIMENSION, 0.3, 0.7, output_scale=2.0)


def simplified_gradient(law, w, b):
    """G(w, b) by its definition, point by point."""
    terms = [p * y * x for x, y, p in zip(*map(np.asarray, law), strict=True) if np.dot(w, x) > b]
    return np.sum(terms, axis=0) if terms else np.zeros(DIMENSION)


def test_the_output_is_the_sum_of_its_formula():
    network = ReluNetwork(jnp.array([2.0, -1.0]), jnp.array([[1.0, 0.0], [1.0, 1.0]]), jnp.ones(2))
    np.testing.assert_allclose(network(jnp.array([[3.0, 1.0], [0.0, 5.0]])), [1.0, -4.0])


def test_the_output_is_zero_at_the_start(start, law):
    np.testing.assert_allclose(start(law.x), 0, atol=1e-15)
    assert start.biases.tolist() == 2 * ([0.3] * WIDTH + [-0.3] * WIDTH)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_first_step_forgets_the_start_and_gives_gradient_features(start, law, loss):
    """w⁽¹⁾ = −η⁽¹⁾ℓ'(0) a⁽⁰⁾ G(w⁽⁰⁾, b), with G by its definition."""
    found = gradient_step(start, law, forgetting_schedule(0.2, 0.1, 2), 0, loss)
    expected = [
        0.2 * loss_slope(loss) * a * simplified_gradient(law, w, b)
        for a, w, b in zip(*map(np.asarray, start), strict=True)
    ]
    np.testing.assert_allclose(found.weights, expected, atol=1e-14)
    np.testing.assert_allclose(found.weights[: 2 * WIDTH], -found.weights[2 * WIDTH :], atol=1e-14)
    np.testing.assert_array_equal(found.biases, start.biases)


def test_without_linear_signal_the_two_signs_of_a_neuron_agree(start):
    """Lemma B.71: w⁽¹⁾ᵢ = w⁽¹⁾ᵢ₊ₘ if E[yx] = 0."""
    x = jnp.concatenate([jnp.eye(DIMENSION), -jnp.eye(DIMENSION)])
    y = jnp.tile(jnp.array([1.0, 1.0, -1.0, -1.0]), 2)
    found = gradient_step(start, FiniteLaw(x, y, jnp.full(8, 0.125)), _schedule(), 0)
    np.testing.assert_allclose(found.weights[:WIDTH], found.weights[WIDTH : 2 * WIDTH], atol=1e-14)
    assert np.abs(found.weights).max() > 0.01


def _schedule():
    return forgetting_schedule(0.2, 0.1, num_steps=4)


def test_later_steps_descend_without_a_penalty(start, law):
    """Oracle: finite differences of the risk, in both layers."""
    first = gradient_step(start, law, _schedule(), 0, "logistic")
    second = gradient_step(first, law, _schedule(), 1, "logistic")
    bump = 1e-6

    def slope(name, place):
        raised, lowered = (
            first._replace(**{name: getattr(first, name).at[place].add(sign * bump)})
            for sign in (1, -1)
        )
        return (risk(raised, law, "logistic") - risk(lowered, law, "logistic")) / (2 * bump)

    moved = first.outputs[2] - second.outputs[2]
    np.testing.assert_allclose(moved, 0.1 * slope("outputs", 2), rtol=1e-6)
    moved = first.weights[1, 3] - second.weights[1, 3]
    np.testing.assert_allclose(moved, 0.1 * slope("weights", (1, 3)), rtol=1e-6)


@pytest.mark.parametrize("block_size", [1, 4, 9, 100])
def test_a_step_in_blocks_of_samples_is_the_step(start, law, block_size):
    """Oracle: the gradient of all 9 points at once; in fours the last block overlaps another."""
    first = gradient_step(start, law, _schedule(), 0, "logistic")
    for network, step in ((start, 0), (first, 1)):
        expected = gradient_step(network, law, _schedule(), step, "logistic")
        found = gradient_step(network, law, _schedule(), step, "logistic", block_size)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-14), found, expected)
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        gradient_step(start, law, _schedule(), 0, block_size=0)


def test_blocks_have_their_own_step_sizes(start, law):
    """A step of W alone leaves a as it is."""
    schedule = OnlineSchedule(jnp.zeros(1), jnp.ones(1), jnp.zeros(1))
    found = gradient_step(start, law, schedule, 0)
    np.testing.assert_array_equal(found.outputs, start.outputs)
    assert np.abs(found.weights - start.weights).max() > 0.01


def test_online_training_draws_a_fresh_sample_for_every_step(start):
    """A sampler that tells its draws apart: one step at a time gives the same network."""

    def sampler(key, num_samples):
        x = jax.random.normal(key, (num_samples, DIMENSION))
        return Dataset(x, jnp.sign(x[:, :1]), "half-space", "synthetic")

    key, shares = jax.random.key(3), jnp.full(5, 0.2)
    run = train(key, start, sampler, 5, _schedule(), [0, 3], lambda network: network.outputs)
    network, draws = start, [sampler(jax.random.fold_in(key, step), 5) for step in range(3)]
    for step, drawn in enumerate(draws):
        network = gradient_step(
            network, FiniteLaw(drawn.x, drawn.y[:, 0], shares), _schedule(), step
        )
    np.testing.assert_allclose(run.params.weights, network.weights, atol=1e-13)
    np.testing.assert_array_equal(run.records[0], start.outputs)
    assert np.abs(draws[0].x - draws[1].x).min() > 1e-6


def test_exact_training_is_online_training_on_all_points(start, law):
    equal = law._replace(probabilities=jnp.full(9, 1 / 9))
    data = Dataset(law.x, law.y[:, None], "points", "synthetic")
    one = train_exactly(start, equal, _schedule(), [4], lambda network: risk(network, equal))
    other = train(
        jax.random.key(0), start, lambda *_: data, 9, _schedule(), [4], lambda net: risk(net, equal)
    )
    np.testing.assert_allclose(one.params.weights, other.params.weights, atol=1e-13)
    assert one.records[0] < 1  # below the risk at the start, ℓ(0) = 1
    assert 0 <= float(error_rate(one.params, data)) <= 1


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_losses_are_one_at_zero_and_have_their_slopes(loss):
    value, slope = jax.value_and_grad(lambda z: margin_loss(z[None], loss)[0])(0.0)
    np.testing.assert_allclose([value, -slope], [1.0, loss_slope(loss)], rtol=1e-12)


def test_bad_input_is_refused(start, law):
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        symmetric_network(jax.random.key(0), 0, 3, 1.0)
    with pytest.raises(ValueError, match="first_rate must be positive and finite, got 0"):
        forgetting_schedule(0, 1.0, 2)
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        forgetting_schedule(1.0, 1.0, 0)


def test_points_answered_in_turn_give_the_same_risk_and_step(law, start, monkeypatch):
    """Oracle: all 9 points at once; 4 at a time leave one."""
    schedule = forgetting_schedule(0.4, 0.1, num_steps=2)
    expected = (risk(start, law, "logistic"), *gradient_step(start, law, schedule, 1, "logistic"))
    monkeypatch.setattr(module, "_TOGETHER", 20)
    monkeypatch.setattr(module, "_IN_TURN", 4 * len(start.outputs))
    found = (risk(start, law, "logistic"), *gradient_step(start, law, schedule, 1, "logistic"))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-14), found, expected)
    assert float(jnp.abs(found[2] - start.weights).max()) > 1e-3
