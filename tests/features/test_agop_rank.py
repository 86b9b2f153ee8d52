"""Effective rank of the AGOP: closed forms, the exact AGOP, and the interval's coverage."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features import agop, agop_rank
from theorylab.features.agop_rank import rank_of_rows
from theorylab.features.split import look_ups

KEY = jax.random.key(0)
X = jax.random.normal(jax.random.key(1), (60, 5))


def test_a_single_index_network_has_rank_one():
    """Oracle: M = E[φ′²] wwᵀ."""
    w = jnp.arange(1.0, 6.0)[:, None]
    found = agop_rank(lambda w, x: jnp.tanh(x @ w), w, X, KEY)
    assert found.rank == pytest.approx(1.0, abs=1e-9)
    assert found.high == pytest.approx(1.0, abs=1e-9)
    unit = w[:, 0] / jnp.linalg.norm(w)
    np.testing.assert_allclose(jnp.abs(found.directions[:, 0]), unit, rtol=1e-9)
    np.testing.assert_allclose(found.shares[0], 1.0, rtol=1e-12)


def test_a_linear_network_has_the_rank_of_its_weights():
    """Oracle: M = WWᵀ at every input, so (Σσ²)²/Σσ⁴ without error."""
    w = jax.random.normal(KEY, (5, 3))
    found = agop_rank(lambda w, x: x @ w, w, X, KEY)
    squares = np.linalg.svd(w, compute_uv=False) ** 2
    expected = squares.sum() ** 2 / (squares**2).sum()
    np.testing.assert_allclose([found.rank, found.low, found.high], expected, rtol=1e-6)
    np.testing.assert_allclose(found.eigenvalues[:3], squares, rtol=1e-10)


@pytest.mark.parametrize("wide", [False, True])
def test_eigenvalues_are_those_of_the_exact_agop(wide):
    """Oracle: `agop`, with fewer and with more dimensions than gradients, in blocks."""
    x = jax.random.normal(KEY, (4 if wide else 30, 9))
    w = {"in": jax.random.normal(KEY, (9, 7)), "out": jax.random.normal(KEY, (7, 2))}
    network = lambda w, x: jnp.tanh(x @ w["in"]) @ w["out"]  # noqa: E731
    found = agop_rank(network, w, x, KEY, top=3, block_size=7)
    values, vectors = np.linalg.eigh(agop(network, w, x))
    np.testing.assert_allclose(found.eigenvalues, values[::-1][:3], rtol=1e-8)
    overlaps = np.abs(np.sum(np.asarray(found.directions) * vectors[:, ::-1][:, :3], axis=0))
    np.testing.assert_allclose(overlaps, 1.0, rtol=1e-8)
    np.testing.assert_allclose(found.trace, values.sum(), rtol=1e-9)


def test_random_combinations_of_many_outputs_agree_with_all():
    """Oracle: the rank of WWᵀ with 40 outputs, of which 2 combinations are taken at each input."""
    w = jax.random.normal(KEY, (5, 40)) * jnp.arange(1.0, 6.0)[:, None]
    found = agop_rank(lambda w, x: x @ w, w, jnp.tile(X, (5, 1)), KEY)
    squares = np.linalg.svd(w, compute_uv=False) ** 2
    assert found.num_rows == 2
    assert found.low <= squares.sum() ** 2 / (squares**2).sum() <= found.high
    assert found.high / found.low < 1.5


def test_the_interval_covers_the_rank_of_the_law():
    """Oracle: the rank of a known covariance; 95 % of 400 draws, within 3 standard errors."""
    rng = np.random.default_rng(0)
    scales = np.arange(1, 31) ** -0.5
    expected = (scales**2).sum() ** 2 / (scales**4).sum()
    hits = 0
    for _ in range(400):
        lengths = np.exp(0.3 * rng.standard_normal((80, 1, 1)))
        rows = lengths * rng.standard_normal((80, 2, 30)) * scales
        _, low, high = rank_of_rows(rows)
        hits += low <= expected <= high
    assert 0.918 <= hits / 400 <= 0.983


def test_few_inputs_have_no_interval():
    """Oracle: by definition."""
    found = agop_rank(lambda w, x: x @ w, jnp.ones((5, 2)), X[:8], KEY)
    assert np.isnan(found.low)
    assert found.rank == pytest.approx(1.0)


def test_arrays_in_which_tokens_look_up_rows():
    """Oracle: by hand; also inside a jitted function, and not where positions look up."""

    @jax.jit
    def network(w, ids):
        rows = jnp.take(w["net"]["tokens"], ids, axis=0) + w["places"][jnp.arange(3)][None]
        return rows.sum(axis=1)

    params = {"net": {"tokens": jnp.ones((7, 2))}, "places": jnp.ones((3, 2))}
    ids = jax.random.randint(KEY, (4, 3), 0, 7)
    assert look_ups(network, params, ids) == [("net", "tokens")]
