"""Families of activations against NumPy and SciPy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from theorylab.models import Activation, network
from theorylab.models.families import (
    ABReLU,
    Cosine,
    Erf,
    Exponential,
    GaussianActivation,
    Hermite,
    LeakyReLU,
    Monomial,
    Polynomial,
    RectifiedMonomial,
    Sine,
    normalised_exponential,
    rbf,
    sigmoid_like,
)
from theorylab.numerics import expectation

POINTS = np.linspace(-3, 3, 7)  # 0 is among them


@pytest.mark.parametrize(
    ("function", "formula"),
    [
        (LeakyReLU(0.2), lambda z: np.maximum(z, z / 5)),
        (ABReLU(-0.3, 1.4), lambda z: 1.4 * np.maximum(z, 0) - 0.3 * np.minimum(z, 0)),
        (Monomial(0), np.ones_like),
        (Monomial(4), lambda z: z * z * z * z),
        (RectifiedMonomial(3), lambda z: np.maximum(z, 0) ** 3),
        (Polynomial((2.0, 0.0, -1.0, 3.0)), lambda z: 2 - z**2 + 3 * z**3),
        (Hermite(0), np.ones_like),
        (Hermite(5), lambda z: special.eval_hermitenorm(5, z) / math.sqrt(120)),
        (Erf(0.7, 1.3, 0.2), lambda z: 0.7 * special.erf(1.3 * z) + 0.2),
        (Sine(1.2, 0.8, 0.3), lambda z: 1.2 * np.sin(0.8 * z + 0.3)),
        (Cosine(1.2, 0.8, 0.3), lambda z: 1.2 * np.cos(0.8 * z + 0.3)),
        (GaussianActivation(0.9, 0.6), lambda z: 0.9 * np.exp(-0.6 * z**2)),
        (Exponential(0.5, 0.4), lambda z: 0.5 * np.exp(0.4 * z)),
        (rbf(0.7), lambda z: np.sin(np.sqrt(1.4) * z) + np.cos(np.sqrt(1.4) * z)),
        (normalised_exponential(0.7), lambda z: np.exp(np.sqrt(0.7) * z - 0.7)),
    ],
)
def test_members_are_their_formulas(function, formula):
    points = jnp.asarray(POINTS)
    np.testing.assert_allclose(function(points), formula(POINTS), rtol=1e-12, atol=1e-12)
    assert function(points.astype(jnp.float32)).dtype == jnp.float32


def test_members_are_values():
    """Equal when equal: what has been compiled for one is found again for the other."""
    assert Hermite(3) == Hermite(3)
    assert Hermite(3) != Monomial(3)
    assert len({Sine(b=2.0), Sine(b=2.0), Sine(b=3.0)}) == 2
    assert Activation(Hermite(3)) == Activation(Hermite(3))


def test_a_member_stands_in_a_network():
    model = network(Activation(Monomial(3)), (2,))
    np.testing.assert_allclose(model.apply((), jnp.array([[2.0, -1.0]])), [[8.0, -1.0]])


@pytest.mark.parametrize("degree", [1, 4, 9])
def test_hermite_polynomials_are_normalised(degree):
    """E hₙ² = 1, and E hₙhₙ₋₂ = 0."""
    high, low = Hermite(degree), Hermite(max(degree - 2, 0))
    assert float(expectation(lambda z: high(z) ** 2)) == pytest.approx(1.0, abs=1e-10)
    assert float(expectation(lambda z: high(z) * low(z))) == pytest.approx(0.0, abs=1e-10)


def test_sigmoid_like_is_like_a_sigmoid():
    z = jnp.linspace(-6, 6, 200)
    assert float(jnp.abs(sigmoid_like()(z) - jax.nn.sigmoid(z)).max()) < 0.02


@pytest.mark.parametrize(
    ("function", "slope"), [(ABReLU(-0.3, 1.4), 1.4), (RectifiedMonomial(2), 0.0)]
)
def test_derivatives_at_kinks_are_as_stated(function, slope):
    assert jax.grad(function)(0.0) == slope


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Monomial(-1), "degree must be at least 0, got -1"),
        (lambda: RectifiedMonomial(-1), "degree must be at least 0, got -1"),
        (lambda: Hermite(-2), "degree must be at least 0, got -2"),
        (lambda: Polynomial(()), r"at least one number, got \(\)"),
        (lambda: GaussianActivation(b=-1.0), "b must be at least 0, got -1.0"),
        (lambda: rbf(0.0), "gamma must be positive and finite, got 0.0"),
        (lambda: normalised_exponential(-1.0), "gamma must be positive and finite, got -1.0"),
    ],
)
def test_what_is_no_member_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
