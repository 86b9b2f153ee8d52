import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from theorylab.numerics import expectation, expectation2, gauss_hermite


@pytest.mark.parametrize("num_nodes", [1, 5, 64, 200])
def test_moments_are_double_factorials(num_nodes):
    """Oracle: E z²ᵏ = (2k - 1)!! and odd moments 0, up to the degree 2n - 1 of exactness."""
    nodes, weights = gauss_hermite(num_nodes)
    for k in range(min(num_nodes, 8)):
        expected = special.factorial2(2 * k - 1) if k else 1.0
        np.testing.assert_allclose(weights @ nodes ** (2 * k), expected, rtol=1e-11)
        np.testing.assert_allclose(weights @ nodes ** (2 * k + 1), 0.0, atol=1e-10 * expected)


def test_expectation_scales_with_the_variance_and_keeps_its_shape():
    """Oracle: E u⁴ = 3v² and E cos u = e^(-v/2)."""
    variance = jnp.array([[0.0, 0.5], [1.0, 3.0]])
    np.testing.assert_allclose(expectation(lambda u: u**4, variance), 3 * variance**2, rtol=1e-12)
    np.testing.assert_allclose(expectation(jnp.cos, variance), jnp.exp(-variance / 2), rtol=1e-12)
    assert expectation(jnp.cos).shape == ()


def covariances() -> jax.Array:
    """Variances a and b with correlations ρ, the extreme ones among them."""
    a, b, rho = jnp.meshgrid(
        jnp.array([0.0, 0.3, 2.0]), jnp.array([0.0, 1.5]), jnp.array([-1.0, -0.4, 0.0, 0.9, 1.0])
    )
    c = rho * jnp.sqrt(a * b)
    return jnp.stack([jnp.stack([a, c], -1), jnp.stack([c, b], -1)], -2).reshape(-1, 2, 2)


def test_two_dimensions_agree_with_wick_and_the_characteristic_function():
    """Oracle: E u²v² = ab + 2c², E u³v = 3ac, E cos(u + 2v) = exp(-(a + 4c + 4b)/2)."""
    a, b, c = covariances()[:, 0, 0], covariances()[:, 1, 1], covariances()[:, 0, 1]
    functions = (
        lambda u, v: u**2 * v**2,
        lambda u, v: u**3 * v,
        lambda u, v: jnp.cos(u + 2 * v),
    )
    found = jax.jit(lambda s: [expectation2(f, s) for f in functions])(covariances())
    np.testing.assert_allclose(found[0], a * b + 2 * c**2, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found[1], 3 * a * c, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found[2], jnp.exp(-(a + 4 * c + 4 * b) / 2), atol=1e-11)


def test_erf_is_an_arcsine():
    """Oracle: Williams' E erf(u) erf(v) = (2/π) arcsin(2c / √((1 + 2a)(1 + 2b)))."""
    a, b, c = covariances()[:, 0, 0], covariances()[:, 1, 1], covariances()[:, 0, 1]
    expected = 2 / np.pi * jnp.arcsin(2 * c / jnp.sqrt((1 + 2 * a) * (1 + 2 * b)))
    found = expectation2(
        lambda u, v: jax.scipy.special.erf(u) * jax.scipy.special.erf(v), covariances(), 100
    )
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_relu_is_an_arc_cosine_up_to_the_error_of_a_kink():
    """Oracle: Cho and Saul's √(ab) (sin θ + (π - θ) cos θ)/2π; the error falls with the nodes."""
    a, b, c = covariances()[:, 0, 0], covariances()[:, 1, 1], covariances()[:, 0, 1]
    scale = jnp.sqrt(a * b)
    theta = jnp.arccos(jnp.clip(c / jnp.where(scale > 0, scale, 1.0), -1, 1))
    expected = scale * (jnp.sin(theta) + (np.pi - theta) * jnp.cos(theta)) / (2 * np.pi)

    def error(num_nodes):
        found = expectation2(
            lambda u, v: jnp.maximum(u, 0) * jnp.maximum(v, 0), covariances(), num_nodes
        )
        return float(jnp.abs(found - expected).max())

    assert error(100) < 2e-2 * float(scale.max())
    assert error(200) < 0.7 * error(100)


def test_the_two_arguments_are_not_exchanged():
    """Oracle: E u² = a, E v² = b."""
    covariance = jnp.array([[2.0, 0.1], [0.1, 0.5]])
    assert expectation2(lambda u, v: u**2, covariance) == pytest.approx(2.0, rel=1e-12)
    assert expectation2(lambda u, v: v**2, covariance) == pytest.approx(0.5, rel=1e-12)


def test_expectations_can_be_differentiated_inside():
    """Oracle: ∂E u⁴/∂v = 6v, and Price's theorem ∂E f/∂c = E ∂²f/∂u∂v for f = u²v²: 4c."""
    slope = jax.jit(jax.grad(lambda v: expectation(lambda u: u**4, v)))(2.0)
    assert slope == pytest.approx(12.0)
    covariance = jnp.array([[1.0, 0.3], [0.3, 1.0]])
    slope = jax.jit(jax.grad(lambda s: expectation2(lambda u, v: u**2 * v**2, s)))(covariance)
    assert slope[0, 1] + slope[1, 0] == pytest.approx(4 * 0.3)


def test_a_rule_needs_a_node():
    with pytest.raises(ValueError, match="num_nodes must be at least 1, got 0"):
        gauss_hermite(0)
