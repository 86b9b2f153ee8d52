from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.numerics import (
    eigenpairs,
    extreme_eigenvalues,
    lanczos,
    power_iteration,
    top_eigenvalues,
)

SIZE = 40
KEY = jax.random.key(0)
SPECTRA = {
    "even": np.linspace(-1, 2, SIZE),
    "clustered": np.concatenate([5 + 1e-3 * np.arange(4), 0.1 * np.linspace(-1, 1, SIZE - 4)]),
    "paired": np.concatenate([np.arange(1, 21), -np.arange(1, 21)]) / 4,
    "negative": np.concatenate([[-9.0, -4.0], np.linspace(0, 1, SIZE - 2)]),
    "decaying": 2.0 ** -np.arange(SIZE),
}


def symmetric(values, seed: int = 0) -> jax.Array:
    """A dense matrix with these eigenvalues in a random basis."""
    basis, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values),) * 2))
    return jnp.asarray((basis * values) @ basis.T)


@partial(jax.jit, static_argnames=("k", "num_steps", "which"))
def pairs_of(matrix, k, num_steps, which="largest", key=KEY):
    return eigenpairs(lambda v: matrix @ v, len(matrix), k, num_steps, key, which)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("which", ["largest", "smallest", "magnitude"])
def test_all_steps_give_the_dense_spectrum(spectrum, which):
    """Oracle: numpy's dense eigenvalues, ordered by hand."""
    matrix = symmetric(SPECTRA[spectrum])
    values = np.linalg.eigvalsh(matrix)
    order = {"largest": -values, "smallest": values, "magnitude": -np.abs(values)}[which]
    expected = values[np.argsort(order)][:6]
    found = pairs_of(matrix, 6, SIZE, which)
    scale = np.abs(values).max()
    if which == "magnitude":  # of ± pairs either may come first
        found_values, expected = np.abs(found.values), np.abs(expected)
    else:
        found_values = found.values
    np.testing.assert_allclose(found_values, expected, atol=1e-12 * scale)
    np.testing.assert_allclose(found.residuals, 0, atol=1e-12 * scale)
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(6), atol=1e-11)


@pytest.mark.parametrize("spectrum", ["clustered", "negative", "decaying"])
def test_few_steps_suffice_for_what_stands_out_and_the_residual_bounds_the_error(spectrum):
    """Oracle: the dense spectrum; an eigenvalue lies within each residual."""
    matrix = symmetric(SPECTRA[spectrum])
    found = pairs_of(matrix, 2, 12, "magnitude")
    distance = np.abs(np.linalg.eigvalsh(matrix)[:, None] - found.values).min(axis=0)
    assert (distance <= found.residuals + 1e-12).all()
    assert found.values[0] == pytest.approx(max(SPECTRA[spectrum], key=abs), rel=1e-4)
    by_definition = np.linalg.norm(
        found.vectors @ matrix - found.values[:, None] * found.vectors, axis=1
    )
    np.testing.assert_allclose(found.residuals, by_definition, rtol=1e-6, atol=1e-12)


def test_signed_extremes_of_a_paired_and_of_a_negative_spectrum():
    """Oracle: the spectra themselves; power iteration fails on the first, and says so."""
    for spectrum in ("paired", "negative"):
        matrix, values = symmetric(SPECTRA[spectrum]), SPECTRA[spectrum]
        smallest, largest = extreme_eigenvalues(lambda v, a=matrix: a @ v, SIZE, SIZE, KEY)
        np.testing.assert_allclose([smallest, largest], [min(values), max(values)], rtol=1e-12)
    matrix, start = symmetric(SPECTRA["paired"]), jnp.ones(SIZE)
    assert power_iteration(lambda v: matrix @ v, start, 200).residuals > 1.0


def test_lanczos_is_an_orthonormal_tridiagonalisation():
    """Oracle: the definition, QᵀQ = 1 and QᵀAQ = T, after many steps in a clustered spectrum."""
    matrix = symmetric(SPECTRA["clustered"])
    basis, diagonal, off_diagonal = lanczos(lambda v: matrix @ v, jnp.ones(SIZE), 30, KEY)
    np.testing.assert_allclose(basis @ basis.T, np.eye(30), atol=1e-13)
    small = np.diag(diagonal) + np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1)
    np.testing.assert_allclose(basis @ matrix @ basis.T, small, atol=1e-12)
    np.testing.assert_allclose(basis[0], np.ones(SIZE) / np.sqrt(SIZE), rtol=1e-12)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_low_rank_operators_close_the_krylov_space_without_harm(rank):
    """Oracle: the eigenvalues 50, 49, ... of a matrix of that rank, and zeros."""
    values = np.zeros(SIZE)
    values[:rank] = 50 - np.arange(rank)
    for num_steps in (10, SIZE):
        found = pairs_of(symmetric(values), 5, num_steps, "magnitude")
        np.testing.assert_allclose(found.values, values[:5], atol=1e-11)
        np.testing.assert_allclose(found.residuals, 0, atol=1e-11)


