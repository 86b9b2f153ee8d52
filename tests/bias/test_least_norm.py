"""Least norms and pseudo-inverses, against NumPy, the defining identities and convex optimality."""

import jax.numpy as jnp
import numpy as np
import pytest

from theorylab import bias


def matrix(n, d, rank, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)))


@pytest.mark.parametrize(("n", "d", "rank"), [(4, 7, 4), (4, 7, 2), (6, 3, 3), (5, 5, 1)])
def test_the_pseudoinverse_is_that_of_numpy(n, d, rank):
    """Oracle: numpy.linalg.pinv, at full rank and below."""
    m = matrix(n, d, rank)
    expected = np.linalg.pinv(np.asarray(m), rcond=1e-12)
    np.testing.assert_allclose(bias.pseudoinverse(m), expected, rtol=1e-9, atol=1e-12)


def test_the_pseudoinverse_of_nothing_is_nothing():
    np.testing.assert_array_equal(bias.pseudoinverse(jnp.zeros((2, 3))), np.zeros((3, 2)))


def test_the_tolerance_says_what_counts_as_zero():
    m = jnp.diag(jnp.array([1.0, 1e-4]))
    np.testing.assert_allclose(bias.pseudoinverse(m), np.diag([1.0, 1e4]), rtol=1e-12)
    np.testing.assert_allclose(bias.pseudoinverse(m, tolerance=1e-3), np.diag([1.0, 0.0]))


def test_outside_the_row_space_is_what_no_equation_sees():
    """Oracles: X times it is 0; adding any combination of rows does not change it."""
    x, w = matrix(4, 7, 3), matrix(2, 7, 2, seed=1)
    outside = bias.outside_row_space(x, w)
    np.testing.assert_allclose(x @ outside.T, np.zeros((4, 2)), atol=1e-12)
    shifted = bias.outside_row_space(x, w + matrix(2, 4, 2, seed=2) @ x)
    np.testing.assert_allclose(shifted, outside, atol=1e-12)
    np.testing.assert_allclose(bias.outside_row_space(x, x), np.zeros((4, 7)), atol=1e-13)


def test_the_nearest_interpolant_is_the_nearest_of_all():
    """Oracle: the normal equations X(w − w₀) = y − Xw₀ with w − w₀ = Xᵀν."""
    x, start, y = matrix(3, 6, 3), matrix(1, 6, 1)[0], jnp.array([1.0, -2.0, 0.5])
    found = bias.nearest_interpolant(x, y, start)
    multipliers = np.linalg.solve(x @ x.T, y - x @ start)
    np.testing.assert_allclose(found, start + x.T @ multipliers, rtol=1e-11)
    from_zero = bias.nearest_interpolant(x, y, 0 * start)
    expected = bias.least_l2(np.asarray(x), np.asarray(y))
    np.testing.assert_allclose(from_zero, expected, rtol=1e-11)


def test_the_neumann_sum_goes_to_the_inverse():
    """Oracles: three terms by hand, (I − A)⁻¹ for ‖A‖ < 1."""
    a = matrix(4, 4, 4)
    a = 0.5 * a / jnp.linalg.norm(a, 2)
    three = np.eye(4) + a + a @ a
    np.testing.assert_allclose(bias.neumann_sum(a, 3), three, rtol=1e-13, atol=1e-14)
    inverse = np.linalg.inv(np.eye(4) - a)
    np.testing.assert_allclose(bias.neumann_sum(a, 60), inverse, rtol=1e-12, atol=1e-13)
    with pytest.raises(ValueError, match="num_terms must be at least 1, got 0"):
        bias.neumann_sum(a, 0)


def test_the_signs_solve_the_sign_consistent_equations():
    """Oracle: X sign(Xᵀy) = 4y, exactly; and the rows written out for two samples."""
    labels = jnp.array([1.0, -1.0, 1.0, 1.0, -1.0])
    x = bias.sign_consistent(labels)
    np.testing.assert_array_equal(x @ jnp.sign(x.T @ labels), 4 * labels)
    two = bias.sign_consistent(jnp.array([1.0, -1.0]))
    own, none = [1.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 5
    assert two.tolist() == [[1.0, 1.0, 1.0, *own, *none], [-1.0, 1.0, 1.0, *none, *[1.0] * 5]]
