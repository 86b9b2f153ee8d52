import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics.quadratic import gated, plane
from theorylab.dynamics.quadratic.plane import PlaneProblem, PlaneState

WIDTH, TARGET, NUM_STEPS = 50, 0.7, 100


@jax.jit
def weight_space(key, ratio):
    """Autodiff descent on the quadratic model of a network: the states, and the problem."""
    key_weights, key_input = jax.random.split(key)
    initial = gated.init(key_weights, WIDTH, 3)
    x = jax.random.normal(key_input, (1, 3))
    apply = gated.quadratic_model(initial)

    def output(weights):
        return apply(weights, x)[0, 0]

    def state(weights):
        slope = jax.grad(output)(weights)
        return PlaneState(output(weights), sum(jnp.vdot(leaf, leaf) for leaf in slope))

    learning_rate = ratio / state(initial).curvature

    def step(weights, _):
        slope = jax.grad(lambda weights: (output(weights) - TARGET) ** 2 / 2)(weights)
        after = jax.tree.map(lambda w, g: w - learning_rate * g, weights, slope)
        return after, state(weights)

    path = jax.lax.scan(step, initial, length=NUM_STEPS + 1)[1]
    return path, PlaneProblem(TARGET, learning_rate, plane.coupling(x[0], WIDTH))


def at(path, index):
    return jax.tree.map(lambda leaf: leaf[index], path)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("ratio", [0.5, 1.5, 3.0, 4.5])
def test_step_is_gradient_descent_on_the_weights(seed, ratio):
    """Oracle: autodiff through the network, for two steps. An identity: rounding."""
    path, problem = weight_space(jax.random.key(seed), ratio)
    for index in (0, 1):
        predicted = plane.step(at(path, index), problem)
        np.testing.assert_allclose(np.stack(predicted), np.stack(at(path, index + 1)), rtol=1e-12)


@pytest.mark.parametrize("ratio", [1.5, 2.5, 3.5])
def test_trajectories_are_gradient_descent_on_the_weights(ratio):
    """Oracle: autodiff descent, in both coordinates. Relative to the largest value."""
    path, problem = weight_space(jax.random.key(0), ratio)
    start = at(path, 0)
    predicted = plane.trajectory(start, problem, NUM_STEPS)
    for measured, expected in zip(predicted, path, strict=True):
        np.testing.assert_allclose(measured, expected, atol=1e-12 * np.abs(expected).max())

    reduced = plane.reduced_trajectory(plane.reduce(start, problem), NUM_STEPS)
    for measured, expected in zip(reduced, plane.reduce(path, problem), strict=True):
        np.testing.assert_allclose(measured, expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("ratio", [0.4, 1.7, 2.3])
def test_multipliers_are_the_eigenvalues_of_the_map_at_its_equilibrium(ratio):
    """Oracle: the Jacobian of `step` by autodiff at g = y; u ∝ (g − y)² squares the first."""
    problem = PlaneProblem(1.0, 2.0, 1e-2)

    def move(point):
        return jnp.stack(plane.step(PlaneState(point[0], point[1]), problem))

    jacobian = jax.jacfwd(move)(jnp.array([1.0, ratio / 2.0]))
    slope, neutral = plane.equilibrium_multipliers(ratio)
    expected = sorted(np.linalg.eigvals(jacobian).real)
    np.testing.assert_allclose(expected, sorted([1 - ratio, 1.0]), atol=1e-12)
    np.testing.assert_allclose(np.stack([slope, neutral]), [(1 - ratio) ** 2, 1.0])
    assert plane.is_stable(ratio) == (slope < 1)


def test_input_is_checked():
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        plane.coupling(jnp.ones(2), 0)
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        plane.trajectory(PlaneState(0.0, 1.0), PlaneProblem(1.0, 1.0, 1.0), 0)
