import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics.quadratic import gated
from theorylab.dynamics.quadratic.gated import GatedWeights
from theorylab.models import quadratize


@pytest.fixture(scope="module")
def setting():
    """Initial weights, moved weights, inputs."""

    @jax.jit
    def draw(key):
        keys = jax.random.split(key, 2)
        initial = gated.init(keys[0], width=7, dimension=3)
        noise = jax.random.normal(keys[1], (15, 3))
        moved = GatedWeights(initial.first + noise[:7], initial.second + noise[7:14, 0])
        return initial, moved, noise[5:10]

    return draw(jax.random.key(0))


def plain_network(weights, x):
    """Written out: 1/√m Σ vᵢ relu(uᵢᵀx/√d)."""
    (u, v), (m, d) = weights, weights.first.shape
    return jax.nn.relu(x @ u.T / jnp.sqrt(d)) @ v[:, None] / jnp.sqrt(m)


def test_network_is_the_relu_network(setting):
    """Oracle: the formula with relu. An identity: rounding."""
    _, moved, x = setting
    np.testing.assert_allclose(gated.network(moved, x), plain_network(moved, x), atol=1e-14)


def test_quadratic_model_is_the_printed_expansion(setting):
    """Oracle: the four terms of (3.9), loops over neurons. An identity: rounding."""
    initial, moved, x = setting
    (u0, v0), (u, v) = jax.tree.map(np.asarray, (initial, moved))
    m, d = u0.shape
    expected = np.array(plain_network(initial, x))[:, 0]
    for i in range(m):
        for s, point in enumerate(np.asarray(x)):
            is_open = u0[i] @ point >= 0
            moved_hidden = (u[i] - u0[i]) @ point * is_open
            expected[s] += v0[i] * moved_hidden / np.sqrt(m * d)
            expected[s] += (v[i] - v0[i]) * max(u0[i] @ point, 0) / np.sqrt(m * d)
            expected[s] += (v[i] - v0[i]) * moved_hidden / np.sqrt(m * d)
    model = gated.quadratic_model(initial)
    np.testing.assert_allclose(model(moved, x)[:, 0], expected, atol=1e-13)


def test_quadratic_model_is_the_taylor_expansion(setting):
    """Oracle: second-order autodiff of the ReLU network. An identity: rounding."""
    initial, moved, x = setting
    expected = quadratize(plain_network, initial)(moved, x)
    np.testing.assert_allclose(gated.quadratic_model(initial)(moved, x), expected, atol=1e-13)


@pytest.mark.parametrize("frozen", [True, False])
def test_tangent_kernel_is_that_of_autodiff(setting, frozen):
    """Oracle: Jacobians by autodiff, of both the network and its quadratic model."""
    initial, moved, x = setting
    apply = gated.quadratic_model(initial) if frozen else plain_network
    open_gates = gated.gates(initial if frozen else moved, x)
    kernel = gated.tangent_kernel(moved, open_gates, x)
    jacobian = jax.jacrev(lambda weights: apply(weights, x)[:, 0])(moved)
    flat = np.concatenate([np.reshape(leaf, (len(x), -1)) for leaf in jacobian], axis=1)
    np.testing.assert_allclose(kernel, flat @ flat.T, atol=1e-13)


@pytest.mark.parametrize(("second", "variance"), [("signs", 2), ("normal", 3)])
def test_initial_curvature_has_the_known_mean_and_deviation(second, variance):
    """Oracle: mean ‖x‖²/d, relative deviation √(2/m) or √(3/m); 4000 draws, 4 standard errors."""
    width, num_draws, x = 50, 4000, jnp.array([[1.0, 2.0]])

    @jax.jit
    @jax.vmap
    def curvature(key):
        weights = gated.init(key, width, 2, second)
        return gated.tangent_kernel(weights, gated.gates(weights, x), x)[0, 0]

    draws = np.asarray(curvature(jax.random.split(jax.random.key(3), num_draws)))
    mean, deviation = 5 / 2, 5 / 2 * np.sqrt(variance / width)
    assert gated.curvature_deviation(width, second) == pytest.approx(deviation / mean)
    assert abs(draws.mean() - mean) < 4 * deviation / np.sqrt(num_draws)
    assert abs(draws.std() / deviation - 1) < 4 / np.sqrt(2 * num_draws)


def test_second_layer_is_signs(setting):
    assert set(np.asarray(setting[0].second)) == {-1.0, 1.0}


def test_sizes_are_checked():
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        gated.init(jax.random.key(0), 0, 2)
    with pytest.raises(ValueError, match="dimension must be at least 1, got -1"):
        gated.init(jax.random.key(0), 3, -1)
