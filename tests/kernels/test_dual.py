"""Dual activations against integrals over the plane, and against each other."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf, expit

from theorylab.kernels import dual, quadrature_dual, quadrature_error
from theorylab.models import ACTIVATIONS


def normal_density(z):
    return np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def normal_distribution(z):
    return (1 + erf(z / math.sqrt(2))) / 2


# σ and σ′ once more, in NumPy and by hand.
SMOOTH = {
    "erf": (erf, lambda z: 2 / math.sqrt(math.pi) * np.exp(-(z**2))),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "sigmoid": (expit, lambda z: expit(z) * expit(-z)),
    "gelu": (
        lambda z: z * normal_distribution(z),
        lambda z: normal_distribution(z) + z * normal_density(z),
    ),
    "softplus": (lambda z: np.logaddexp(0, z), expit),
    "swish": (lambda z: z * expit(z), lambda z: expit(z) * (1 + z * expit(-z))),
    "sine": (np.sin, np.cos),
    "cosine": (np.cos, lambda z: -np.sin(z)),
    "square": (lambda z: z**2, lambda z: 2 * z),
    "cube": (lambda z: z**3, lambda z: 3 * z**2),
}
# The same with the degree of homogeneity of σ.
HOMOGENEOUS = {
    "identity": (1, lambda z: z, lambda z: z**0),
    "relu": (1, lambda z: np.maximum(z, 0), lambda z: 1.0 * (z > 0)),
    "leaky_relu": (1, lambda z: np.where(z > 0, z, z / 100), lambda z: np.where(z > 0, 1, 0.01)),
    "abs": (1, np.abs, np.sign),
    "relu_squared": (2, lambda z: np.maximum(z, 0) ** 2, lambda z: 2 * np.maximum(z, 0)),
}


def moments(variances=(0.0, 0.4, 1.3), correlations=(-1.0, -0.999, -0.4, 0.0, 0.3, 0.95, 1.0)):
    """All pairs of variances with all correlations, as three arrays."""
    grid = np.array(list(itertools.product(variances, variances, correlations)))
    q1, q2, rho = jnp.asarray(grid.T)
    return q1, q2, rho * jnp.sqrt(q1 * q2)


def plane(function, q1, q2, c):
    """Oracle for smooth σ: Gauss–Hermite quadrature in two dimensions, by Cholesky."""
    z, w = np.polynomial.hermite_e.hermegauss(120)
    q1, q2, c = (np.asarray(q)[:, None, None] for q in (q1, q2, c))
    along = np.where(q1 > 0, c / np.sqrt(np.where(q1 > 0, q1, 1)), 0.0)
    u = np.sqrt(q1) * z[None, :, None]
    v = along * z[None, :, None] + np.sqrt(np.maximum(q2 - along**2, 0)) * z[None, None, :]
    return (function(u) * function(v)) @ w @ w / (2 * math.pi)


def polar(function, degree, q1, q2, c):
    """Oracle for σ of a degree p of homogeneity: polar coordinates, cut at the kinks.

    u = r √q₁ cos φ and v = r √q₂ cos(φ − θ) with cos θ = ρ, and E r²ᵖ = 2ᵖ p!.
    """
    nodes, weights = np.polynomial.legendre.leggauss(20)
    theta = np.arccos(np.clip(c / np.sqrt(q1 * q2), -1, 1)) if q1 * q2 > 0 else np.pi / 2
    kinks = np.array([1, 3, 1 + 2 * theta / np.pi, 3 + 2 * theta / np.pi]) * np.pi / 2
    cuts = np.concatenate([[0], np.sort(np.mod(kinks, 2 * np.pi)), [2 * np.pi]])
    middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts) / 2
    phi = middle[:, None] + half[:, None] * nodes
    product = function(np.sqrt(q1) * np.cos(phi)) * function(np.sqrt(q2) * np.cos(phi - theta))
    mean = np.sum(half * (product @ weights)) / (2 * np.pi)
    return 2**degree * math.factorial(degree) * mean


def test_every_activation_has_its_oracle():
    assert set(SMOOTH) | set(HOMOGENEOUS) == set(ACTIVATIONS)


@pytest.mark.parametrize("name", SMOOTH)
def test_duals_of_smooth_activations_are_integrals_over_the_plane(name):
    """Closed forms (erf, sine, cosine) and Hermite series alike, at every correlation."""
    q1, q2, c = moments()
    function, slope = SMOOTH[name]
    value, derivative = dual(name, q1, q2, c)
    np.testing.assert_allclose(value, plane(function, q1, q2, c), atol=1e-10)
    # The poles of tanh are nearest; at ρ = ±1 and variance 1.3 the series leaves out 4e-12.
    np.testing.assert_allclose(derivative, plane(slope, q1, q2, c), atol=1e-10)


@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_duals_of_homogeneous_activations_are_integrals_over_the_angle(name):
    """Oracle: polar coordinates. Where a variance is 0, the slope at a kink is a convention."""
    degree, function, slope = HOMOGENEOUS[name]
    pairs = np.stack(moments(), axis=1)
    value, derivative = dual(name, *moments())
    expected = [polar(function, degree, *pair) for pair in pairs]
    np.testing.assert_allclose(value, expected, atol=1e-10)
    inner = pairs[:, :2].min(axis=1) > 0
    expected = [polar(slope, degree - 1, *pair) for pair in pairs[inner]]
    # At ρ = ±1, arccos makes √ε of a rounding.
    np.testing.assert_allclose(derivative[inner], expected, atol=1e-7)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_derivative_of_the_dual_is_the_dual_of_the_derivative(name):
    """Price's theorem: ∂/∂c E σ(u)σ(v) = E σ′(u)σ′(v); at ρ = ±1 too."""
    q1, q2, c = moments(variances=(0.4, 1.3))
    gradient = jax.jit(jax.grad(lambda c: dual(name, q1, q2, c).value.sum()))(c)
    np.testing.assert_allclose(gradient, dual(name, q1, q2, c).derivative, atol=1e-7)


