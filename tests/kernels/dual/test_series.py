"""Hermite series against integrals over the plane, and their stated error against closed forms."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import dual, quadrature_dual, quadrature_error
from theorylab.models import ACTIVATIONS
from theorylab.numerics import expectation2


def moments(variances=(0.0, 0.4, 1.3), correlations=(-1.0, -0.999, -0.4, 0.0, 0.3, 0.95, 1.0)):
    """All pairs of variances with all correlations, as three arrays."""
    grid = np.array(list(itertools.product(variances, variances, correlations)))
    q1, q2, rho = jnp.asarray(grid.T)
    return q1, q2, rho * jnp.sqrt(q1 * q2)


SLOPES = {
    "tanh": lambda z: 1 - jnp.tanh(z) ** 2,
    "sigmoid": lambda z: jax.nn.sigmoid(z) * jax.nn.sigmoid(-z),
    "softplus": jax.nn.sigmoid,
    "swish": lambda z: jax.nn.sigmoid(z) * (1 + z * jax.nn.sigmoid(-z)),
}


@pytest.mark.parametrize("name", SLOPES)
def test_series_are_integrals_over_the_plane(name):
    """Oracle: Gauss–Hermite quadrature in two dimensions, at every correlation; σ′ by hand."""
    q1, q2, c = moments()
    covariance = jnp.stack([jnp.stack([q1, c], -1), jnp.stack([c, q2], -1)], -1)
    # The poles of tanh are nearest; at ρ = ±1 and variance 1.3 the series leaves out 4e-12.
    for got, f in zip(dual(name, q1, q2, c), (ACTIVATIONS[name], SLOPES[name]), strict=True):
        expected = jax.jit(lambda f=f: expectation2(lambda u, v: f(u) * f(v), covariance, 120))()
        np.testing.assert_allclose(got, expected, atol=1e-10)


@pytest.mark.parametrize("name", ["tanh", "swish"])
def test_derivative_of_the_series_is_the_series_of_the_derivative(name):
    """Price's theorem, at ρ = ±1 too; and gradients are finite at variance 0."""
    q1, q2, c = moments()
    gradients = jax.jit(jax.grad(lambda *pair: dual(name, *pair).value.sum(), (0, 1, 2)))(q1, q2, c)
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    within = np.asarray(q1 * q2 > 0)
    derivative = dual(name, q1, q2, c).derivative
    np.testing.assert_allclose(gradients[2][within], derivative[within], atol=1e-7)


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
    """Oracle: the closed form of relu. Inside it is exact in the end, at ρ = 1 it lacks a tail."""
    one, rho = jnp.ones(3), jnp.array([-0.8, 0.5, 1.0])
    exact = dual("relu", one, one, rho)
    series = quadrature_dual(ACTIVATIONS["relu"], one, one, rho)
    stated = quadrature_error(ACTIVATIONS["relu"], one)
    for got, want, error in zip(series, exact, stated, strict=True):
        np.testing.assert_allclose(got[:2], want[:2], atol=1e-12)
        assert 1e-5 < error[2] < 0.02
        assert float(want[2] - got[2]) == pytest.approx(float(error[2]), rel=1e-8)


def test_polynomials_are_exact_in_few_terms():
    """Oracle: E u²v² = q₁q₂ + 2c²."""
    q1, q2, c = moments()
    value, derivative = quadrature_dual(jnp.square, q1, q2, c, num_terms=3)
    np.testing.assert_allclose(value, q1 * q2 + 2 * c**2, atol=1e-12)
    np.testing.assert_allclose(derivative, 4 * c, atol=1e-12)


def test_at_least_one_term():
    one = jnp.ones(())
    with pytest.raises(ValueError, match="num_terms must be at least 1, got 0"):
        quadrature_dual(jnp.tanh, one, one, one, num_terms=0)
