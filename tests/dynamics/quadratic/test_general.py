import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics.quadratic import general, plane
from theorylab.dynamics.quadratic.plane import PlaneState

X, WIDTH = jnp.array([1.0, -2.0, 0.5]), 4


@pytest.fixture(scope="module")
def models():
    """A random diagonal model, a linear network, and weights of each."""
    random = jax.jit(lambda key: general.random_model(key, 16, 0.1))(jax.random.key(1))
    rng = np.random.default_rng(0)
    network = general.linear_network(X, WIDTH)
    return {"random": (random, rng.normal(size=16)), "network": (network, rng.normal(size=16))}


def descent(model, weights, target, learning_rate, num_steps):
    """Plain loop in NumPy: the states (g, λ), one row for each time."""
    phi, sigma, gamma = (np.asarray(part) for part in model)
    rows = []
    for _ in range(num_steps + 1):
        slope = phi + gamma * sigma @ weights
        g = weights @ phi + gamma / 2 * weights @ sigma @ weights
        rows.append((g, slope @ slope))
        weights = weights - learning_rate * (g - target) * slope
    return np.array(rows)


@pytest.mark.parametrize("name", ["random", "network"])
@pytest.mark.parametrize("ratio", [1.5, 2.8])
def test_the_map_is_gradient_descent_on_the_weights(models, name, ratio):
    """Oracle: a NumPy loop over the weights. An identity: rounding."""
    model, weights = models[name]
    start = general.state(model, jnp.asarray(weights))
    rate = float(ratio / start.curvature)
    problem = general.problem(model, 0.3, rate)
    path = np.stack(general.trajectory(start, problem, 15), axis=1)
    expected = descent(model, weights, 0.3, rate, 15)
    np.testing.assert_allclose(path, expected, atol=1e-12 * np.abs(expected).max())


def test_it_is_the_map_of_one_example_shifted(models):
    """Oracle: `plane.step`, derived from frozen gates, at shifted output and target."""
    model, weights = models["random"]
    start = general.state(model, jnp.asarray(weights))
    problem = general.problem(model, 0.3, 2.5)
    moved, equivalent = general.as_one_example(start, problem)
    after = plane.step(moved, equivalent)
    shift = moved.output - start.output
    expected = PlaneState(after.output - shift, after.curvature)
    found = general.step(start, problem)
    np.testing.assert_allclose(np.stack(found), np.stack(expected), rtol=1e-12)


def test_the_linear_network_is_vux():
    """Oracle: vᵀUx/√m with the weights as matrices; Σ³ = ‖x‖²Σ although Σ² ≠ ‖x‖²I."""
    model = general.linear_network(X, WIDTH)
    rng = np.random.default_rng(3)
    u, v = rng.normal(size=(WIDTH, 3)), rng.normal(size=WIDTH)
    weights = jnp.concatenate([jnp.asarray(u).ravel(), jnp.asarray(v)])
    expected = v @ u @ np.asarray(X) / np.sqrt(WIDTH)
    np.testing.assert_allclose(general.output(model, weights), expected, rtol=1e-12)
    sigma, square = np.asarray(model.matrix), float(X @ X)
    np.testing.assert_allclose(sigma @ sigma @ sigma, square * sigma, atol=1e-12)
    assert np.abs(sigma @ sigma - square * np.eye(16)).max() > 1
    found = general.problem(model, 0.0, 1.0)
    np.testing.assert_allclose(np.stack([found.square, found.overlap]), [square, 0.0], atol=1e-12)


def test_the_printed_step_has_the_printed_errors():
    """Oracle: Prop. B.13.1 by hand at g = 2, λ = 3, η = 2, γ = ½, s = 1."""
    problem = general.GeneralProblem(0.0, 2.0, 0.5, 0.0, 1.0)
    printed = general.printed_step(PlaneState(2.0, 3.0), problem)
    assert printed == PlaneState((1 - 6 + 0.5 * 4 * 4) * 2.0, 3.0 - 0.5 * 4 * (4 - 6))
    assert general.step(PlaneState(2.0, 3.0), problem) != printed


def test_random_models_have_unit_features_and_signs(models):
    """Oracle: ‖φ‖ = 1 and Σ² = I."""
    model, _ = models["random"]
    np.testing.assert_allclose(model.features @ model.features, 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.matrix @ model.matrix, np.eye(16))
    assert {-1.0, 1.0} == set(np.diag(model.matrix))


def test_input_is_checked():
    with pytest.raises(ValueError, match="num_parameters must be at least 1, got 0"):
        general.random_model(jax.random.key(0), 0, 0.1)
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        general.linear_network(jnp.ones(2), 0)
    problem = general.GeneralProblem(0.0, 1.0, 0.1, 0.0, 1.0)
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        general.trajectory(PlaneState(0.0, 1.0), problem, 0)
