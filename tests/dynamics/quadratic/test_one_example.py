import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics.quadratic import gated, one_example

X, TARGET = jnp.array([1.0, -0.5, 2.0]), 0.6


@pytest.fixture(scope="module")
def weights():
    return jax.jit(lambda key: gated.init(key, 30, 3))(jax.random.key(2))


def descent(weights, ratio, num_steps, frozen):
    """Plain loop in NumPy with written-out gradients: outputs g, the learning rate, weights."""
    u, v = (np.array(leaf) for leaf in weights)
    x, scale = np.asarray(X), 1 / np.sqrt(u.size)
    is_open = u @ x >= 0
    learning_rate = ratio / np.sum(is_open * ((u @ x) ** 2 + v**2 * (x @ x))) * u.size
    outputs, path = [], [np.append(u, v)]
    for _ in range(num_steps + 1):
        is_open = is_open if frozen else u @ x >= 0
        outputs.append(scale * np.sum(v * is_open * (u @ x)))
        error = outputs[-1] - TARGET
        slope_u = scale * (v * is_open)[:, None] * x[None, :]
        slope_v = scale * is_open * (u @ x)
        u, v = u - learning_rate * error * slope_u, v - learning_rate * error * slope_v
        path.append(np.append(u, v))
    return np.array(outputs), learning_rate, np.array(path)


@pytest.mark.parametrize("ratio", [1.2, 2.6])
def test_compare_trains_the_quadratic_and_the_linear_model(weights, ratio):
    """Oracle: a NumPy loop for the one, (1 − ηλ₀)ᵗ for the other; the map agrees to rounding."""
    found = jax.jit(lambda w: one_example.compare(w, X, TARGET, ratio, 20))(weights)
    outputs, _, _ = descent(weights, ratio, 20, frozen=True)
    losses = (outputs - TARGET) ** 2 / 2
    np.testing.assert_allclose(found.loss, losses, atol=1e-12 * losses.max())
    np.testing.assert_allclose(found.map_loss, losses, atol=1e-12 * losses.max())
    linear = losses[0] * (1 - ratio) ** (2 * np.arange(21))
    np.testing.assert_allclose(found.linear_loss, linear, atol=1e-12 * linear.max())
    assert max(found.map_error, found.reduced_error) < 1e-12


@pytest.mark.parametrize("frozen", [True, False])
def test_highest_loss_is_that_of_the_chosen_model(weights, frozen):
    """Oracle: a NumPy loop, with frozen gates or with the network's own."""
    outputs, learning_rate, _ = descent(weights, 2.6, 30, frozen)
    expected = learning_rate**2 * np.max((outputs - TARGET) ** 2) / 2
    found = jax.jit(lambda w: one_example.highest_loss(w, X, TARGET, 2.6, 30, frozen))(weights)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("frozen", [True, False])
def test_travel_is_how_far_the_weights_go(weights, frozen):
    """Oracle: a NumPy loop that keeps all weights; the step from w is ηλ^½ times the error."""
    found = jax.jit(lambda w: one_example.travel(w, X, TARGET, 2.6, 20, frozen))(weights)
    outputs, rate, path = descent(weights, 2.6, 20, frozen)
    steps, errors = np.linalg.norm(np.diff(path, axis=0), axis=1), np.abs(outputs - TARGET)
    curvatures = (steps / rate / errors) ** 2
    np.testing.assert_allclose(found.distance, np.linalg.norm(path[-2] - path[0]), rtol=1e-10)
    np.testing.assert_allclose(found.length, steps[:-1].sum(), rtol=1e-10)
    np.testing.assert_allclose(found.loss, (errors[-1] / errors[0]) ** 2, rtol=1e-9)
    np.testing.assert_allclose(found.curvature, curvatures[-1] / curvatures[0], rtol=1e-7)


def test_largest_ratio_is_that_of_a_scan(weights):
    """Oracle: the NumPy loop on a grid of ratios, for the quadratic model."""
    found = jax.jit(lambda w: one_example.largest_ratio(w, X, TARGET, 60, True, 6.0))(weights)
    grid = np.arange(3.4, 4.4, 0.02)
    with np.errstate(all="ignore"):
        ends = [np.abs(descent(weights, ratio, 60, True)[0] - TARGET)[[0, -1]] for ratio in grid]
    last = grid[np.array([end**2 < first**2 / 2 for first, end in ends])].max()
    assert abs(float(found) - last) < 0.05
