"""The angle of a Gaussian pair against NumPy, at rounding."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels.dual.pair import angle, determinant, folded

SINES = np.concatenate(
    [
        np.linspace(-0.999, 0.999, 4001),
        [-0.5, 0.5, np.nextafter(0.5, 1), 0.0, 1e-30, -1e-9],
        1 - np.logspace(-14, -2, 50),
        np.logspace(-12, -1, 50) - 1,
    ]
)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_arcsine_and_cosine_are_those_of_numpy(precision):
    """Relative errors of a few roundings, near 0 and near ±1 too."""
    sines = SINES.astype(precision)
    exact = sines.astype("float64")
    rounding = float(np.finfo(precision).eps)
    inside = 1 - np.abs(exact) > 16 * rounding  # nearer, it counts as ±1
    arcsine, cosine = (np.asarray(each)[inside] for each in jax.jit(angle)(jnp.asarray(sines)))
    assert arcsine.dtype == cosine.dtype == precision
    np.testing.assert_allclose(arcsine, np.arcsin(exact[inside]), rtol=3 * rounding)
    expected = np.sqrt((1 - exact[inside]) * (1 + exact[inside]))
    np.testing.assert_allclose(cosine, expected, rtol=3 * rounding)


def test_from_one_on_the_angle_is_a_right_one_and_its_derivative_zero():
    sines = jnp.array([-1.5, -1.0, 1.0, 1.0 + 1e-15, 1 - 2e-16, 2.0])
    (arcsine, cosine), changes = jax.jvp(angle, (sines,), (jnp.ones(6),))
    np.testing.assert_array_equal(arcsine, np.sign(sines) * math.pi / 2)
    for zero in (cosine, *changes):
        np.testing.assert_array_equal(zero, np.zeros(6))


def test_what_is_not_a_number_stays_so():
    assert all(bool(jnp.isnan(each)) for each in angle(jnp.asarray(jnp.nan)))


def test_derivatives_of_the_angle():
    """Closed forms: arcsin′ = 1/√(1 − s²), cos arcsin has −s/√(1 − s²); and once more."""
    sines = jnp.array([-0.97, -0.3, 0.0, 0.45, 0.8])
    root = np.sqrt(1 - sines**2)

    def first(s):
        return jax.jvp(angle, (s,), (jnp.ones_like(s),))[1]

    (slope, turn), (second, _) = jax.jit(lambda s: jax.jvp(first, (s,), (jnp.ones(5),)))(sines)
    np.testing.assert_allclose(slope, 1 / root, rtol=1e-13)
    np.testing.assert_allclose(turn, -sines / root, rtol=1e-13)
    np.testing.assert_allclose(second, sines / root**3, rtol=1e-12)


def test_derivatives_of_the_folded_pair():
    """Oracle: central differences, in every direction; and again for the second derivatives."""
    point, step = jnp.array([0.7, 1.3, 0.4]), 1e-5

    def both(p):
        return jnp.stack(folded(*p))

    for function in (both, jax.jacfwd(both)):
        function = jax.jit(function)
        got = jax.jit(jax.jacfwd(function))(point)
        for index in range(3):
            shift = step * jnp.eye(3)[index]
            expected = (function(point + shift) - function(point - shift)) / (2 * step)
            np.testing.assert_allclose(got[..., index], expected, rtol=1e-8, atol=1e-9)


def test_second_derivatives_are_finite_at_the_edges():
    """At variance 0 and correlation ±1."""
    points = jnp.array([(0.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 1.0, 1.0), (4.0, 1.0, -2.0)])
    hessian = jax.jacfwd(jax.jacfwd(lambda p: jnp.stack(folded(*p))))
    assert np.isfinite(jax.jit(jax.vmap(hessian))(points)).all()


def test_determinant_is_that_of_the_matrix():
    """Oracle: NumPy; and at least 1, whatever rounding makes of equal inputs."""
    q1, q2, c = jnp.array([0.4, 2.0]), jnp.array([1.3, 0.0]), jnp.array([-0.5, 0.0])
    matrices = np.array([[[0.4, -0.5], [-0.5, 1.3]], [[2.0, 0.0], [0.0, 0.0]]])
    expected = np.linalg.det(np.eye(2) + 1.7 * matrices)
    np.testing.assert_allclose(determinant(1.7, q1, q2, c), expected, rtol=1e-13)
    huge = jnp.asarray(3e9, jnp.float32)
    assert determinant(2.0, huge, huge, huge * 1.0000001) >= 1
