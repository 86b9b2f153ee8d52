"""Tails of Gaussian series: diagonal cases by hand, frequencies by Monte Carlo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from theorylab.curvature import (
    columns_bound,
    form_bound,
    image_bound,
    series_bound,
    series_variance,
    worst_move,
)

KEY = jax.random.key(0)
MATRICES = jax.random.normal(KEY, (5, 3, 4))


def test_variance_is_the_larger_of_the_two():
    """Oracle: NumPy's products; a column and a row have different ones."""
    tall = np.ones((3, 4, 1))
    assert float(series_variance(jnp.asarray(tall))) == pytest.approx(12.0)
    left = sum(b @ b.T for b in np.asarray(MATRICES))
    right = sum(b.T @ b for b in np.asarray(MATRICES))
    expected = max(np.linalg.norm(left, 2), np.linalg.norm(right, 2))
    assert float(series_variance(MATRICES)) == pytest.approx(expected, rel=1e-12)


def test_a_form_fails_with_the_normal_tail():
    """Oracle: P(|z| > t) of one normal number, below the bound; the move adds ‖b‖R exactly."""
    bound = form_bound(jnp.array([0.6, 0.8]), 2.0, 3.0)
    assert float(bound.value) == pytest.approx(5.0)
    assert 2 * norm.sf(2.0) < float(bound.failure) == pytest.approx(2 * np.exp(-2))


def test_bounds_hold_as_often_as_they_say():
    """Monte Carlo, 2000 draws, at a stated failure of a tenth or less."""
    draws = jax.random.normal(jax.random.key(1), (2000, 5, 4))

    def norms(a):
        image = jnp.linalg.norm(MATRICES[0] @ a[0])
        columns = jnp.linalg.norm(jnp.einsum("nkd,nd->kn", MATRICES, a), 2)
        coefficients = a[:, 0] + worst_move(MATRICES, a[:, 0], 2.0)
        series = jnp.linalg.norm(jnp.einsum("n,nkd->kd", coefficients, MATRICES), 2)
        return image, columns, series

    image, columns, series = jax.jit(jax.vmap(norms))(draws)
    t = float(jnp.sqrt(2 * jnp.log(70.0) * series_variance(MATRICES)))
    for values, bound in (
        (image, image_bound(MATRICES[0], 2.2 * float(jnp.linalg.norm(MATRICES[0], 2)))),
        (columns, columns_bound(MATRICES, 1.8)),
        (series, series_bound(MATRICES, t, 2.0)),
    ):
        assert float((values > bound.value).mean()) <= float(bound.failure) <= 0.101


def test_the_worst_move_adds_all_that_it_can_to_a_series_of_one_direction():
    """Oracle: Bₖ = bₖ M: ‖Σ (γₖ + Δₖ)bₖM‖ = (|γᵀb| + R‖b‖)‖M‖ = |γᵀb|‖M‖ + R√ν."""
    b, gamma = jnp.array([1.0, -2.0, 2.0]), jnp.array([0.3, 0.1, -0.4])
    matrices = b[:, None, None] * jnp.diag(jnp.array([1.0, 0.5]))[None]
    moved = gamma + worst_move(matrices, gamma, 2.0)
    found = jnp.linalg.norm(jnp.einsum("n,nij->ij", moved, matrices), 2)
    assert float(jnp.linalg.norm(moved - gamma)) == pytest.approx(2.0)
    assert float(found) == pytest.approx(float(abs(gamma @ b)) + 2.0 * 3.0, rel=1e-12)
    assert float(series_bound(matrices, 1.0, 2.0).value) == pytest.approx(1.0 + 2.0 * 3.0)
