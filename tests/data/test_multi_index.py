import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import MultiIndex, quadratic_index
from theorylab.numerics import gauss_hermite

LAW = MultiIndex(
    dimension=3,
    degrees=((0, 0), (1, 0), (2, 0), (1, 1), (0, 3), (2, 1)),
    coefficients=(0.3, -0.5, 0.7, 0.4, 1.0, -0.6),
)


def test_moments_are_those_of_quadrature():
    """Oracle: Gauss and Hermite's rule, exact for this degree, and Stein's E[g*(xxᵀ − I)]."""
    nodes, weights = map(np.asarray, gauss_hermite(8))
    x = np.stack(np.meshgrid(nodes, nodes, [0.0], indexing="ij"), axis=-1).reshape(-1, 3)
    chances = np.outer(weights, weights).ravel()
    values = np.asarray(LAW(jnp.asarray(x)))
    np.testing.assert_allclose(chances @ values**2, 1.0, rtol=1e-12)
    np.testing.assert_allclose(chances @ values, LAW.mean, atol=1e-12)
    np.testing.assert_allclose((chances * values) @ x, LAW.slope, atol=1e-12)
    second = (chances * values)[:, None] * x
    stein = second.T @ x - LAW.mean * np.eye(3)
    np.testing.assert_allclose(stein[:2, :2], LAW.hessian[:2, :2], atol=1e-12)
    assert np.all(np.asarray(LAW.hessian)[2] == 0)


def test_samples_have_the_values_of_the_polynomial():
    """Oracle: He₂ and He₃ written out."""
    law = MultiIndex(2, ((2,), (3,)), (3.0, 4.0))
    data = law.sample(jax.random.key(0), 20)
    u = np.asarray(data.x[:, 0])
    expected = 0.6 * (u**2 - 1) / np.sqrt(2) + 0.8 * (u**3 - 3 * u) / np.sqrt(6)
    np.testing.assert_allclose(data.y[:, 0], expected, rtol=1e-10, atol=1e-12)


def test_the_quadratic_one_has_equal_curvature_in_all_directions():
    hessian = quadratic_index(4, 2).hessian
    np.testing.assert_allclose(hessian, np.diag([1.0, 1.0, 0.0, 0.0]), atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiIndex(3, ((2,), (1, 1)), (1.0, 1.0)), "terms of equally many"),
        (lambda: MultiIndex(3, ((2,), (2,)), (1.0, 1.0)), "different and at least 0"),
        (lambda: MultiIndex(3, ((2,),), (0.0,)), "not all 0"),
        (lambda: MultiIndex(3, ((200,),), (1.0,)), "at most 20"),
        (lambda: quadratic_index(1, 2), "dimension must be at least 2, got 1"),
    ],
)
def test_impossible_polynomials_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
