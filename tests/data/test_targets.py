"""Teachers: outputs against a second way to compute them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import (
    Gaussian,
    Hypercube,
    Sphere,
    chebyshev,
    linear_teacher,
    network_teacher,
    parity,
)

KEY = jax.random.key(5)


def test_a_linear_teacher_without_noise_is_a_matrix_product():
    weights = jnp.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])
    data = linear_teacher(KEY, Sphere(3), 4, weights)
    by_hand = [[x[0] - x[2], 2 * x[1] + x[2]] for x in np.asarray(data.x)]
    np.testing.assert_allclose(data.y, by_hand, rtol=1e-12)
    assert data.law.endswith("y = xW")


def test_noise_has_the_stated_variance_and_leaves_the_inputs():
    """Oracle: the sample variance of n normals has standard error σ²·√(2/n)."""
    n, noise, weights = 10_000, 0.5, jnp.ones((2, 1))
    noisy = linear_teacher(KEY, Gaussian((1.0, 2.0)), n, weights, noise)
    clean = linear_teacher(KEY, Gaussian((1.0, 2.0)), n, weights)
    np.testing.assert_array_equal(noisy.x, clean.x)
    errors = np.asarray(noisy.y - clean.y)
    assert abs(errors.var() - noise**2) < 5 * noise**2 * np.sqrt(2 / n)
    correlation = np.corrcoef(errors[:, 0], noisy.x[:, 0])[0, 1]
    assert abs(correlation) < 5 / np.sqrt(n)
    assert noisy.law.endswith("y = xW + 0.5 · N(0, 1)")


def test_a_network_teacher_answers_with_its_network():
    """Oracle: the linear teacher, as a network."""
    weights = jnp.array([[1.0], [-3.0]])
    network = network_teacher(KEY, Hypercube(2), 9, lambda w, x: x @ w, weights, noise=0.1)
    linear = linear_teacher(KEY, Hypercube(2), 9, weights, noise=0.1)
    np.testing.assert_array_equal(network.y, linear.y)
    assert "y = f(θ, x)" in network.law


@pytest.mark.parametrize("num_bits", [1, 3, 5])
def test_parity_counts_the_minus_signs_of_the_first_bits(num_bits):
    data = parity(KEY, 200, 5, num_bits)
    minus = np.sum(np.asarray(data.x)[:, :num_bits] < 0, axis=1)
    np.testing.assert_array_equal(data.y[:, 0], (-1.0) ** minus)


@pytest.mark.parametrize("degree", [0, 1, 5, 12])
@pytest.mark.parametrize("points", ["even", "chebyshev"])
def test_chebyshev_targets_are_cosines_of_multiple_angles(degree, points):
    """Oracle: T_k(x) = cos(k arccos x)."""
    data = chebyshev(20, degree, points)
    expected = np.cos(degree * np.arccos(np.asarray(data.x)))
    np.testing.assert_allclose(data.y, expected, atol=1e-12)
    assert float(data.x.min()) >= -1
    assert float(data.x.max()) <= 1


def test_bad_teachers_are_refused():
    with pytest.raises(ValueError, match=r"num_bits must be in \[1, dimension = 3\], got 4"):
        parity(KEY, 10, 3, 4)
    with pytest.raises(ValueError, match="noise must be at least 0 and finite, got -1"):
        linear_teacher(KEY, Sphere(2), 5, jnp.ones((2, 1)), noise=-1.0)
    with pytest.raises(ValueError, match="weights must have one row for each of 2 inputs"):
        linear_teacher(KEY, Sphere(2), 5, jnp.ones((3, 1)))
    with pytest.raises(ValueError, match="degree must be at least 0, got -1"):
        chebyshev(10, -1)
