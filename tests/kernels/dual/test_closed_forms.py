"""Closed forms against fifty digits, integrals over the plane, and each other."""

import itertools
import json
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import dual
from theorylab.kernels.dual.closed_forms import closed_form
from theorylab.models import ACTIVATIONS
from theorylab.models.families import (
    GELU,
    ABReLU,
    Abs,
    Cosine,
    Erf,
    Exponential,
    Gabor,
    GaussianActivation,
    Hermite,
    Identity,
    LeakyReLU,
    Monomial,
    Polynomial,
    RectifiedMonomial,
    ReLU,
    Sign,
    Sine,
    normalised_exponential,
    rbf,
)
from theorylab.numerics import expectation2

FIFTY = json.loads(Path(__file__).with_name("values.json").read_text())  # by make_values.py
SMOOTH = [
    Erf(),
    Erf(0.7, 1.3, 0.2),
    GELU(),
    Sine(1.2, 0.8, 0.3),
    Cosine(1.2, 0.8, 0.3),
    rbf(0.7),
    GaussianActivation(0.9, 0.6),
    Exponential(0.5, 0.4),
    Gabor(),
    Monomial(0),
    Monomial(5),
    Polynomial((0.25, -0.5, 0.375, 0.125)),
    Hermite(0),
    Hermite(3),
    Hermite(6),
    Identity(),
]
BENT = {  # the degree of homogeneity
    ReLU(): 1,
    LeakyReLU(0.2): 1,
    ABReLU(-0.25, 1.5): 1,
    Abs(): 1,
    RectifiedMonomial(1): 1,
    RectifiedMonomial(2): 2,
    RectifiedMonomial(5): 5,
}
JUMPS = {Sign(): 0, RectifiedMonomial(0): 0}
EVERY = [*SMOOTH, *BENT, *JUMPS]


def pairs(variances, correlations):
    grid = np.array(list(itertools.product(variances, variances, correlations)))
    q1, q2, rho = jnp.asarray(grid.T)
    return q1, q2, rho * jnp.sqrt(q1 * q2)


INSIDE = pairs((0.4, 1.0, 1.3), (-0.999, -0.4, 0.0, 0.3, 0.95))
EDGES = pairs((0.0, 0.4, 1.3), (-1.0, 0.0, 1.0, 1.0 + 1e-15))


class Measured(NamedTuple):
    value: np.ndarray
    derivative: np.ndarray
    value_gradients: tuple[np.ndarray, ...]  # in q₁, q₂, c
    derivative_gradients: tuple[np.ndarray, ...]


@lru_cache
def measured(function):
    """The dual and its gradients on all pairs, those inside first: compiled once."""

    def total(index, *pair):
        dualed = dual(function, *pair)
        return dualed[index].sum(), dualed

    def everything(*pair):
        (_, dualed), first = jax.value_and_grad(total, (1, 2, 3), has_aux=True)(0, *pair)
        second, _ = jax.grad(total, (1, 2, 3), has_aux=True)(1, *pair)
        return Measured(dualed.value, dualed.derivative, first, second)

    both = [jnp.concatenate(each) for each in zip(INSIDE, EDGES, strict=True)]
    return jax.tree.map(np.asarray, jax.jit(everything)(*both))


def inside(array):
    return array[: len(INSIDE[0])]


@pytest.mark.parametrize("name", FIFTY["values"])
def test_fifty_digits(name):
    """At variance 0 and correlation ±1 too; the integrals were not made with closed forms."""
    q1, q2, rho = np.array(FIFTY["pairs"], float).T
    pair = (q1, q2, rho * np.sqrt(q1 * q2))
    got = dual(eval(name), *map(jnp.asarray, pair))
    expected = np.array(FIFTY["values"][name], float)
    for numbers, digits in zip(got, expected.T, strict=True):
        rounding = 1e-15 * max(1.0, float(np.abs(digits).max()))
        np.testing.assert_allclose(numbers, digits, rtol=1e-13, atol=rounding)