@pytest.mark.parametrize("name", ["identity", "relu", "relu_squared", "erf", "sine", "tanh"])
def test_values_and_gradients_are_finite_at_the_edges(name):
    """Correlation ±1, a little beyond by rounding, and variance 0."""
    q1, q2, c = moments(correlations=(-1.0, 0.0, 1.0, 1.0 + 1e-15))

    def total(q1, q2, c):
        value, derivative = dual(name, q1, q2, c)
        return value.sum() + derivative.sum()

    value, gradients = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2)))(q1, q2, c)
    assert np.isfinite(value)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("name", ["relu", "erf", "tanh"])
def test_pairs_are_made_by_broadcasting_and_have_no_order(name):
    """Oracle: the pairs one after another, and in the other order."""
    q1, q2 = jnp.array([0.5, 1.0, 2.0]), jnp.array([0.3, 0.7])
    c = 0.4 * jnp.sqrt(jnp.multiply.outer(q1, q2))
    value, derivative = dual(name, q1[:, None], q2[None, :], c)
    pairs = dual(name, jnp.tile(q2, 3), jnp.repeat(q1, 2), c.ravel())
    np.testing.assert_allclose(value.ravel(), pairs.value, rtol=1e-13)
    np.testing.assert_allclose(derivative.ravel(), pairs.derivative, rtol=1e-13)


@pytest.mark.parametrize("num_terms", [8, 16])
def test_stated_error_bounds_what_the_series_leaves_out(num_terms):
    """Oracle: the closed form of erf. At ρ = 1 and equal variances the bound is the error."""
    q1, q2, c = moments(variances=(0.4, 1.3))
    exact = dual("erf", q1, q2, c)
    series = quadrature_dual(ACTIVATIONS["erf"], q1, q2, c, num_terms)
    tail1, tail2 = (quadrature_error(ACTIVATIONS["erf"], q, num_terms) for q in (q1, q2))
    rho = np.asarray(c / jnp.sqrt(q1 * q2))
    for got, want, first, second in zip(series, exact, tail1, tail2, strict=True):
        bound = np.sqrt(first * second) * np.abs(rho) ** num_terms
        assert np.all(np.abs(got - want) <= bound * (1 + 1e-6) + 1e-14)
        same = (q1 == q2) & (rho > 0.9999)
        np.testing.assert_allclose((want - got)[same], first[same], rtol=1e-6)


def test_a_kink_costs_the_series_what_it_says():
    """Oracle: the closed form of relu, ½ and ½ at ρ = 1, where the stated error is the error."""
    q = jnp.ones(1)
    series = quadrature_dual(ACTIVATIONS["relu"], q, q, q, num_terms=16)
    stated = quadrature_error(ACTIVATIONS["relu"], q, num_terms=16)
    for got, error in zip(series, stated, strict=True):
        assert 1e-4 < error[0] < 0.1
        assert 0.5 - got[0] == pytest.approx(float(error[0]), rel=0.05)


def test_polynomials_are_exact_in_few_terms():
    """Oracle: E u²v² = q₁q₂ + 2c²."""
    q1, q2, c = moments()
    value, derivative = quadrature_dual(jnp.square, q1, q2, c, num_terms=3)
    np.testing.assert_allclose(value, q1 * q2 + 2 * c**2, atol=1e-12)
    np.testing.assert_allclose(derivative, 4 * c, atol=1e-12)


@pytest.mark.parametrize("name", ["relu", "erf", "tanh"])
def test_single_precision_stays_single(name):
    low = dual(name, *(q.astype(jnp.float32) for q in moments()))
    high = dual(name, *moments())
    for got, want in zip(low, high, strict=True):
        assert got.dtype == jnp.float32
        np.testing.assert_allclose(got, want, atol=3e-4)  # √ε of single precision at ρ = ±1


def test_unknown_activation_is_refused_and_quadrature_named():
    one = jnp.ones(())
    with pytest.raises(ValueError, match=r"got 'swash'\. For any other .* quadrature_dual"):
        dual("swash", one, one, one)
    with pytest.raises(ValueError, match="num_terms must be at least 1, got 0"):
        quadrature_dual(jnp.tanh, one, one, one, num_terms=0)
