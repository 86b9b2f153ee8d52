"""Spectra of zonal kernels: dimensions, polynomials, eigenvalues, and the kernel from them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from theorylab.data import sphere
from theorylab.kernels import zonal
from theorylab.numerics import power_law_exponents

COSINES = jnp.linspace(-1.0, 1.0, 41)


def two_layer(t):
    """The tangent kernel of one hidden ReLU layer without biases, weights of variance 2/fan-in."""
    angle = jnp.arccos(jnp.clip(t, -1.0, 1.0))
    return (2 * t * (jnp.pi - angle) + jnp.sin(angle)) / jnp.pi


def with_bias(t):
    """The same, and the part of the first layer's biases."""
    return two_layer(t) + (jnp.pi - jnp.arccos(jnp.clip(t, -1.0, 1.0))) / jnp.pi


@pytest.mark.parametrize("p", [2, 3, 4, 7])
def test_number_of_harmonics_is_that_of_the_textbook(p):
    """Oracle: the formula (2k + p − 2)/k · binomial(k + p − 3, p − 2)."""
    for k in range(1, 12):
        expected = (2 * k + p - 2) * math.comb(k + p - 3, p - 2) / k
        assert zonal.num_harmonics(p, k) == expected
    assert zonal.num_harmonics(p, 0) == 1


def test_area_of_known_spheres():
    assert zonal.area(2) == pytest.approx(2 * math.pi, rel=1e-15)
    assert zonal.area(4) == pytest.approx(2 * math.pi**2, rel=1e-15)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_polynomials_are_those_of_scipy(p):
    """Oracle: Chebyshev's, and Gegenbauer's C of index (p − 2)/2 over its value at 1."""
    ours = zonal.gegenbauer(p, 9, COSINES)
    t = np.asarray(COSINES)
    for k in range(9):
        if p == 2:
            expected = special.eval_chebyt(k, t)
        else:
            index = (p - 2) / 2
            expected = special.eval_gegenbauer(k, index, t) / special.eval_gegenbauer(k, index, 1.0)
        np.testing.assert_allclose(ours[k], expected, atol=1e-13)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_mercer_gives_the_kernel_back(p):
    """A kernel that is a polynomial has finitely many eigenvalues; the sum is exact."""

    def profile(t):
        return 0.3 + t - 0.7 * t**3 + t**4

    eigenvalues = zonal.zonal_spectrum(profile, p, 7, num_nodes=32)
    np.testing.assert_allclose(zonal.mercer(eigenvalues, p, COSINES), profile(COSINES), atol=1e-13)
    np.testing.assert_allclose(eigenvalues[5:], 0, atol=1e-14)


def test_exponential_on_the_sphere_has_bessel_eigenvalues():
    """Oracle: E exp(ct) Pₖ(t) is I_k(c) on the circle, and i_k(c), the spherical one, on S²."""
    k = np.arange(8)
    circle = zonal.zonal_spectrum(lambda t: jnp.exp(1.5 * t), 2, 8, 64)
    np.testing.assert_allclose(circle, special.iv(k, 1.5), rtol=1e-9, atol=1e-15)
    ball = zonal.zonal_spectrum(lambda t: jnp.exp(1.5 * t), 3, 8, 64)
    np.testing.assert_allclose(ball, special.spherical_in(k, 1.5), rtol=1e-9, atol=1e-15)


def test_relu_tangent_kernel_on_the_circle_has_the_known_eigenvalues():
    """Oracle: the integrals by hand, λ₀ = 3·2/π² · ½, λ₁ = ½, λₖ = 2(k² + 3)/(π²(k² − 1)²), k even.

    Of sin θ/π: (1 + cos kπ)/(π²(1 − k²)); of (1 − θ/π) cos θ: the mean of ψ(k − 1) and ψ(k + 1)
    with ψ(j) = (1 − cos jπ)/(π²j²), the transform of 1 − θ/π.
    """
    ours = zonal.zonal_spectrum(two_layer, 2, 20, 128)

    def psi(j):
        return 0.5 if j == 0 else (1 - math.cos(j * math.pi)) / (math.pi * j) ** 2

    for k in range(20):
        sine = 0.0 if k == 1 else (1 + math.cos(k * math.pi)) / (math.pi**2 * (1 - k**2))
        assert ours[k] == pytest.approx(psi(k - 1) + psi(k + 1) + sine, abs=1e-13)


@pytest.mark.parametrize("p", [2, 3, 4])
def test_odd_degrees_vanish_without_biases_only(p):
    """Oracle: parity, as the odd part of the kernel is a multiple of t; and −p is the slope.

    In k + (p − 2)/2, in which the eigenvalues of the Laplacian are even.
    """
    bare = zonal.zonal_spectrum(two_layer, p, 65, 256)
    np.testing.assert_allclose(bare[3::2], 0, atol=1e-13)
    k = jnp.arange(16.0, 65.0, 2) + (p - 2) / 2
    (even,) = power_law_exponents(k, bare[None, 16::2])
    assert even == pytest.approx(-p, abs=0.03)
    odd = zonal.zonal_spectrum(with_bias, p, 65, 256)[17::2]
    assert odd.min() > 1e-8


def test_gram_matrix_of_equidistant_points_has_the_circle_spectrum():
    """Oracle: eigenvalues by LAPACK; m times those of the Fourier transform, each k > 0 twice."""
    m = 24
    angles = 2 * jnp.pi * jnp.arange(m) / m
    gram = two_layer(jnp.cos(angles[:, None] - angles[None, :]))
    spectrum = np.asarray(zonal.circle_spectrum(two_layer(jnp.cos(angles))))
    expected = m * np.concatenate([spectrum, spectrum[1:-1]])
    np.testing.assert_allclose(np.linalg.eigvalsh(gram), np.sort(expected), atol=1e-12)


def test_circle_spectrum_adds_the_aliases():
    """Oracle: eigenvalues r^|k| of Poisson's kernel, and their sum over j = k modulo m by hand.

    Σ r^|j| over such j is (r^k + r^(m−k))/(1 − r^m).
    """
    m, r = 12, 0.7
    angles = 2 * jnp.pi * jnp.arange(m) / m
    values = (1 - r**2) / (1 - 2 * r * jnp.cos(angles) + r**2)
    k = np.arange(m // 2 + 1)
    expected = (r**k + r ** (m - k)) / (1 - r**m)
    np.testing.assert_allclose(zonal.circle_spectrum(values), expected, rtol=1e-12)
    exact = zonal.zonal_spectrum(lambda t: (1 - r**2) / (1 - 2 * r * t + r**2), 2, 7, 128)
    np.testing.assert_allclose(exact, r**k, rtol=1e-12)


def test_gram_eigenvalues_of_random_points_go_to_m_times_the_spectrum():
    """The sum over a degree's harmonics, to five standard errors of the sampling (about 1/√m)."""
    m, p = 600, 3
    x = sphere(jax.random.key(0), m, p)
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    found = np.linalg.eigvalsh(two_layer(x @ x.T))[::-1] / m
    exact = zonal.zonal_spectrum(two_layer, p, 3, 64)
    assert found[:3].sum() + found[3] == pytest.approx(float(exact[0] + 3 * exact[1]), rel=0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: zonal.num_harmonics(1, 2), "dimension must be at least 2, got 1"),
        (lambda: zonal.num_harmonics(3, -1), "degree must be at least 0, got -1"),
        (lambda: zonal.gegenbauer(3, 0, COSINES), "num_degrees must be at least 1, got 0"),
        (lambda: zonal.zonal_spectrum(two_layer, 3, 9, 9), "num_nodes must be more than num_deg"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
