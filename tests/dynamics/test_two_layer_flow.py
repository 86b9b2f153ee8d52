"""The flow of two layers, against automatic differentiation and finite steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics import two_layer_flow as two

ACTIVATIONS = {
    "linear": lambda z: z,
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "squared relu": lambda z: jax.nn.relu(z) ** 2,
}


def problem(seed=0, n=5, d=3, width=4):
    keys = jax.random.split(jax.random.key(seed), 3)
    x, y = jax.random.normal(keys[0], (n, d)), jax.random.normal(keys[1], (n,))
    return two.init(keys[2], width, d), x, y


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_velocity_is_minus_the_gradient(name):
    """Oracle: automatic differentiation of the loss."""
    params, x, y = problem()
    activation = ACTIVATIONS[name]
    slope = jax.grad(lambda w: two.loss(activation, w, x, y))(params)
    speed = two.velocity(activation, params, x, y)
    np.testing.assert_allclose(speed.inner, -slope.inner, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(speed.outer, -slope.outer, rtol=1e-12, atol=1e-14)


def rate(name, degree=1):
    """The time derivative of WWᵀ − kvvᵀ along the flow."""
    params, x, y = problem(seed=1)
    speed = two.velocity(ACTIVATIONS[name], params, x, y)
    return jax.jvp(lambda w: two.imbalance(w, degree), (params,), (speed,))[1]


def test_only_linear_networks_conserve_the_imbalance():
    """Oracle: its derivative along the velocity is 0, exactly where the theory says so."""
    np.testing.assert_allclose(rate("linear"), np.zeros((4, 4)), atol=1e-13)
    np.testing.assert_allclose(np.diag(rate("relu")), np.zeros(4), atol=1e-13)
    assert np.abs(rate("relu")).max() > 1e-2
    np.testing.assert_allclose(np.diag(rate("squared relu", 2)), np.zeros(4), atol=1e-13)
    assert np.abs(np.diag(rate("squared relu", 1))).max() > 1e-2
    assert np.abs(np.diag(rate("tanh"))).max() > 1e-2


def test_a_discrete_step_changes_the_imbalance_by_the_square_of_its_size():
    """Oracle: the exact difference η²(ẆẆᵀ − v̇v̇ᵀ) of one step."""
    params, x, y = problem(seed=2)
    speed = two.velocity(ACTIVATIONS["linear"], params, x, y)
    after = jax.tree.map(lambda here, slope: here + 0.1 * slope, params, speed)
    change = two.imbalance(after) - two.imbalance(params)
    np.testing.assert_allclose(change, 0.01 * two.imbalance(speed), rtol=1e-10, atol=1e-13)


def test_the_initial_law_has_the_stated_variances():
    """Oracle: 40 000 squares; the mean errs by √2 / 200 per standard error."""
    params = two.init(jax.random.key(0), width=10_000, dimension=4, scale=3.0)
    np.testing.assert_allclose(4 * jnp.mean(params.inner**2), 9.0, rtol=0.03)
    np.testing.assert_allclose(10_000 * jnp.mean(params.outer**2), 9.0, rtol=0.06)
    with pytest.raises(ValueError, match="width and dimension must be at least 1"):
        two.init(jax.random.key(0), 0, 3)
