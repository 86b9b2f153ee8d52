"""The hyperbolic entropy: its derivatives by autodiff, its two limits in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab import bias

WEIGHTS = jnp.array([-3.0, -0.2, 0.0, 1e-4, 0.7, 5.0])


@pytest.mark.parametrize("alpha", [0.01, 0.5, 4.0])
def test_the_mirror_map_is_the_gradient(alpha):
    """Oracle: autodiff. The potential is built without cancellation, so equal to rounding."""
    gradient = jax.grad(bias.hyperbolic_entropy)(WEIGHTS, alpha)
    np.testing.assert_allclose(bias.mirror_map(WEIGHTS, alpha), gradient, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("alpha", [0.01, 0.5, 4.0])
def test_the_speed_is_the_inverse_hessian(alpha):
    """Oracle: autodiff twice."""
    hessian = jax.hessian(bias.hyperbolic_entropy)(WEIGHTS, alpha)
    inverse = jnp.diag(bias.mirror_speed(WEIGHTS, alpha))
    np.testing.assert_allclose(inverse @ hessian, np.eye(len(WEIGHTS)), atol=1e-9)


@pytest.mark.parametrize("alpha", [1e-3, 0.5, 30.0])
def test_the_inverse_mirror_map_undoes_the_map(alpha):
    there = bias.mirror_map(WEIGHTS, alpha)
    back = bias.inverse_mirror_map(there, alpha)
    np.testing.assert_allclose(back, WEIGHTS, rtol=1e-12, atol=1e-15)


def test_a_large_scale_gives_the_squared_l2_norm():
    """Oracle: R_α = ‖w‖²/16α² + O(α⁻⁶), from q(z) = z²/4 + O(z⁴)."""
    alpha = 100.0
    expected = np.sum(np.square(WEIGHTS)) / (16 * alpha**2)
    np.testing.assert_allclose(bias.hyperbolic_entropy(WEIGHTS, alpha), expected, rtol=1e-6)


def test_a_small_scale_gives_the_l1_norm_with_a_logarithm():
    """Oracle: R_α = ¼ Σ |w|(log(|w|/α²) − 1) + O(α²)."""
    alpha, size = 1e-5, np.abs(np.asarray([-3.0, -0.2, 0.7, 5.0]))
    weights = jnp.array([-3.0, -0.2, 0.7, 5.0])
    expected = np.sum(size * (np.log(size / alpha**2) - 1)) / 4
    np.testing.assert_allclose(bias.hyperbolic_entropy(weights, alpha), expected, rtol=1e-9)


def test_the_mirror_flow_moves_the_dual_variable_down_the_gradient():
    """Oracle: d/dt ∇R_α(w) = −∇L(w), by a Jacobian–vector product."""

    def loss(weights):
        return jnp.sum(jnp.cos(weights)) + weights @ weights

    velocity = bias.mirror_velocity(loss, WEIGHTS, 0.3)
    _, dual = jax.jvp(lambda w: bias.mirror_map(w, 0.3), (WEIGHTS,), (velocity,))
    np.testing.assert_allclose(dual, -jax.grad(loss)(WEIGHTS), rtol=1e-12)