def test_repeated_eigenvalues_are_all_found_once_the_space_is_exhausted():
    """Oracle: 3, 3, 3 and then 1s; a single Krylov space holds each of them once."""
    matrix = symmetric(np.concatenate([[3.0] * 3, np.ones(SIZE - 3)]))
    np.testing.assert_allclose(pairs_of(matrix, 4, SIZE).values, [3, 3, 3, 1], rtol=1e-12)


def test_more_steps_than_dimensions_are_not_taken():
    matrix = jnp.diag(jnp.array([3.0, -5.0, 1.0]))
    found = top_eigenvalues(lambda v: matrix @ v, 3, 3, 100, KEY)
    np.testing.assert_allclose(found, [3, 1, -5], rtol=1e-12)
    np.testing.assert_allclose(top_eigenvalues(lambda v: 2 * v, 1, 1, 5, KEY), [2.0], rtol=1e-12)


def test_a_vector_may_be_a_tree():
    """Oracle: the dense Hessian of a function of a tree of parameters."""
    params = {"w": jnp.linspace(0.1, 1, 6).reshape(2, 3), "b": jnp.array([0.5, -0.2])}

    def loss(p):
        return jnp.sum(jnp.tanh(p["w"].sum(axis=1) * p["b"]) ** 2) + jnp.prod(p["b"]) ** 2

    def hessian_product(v):
        return jax.jvp(jax.grad(loss), (params,), (v,))[1]

    flat, unravel = jax.flatten_util.ravel_pytree(params)
    dense = np.linalg.eigvalsh(jax.hessian(lambda f: loss(unravel(f)))(flat))
    found = eigenpairs(hessian_product, params, 2, 8, KEY, "smallest")
    np.testing.assert_allclose(found.values, dense[:2], atol=1e-12)
    assert found.vectors["w"].shape == (2, 2, 3)
    first = jax.tree.map(lambda leaf: leaf[0], found.vectors)
    image = hessian_product(first)
    np.testing.assert_allclose(image["w"], found.values[0] * first["w"], atol=1e-11)


def test_power_iteration_finds_the_greatest_magnitude_and_with_a_shift_the_greatest():
    """Oracle: the spectrum, -9 to 1; the shifted run converges by (9 + 1 - 1/37)/(9 + 1)."""
    matrix = symmetric(SPECTRA["negative"])
    start = jax.random.normal(KEY, (SIZE,))
    found = power_iteration(lambda v: matrix @ v, start, 60)
    assert found.values == pytest.approx(-9.0, rel=1e-12)
    assert found.residuals < 1e-10
    np.testing.assert_allclose(matrix @ found.vectors, -9 * found.vectors, atol=1e-10)
    shifted = power_iteration(lambda v: matrix @ v, start, 6000, shift=9.0)
    assert shifted.values == pytest.approx(1.0, rel=1e-9)


def test_everything_can_be_mapped_over_operators_and_keys():
    """Oracle: the same, one after another."""
    matrices = jnp.stack([symmetric(SPECTRA["even"], seed) for seed in range(3)])
    keys = jax.random.split(KEY, 3)
    together = jax.vmap(lambda a, key: pairs_of(a, 2, 15, key=key))(matrices, keys)
    for i in range(3):
        alone = pairs_of(matrices[i], 2, 15, key=keys[i])
        np.testing.assert_allclose(together.values[i], alone.values, rtol=1e-11)
    run = jax.vmap(lambda a: power_iteration(lambda v: a @ v, jnp.ones(SIZE), 10).values)
    assert run(matrices).shape == (3,)


def test_single_precision_keeps_the_basis_orthogonal():
    """Oracle: the dense spectrum to float32's rounding."""
    matrix = symmetric(SPECTRA["clustered"]).astype(jnp.float32)
    like = jnp.zeros(SIZE, jnp.float32)
    found = eigenpairs(lambda v: matrix @ v, like, 4, SIZE, KEY)
    assert found.values.dtype == jnp.float32
    np.testing.assert_allclose(found.values, [5.003, 5.002, 5.001, 5.0], rtol=1e-5)


def test_an_operator_that_is_not_finite_gives_nan():
    found = pairs_of(jnp.full((5, 5), jnp.nan), 1, 3)
    assert np.isnan(found.values).all()
    assert np.isnan(found.residuals).all()


def test_sizes_are_checked():
    with pytest.raises(ValueError, match="k must be between 1 and num_steps = 3"):
        top_eigenvalues(lambda v: v, 10, 4, 3, KEY)
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        power_iteration(lambda v: v, jnp.ones(3), 0)