@pytest.mark.parametrize("function", SMOOTH, ids=repr)
def test_smooth_duals_are_integrals_over_the_plane(function):
    """Oracle: Gauss–Hermite quadrature in two dimensions, σ′ by automatic differentiation."""
    q1, q2, c = INSIDE
    covariance = jnp.stack([jnp.stack([q1, c], -1), jnp.stack([c, q2], -1)], -1)

    def slope(z):
        return jax.jvp(function, (z,), (jnp.ones_like(z),))[1]

    @jax.jit
    def integrals():
        return [
            expectation2(lambda u, v, f=f: f(u) * f(v), covariance, 140) for f in (function, slope)
        ]

    value, derivative = integrals()
    np.testing.assert_allclose(inside(measured(function).value), value, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        inside(measured(function).derivative), derivative, rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("function", [*SMOOTH, *BENT], ids=repr)
def test_derivative_of_the_dual_is_the_dual_of_the_derivative(function):
    """Price's theorem: ∂/∂c E σ(u)σ(v) = E σ′(u)σ′(v); at the edges too."""
    got = measured(function)
    scale = 1 + np.abs(got.derivative)
    np.testing.assert_allclose(got.value_gradients[2] / scale, got.derivative / scale, atol=1e-12)


@pytest.mark.parametrize(
    "function", [GELU(), Gabor(), Erf(0.7, 1.3, 0.2), Hermite(6), ReLU()], ids=repr
)
def test_gradients_are_differences(function):
    """Oracle: central differences of value and derivative in q₁, q₂ and c."""
    got = measured(function)
    for index in range(3):
        shifted = [
            dual(function, *(q + sign * 1e-5 * (k == index) for k, q in enumerate(INSIDE)))
            for sign in (1, -1)
        ]
        away = np.abs(INSIDE[2]) < 0.99 * np.sqrt(INSIDE[0] * INSIDE[1])
        for gradients, up, down in zip(got[2:], *shifted, strict=True):
            expected = (up - down) / 2e-5
            np.testing.assert_allclose(
                inside(gradients[index])[away], expected[away], rtol=1e-7, atol=1e-8
            )


@pytest.mark.parametrize("function", [*BENT, *JUMPS], ids=repr)
def test_bent_duals_are_homogeneous(function):
    """Euler: q₁∂₁ + q₂∂₂ + c∂ of E σσ is p E σσ, and p − 1 times for E σ′σ′."""
    got, degree = measured(function), {**BENT, **JUMPS}[function]
    for value, gradients, power in (
        (got.value, got.value_gradients, degree),
        (got.derivative, got.derivative_gradients, degree - 1),
    ):
        euler = sum(q * inside(g) for q, g in zip(INSIDE, gradients, strict=True))
        np.testing.assert_allclose(euler, power * inside(value), atol=1e-10)


@pytest.mark.parametrize("function", EVERY, ids=repr)
def test_everything_is_finite_at_the_edges(function):
    """Correlation ±1, a little beyond by rounding, and variance 0."""
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(measured(function)))


@pytest.mark.parametrize("degree", [1, 2, 3, 7])
def test_hermite_duals_are_powers_of_the_correlation(degree):
    """At variance 1: E hₙ(u)hₙ(v) = ρⁿ, E hₙ′(u)hₙ′(v) = nρⁿ⁻¹."""
    one, rho = jnp.ones(9), jnp.linspace(-1, 1, 9)
    value, derivative = dual(Hermite(degree), one, one, rho)
    np.testing.assert_allclose(value, rho**degree, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(derivative, degree * rho ** (degree - 1), rtol=1e-13, atol=1e-15)


def test_named_kernels():
    """rbf: exp(−γ E(u − v)²); the normalised exponential: exp(γ(ρ − 1)) at variance 1."""
    q1, q2, c = INSIDE
    distance = q1 + q2 - 2 * c
    np.testing.assert_allclose(dual(rbf(0.7), q1, q2, c).value, np.exp(-0.7 * distance), rtol=1e-13)
    one, rho = jnp.ones(9), jnp.linspace(-1, 1, 9)
    value = dual(normalised_exponential(0.7), one, one, rho).value
    np.testing.assert_allclose(value, np.exp(0.7 * (rho - 1)), rtol=1e-13)


def test_arc_cosine_kernels_are_those_of_cho_and_saul():
    """J₂(θ) = 3 sin θ cos θ + (π − θ)(1 + 2cos²θ), over 2π and for unit variances."""
    theta = np.linspace(0.1, 3.0, 9)
    one, rho = jnp.ones(9), jnp.asarray(np.cos(theta))
    expected = 3 * np.sin(theta) * np.cos(theta) + (np.pi - theta) * (1 + 2 * np.cos(theta) ** 2)
    value = dual(RectifiedMonomial(2), one, one, rho).value
    np.testing.assert_allclose(value, expected / (2 * np.pi), rtol=1e-11)


def test_who_has_a_closed_form():
    named = {name for name, function in ACTIVATIONS.items() if closed_form(function) is None}
    assert named == {"tanh", "sigmoid", "softplus", "swish", "silu"}
    assert all(closed_form(function) for function in EVERY)
