"""The diagonal network: identities by autodiff, its flow by another integrator and variable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from theorylab import bias

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, 4)), RNG.standard_normal(2)
THETA = bias.DiagonalParams(*jnp.asarray(RNG.standard_normal((2, 4))))
TIMES = np.array([0.2, 1.0, 5.0])


def network_loss(params):
    return jnp.sum((X @ bias.diagonal_weights(params) - Y) ** 2)


def test_the_speed_is_that_of_the_parametrisation():
    """Oracle: ∂G ∂Gᵀ from the Jacobian of G."""
    plus, minus = jax.jacobian(bias.diagonal_weights)(THETA)
    expected = plus @ plus.T + minus @ minus.T
    np.testing.assert_allclose(jnp.diag(bias.diagonal_speed(THETA)), expected, atol=1e-14)


def test_gradient_flow_conserves_the_product_of_the_parameters():
    """Oracle: the derivative of θ⁺ ⊙ θ⁻ along −∇(L ∘ G), anywhere."""
    plus, minus = jax.grad(network_loss)(THETA)
    np.testing.assert_allclose(plus * THETA.minus + THETA.plus * minus, 0, atol=1e-13)


def test_weights_move_as_the_mirror_flow_where_the_product_is_the_squared_scale():
    """Oracle: the chain rule along −∇(L ∘ G), at θ⁺ = αeᶻ and θ⁻ = αe⁻ᶻ."""
    alpha, z = 0.3, THETA.plus
    params = bias.DiagonalParams(alpha * jnp.exp(z), alpha * jnp.exp(-z))
    descent = jax.tree.map(jnp.negative, jax.grad(network_loss)(params))
    weights, velocity = jax.jvp(bias.diagonal_weights, (params,), (descent,))
    mirror = bias.mirror_velocity(lambda w: jnp.sum((X @ w - Y) ** 2), weights, alpha)
    np.testing.assert_allclose(velocity, mirror, rtol=1e-12)


def test_two_parameters_with_equal_weights_have_different_speeds():
    """Oracle: numbers worked out by hand, 4 and 12 at w = 1."""
    params = bias.DiagonalParams(jnp.array([1.0, 2.0**0.5]), jnp.array([0.0, 1.0]))
    np.testing.assert_allclose(bias.diagonal_weights(params), [1, 1], rtol=1e-12)
    np.testing.assert_allclose(bias.diagonal_speed(params), [4, 12], rtol=1e-12)


@pytest.fixture(scope="module")
def flows():
    """The flow at three scales: one compiled program."""
    follow = jax.jit(lambda a: bias.follow(jnp.asarray(X), jnp.asarray(Y[:, None]), a, 1.0, TIMES))
    return {alpha: follow(alpha) for alpha in (10.0, 0.1, 0.001)}


def test_single_precision_is_refused():
    """In float32 the implicit solver cannot meet its tolerance, and the end would be NaN."""
    with jax.enable_x64(False), pytest.raises(ValueError, match="float64"):
        bias.follow(jnp.array([[2.0, 1.0]]), jnp.array([[1.0]]), 0.1, 1.0, TIMES)


def log_flow(alpha):
    """The exact flow in z = log(θ⁺/α) = −log(θ⁻/α): dz/dt = −2 ∇L(w), w = 2α² sinh 2z."""

    def velocity(_, z):
        weights = 2 * alpha**2 * np.sinh(2 * z)
        return -4 * X.T @ (X @ weights - Y) / (1 + 2 * alpha**2)

    span = (0, TIMES[-1])
    return solve_ivp(velocity, span, np.zeros(4), "Radau", TIMES, rtol=1e-10, atol=1e-11).y.T


@pytest.mark.parametrize("alpha", [10.0, 0.1, 0.001])
def test_the_flow_agrees_with_another_integrator_in_another_variable(flows, alpha):
    """Oracle: SciPy's Radau on log θ. Its local error 1e-10 grows e-fold with the escape."""
    z = log_flow(alpha)
    expected = 2 * alpha**2 * np.sinh(2 * z)
    np.testing.assert_allclose(bias.diagonal_weights(flows[alpha].params), expected, atol=1e-6)
    np.testing.assert_allclose(flows[alpha].mirrored, expected, atol=1e-6)
    np.testing.assert_allclose(flows[alpha].params.plus, alpha * np.exp(z), atol=1e-6)


@pytest.mark.parametrize("alpha", [10.0, 0.1, 0.001])
def test_the_flow_ends_at_the_least_entropy(flows, alpha):
    """Oracle: Newton's method on the dual problem."""
    expected = bias.least_entropy(X, Y, alpha)
    np.testing.assert_allclose(flows[alpha].end, expected, atol=1e-8 * np.abs(expected).max())


def test_steps_are_gradient_descent_on_the_parameters():
    """Oracle: the update of each parameter, θ⁺(1 − 2ηg) and θ⁻(1 + 2ηg), in NumPy."""
    plus = minus = np.full(4, 0.5)
    for _ in range(20):
        gradient = 2 * X.T @ (X @ (plus**2 - minus**2) - Y)
        plus, minus = plus * (1 - 0.02 * gradient), minus * (1 + 0.02 * gradient)
    stepped = bias.descended(jnp.asarray(X), jnp.asarray(Y[:, None]), 0.5, 0.01, 20)
    np.testing.assert_allclose(stepped, plus**2 - minus**2, rtol=1e-12)


def test_the_top_curvature_is_that_of_the_hessian_at_zero_loss():
    """Oracle: the dense Hessian of the network's loss, by autodiff."""
    alpha = 0.3
    weights = jnp.asarray(bias.least_entropy(X, Y, alpha))
    z = 2 * bias.mirror_map(weights, alpha)
    flat = jnp.concatenate([alpha * jnp.exp(z), alpha * jnp.exp(-z)])
    hessian = jax.hessian(lambda p: network_loss(bias.DiagonalParams(p[:4], p[4:])))(flat)
    expected = np.linalg.eigvalsh(hessian)[-1]
    measured = bias.top_curvature(jnp.asarray(X), weights, alpha)
    np.testing.assert_allclose(measured, expected, rtol=1e-9)


def test_bad_dimensions_are_refused():
    with pytest.raises(ValueError, match="dimension must be at least 1, got 0"):
        bias.initial_params(0, 1.0)
