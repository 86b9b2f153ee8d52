from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.numerics import (
    eigenpairs,
    extreme_eigenvalues,
    lanczos,
    power_iteration,
    spectra,
    top_eigenvalues,
)
from theorylab.numerics.spectra import Which, tridiagonal_matrix

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


@partial(jax.jit, static_argnames=("num_steps", "which"))
def five(matrix, num_steps: int, which: Which, key=KEY):
    """Five eigenpairs, compiled once for each number of steps and order."""
    return eigenpairs(lambda v: matrix @ v, SIZE, 5, num_steps, key, which)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("which", ["largest", "smallest", "magnitude"])
def test_all_steps_give_the_dense_spectrum(spectrum, which):
    """Oracle: numpy's dense eigenvalues, ordered by hand."""
    matrix = symmetric(SPECTRA[spectrum])
    values = np.linalg.eigvalsh(matrix)
    order = {"largest": -values, "smallest": values, "magnitude": -np.abs(values)}[which]
    expected = values[np.argsort(order)][:5]
    found = five(matrix, SIZE, which)
    measured = found.values
    if which == "magnitude":  # of a ± pair either may come first
        measured, expected = np.abs(measured), np.abs(expected)
    scale = np.abs(values).max()
    np.testing.assert_allclose(measured, expected, atol=1e-12 * scale)
    np.testing.assert_allclose(found.residuals, 0, atol=1e-12 * scale)
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(5), atol=1e-11)


@pytest.mark.parametrize("spectrum", ["clustered", "negative", "decaying"])
def test_few_steps_suffice_for_what_stands_out_and_the_residual_bounds_the_error(spectrum):
    """Oracle: the dense spectrum; an eigenvalue lies within each residual."""
    operator = symmetric(SPECTRA[spectrum])
    matrix = np.asarray(operator)
    values, vectors, residuals = map(np.asarray, five(operator, 12, "magnitude"))
    distance = np.abs(np.linalg.eigvalsh(matrix)[:, None] - values).min(axis=0)
    assert (distance <= residuals + 1e-12).all()
    assert values[0] == pytest.approx(max(SPECTRA[spectrum], key=abs), rel=1e-3)
    by_definition = np.linalg.norm(vectors @ matrix - values[:, None] * vectors, axis=1)
    np.testing.assert_allclose(residuals, by_definition, rtol=1e-6, atol=1e-12)


def test_signed_extremes_of_a_paired_and_of_a_negative_spectrum():
    """Oracle: the spectra themselves; power iteration fails on the first, and says so."""
    extremes = jax.jit(lambda a: extreme_eigenvalues(lambda v: a @ v, SIZE, SIZE, KEY))
    for spectrum in ("paired", "negative"):
        values = SPECTRA[spectrum]
        found = extremes(symmetric(values))
        np.testing.assert_allclose(found, [min(values), max(values)], rtol=1e-12)
    assert iterate(symmetric(SPECTRA["paired"]), 0.0).residuals > 1.0


@jax.jit
def iterate(matrix, shift):
    """Power iteration, 6,000 steps."""
    return power_iteration(lambda v: matrix @ v, jnp.ones(SIZE), 6000, shift)


def test_lanczos_is_an_orthonormal_tridiagonalisation():
    """Oracle: the definition, QᵀQ = 1 and QᵀAQ = T, after many steps in a clustered spectrum."""
    matrix = symmetric(SPECTRA["clustered"])
    run = jax.jit(lambda a: lanczos(lambda v: a @ v, jnp.ones(SIZE), 30, KEY))
    basis, diagonal, off_diagonal = run(matrix)
    np.testing.assert_allclose(basis @ basis.T, np.eye(30), atol=1e-13)
    small = np.diag(diagonal) + np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1)
    np.testing.assert_allclose(basis @ matrix @ basis.T, small, atol=1e-12)
    np.testing.assert_allclose(basis[0], np.ones(SIZE) / np.sqrt(SIZE), rtol=1e-12)


@pytest.mark.parametrize("closing", [False, True])
def test_a_basis_in_blocks_is_the_same_basis(closing, monkeypatch):
    """Oracle: the basis that is kept whole.

    Three eigenvalues close the space after 3 steps. When it closes again is a matter of rounding:
    there the basis need not be the same, but the matrix is tridiagonal in it.
    """
    matrix = symmetric(np.resize([0.0, 1.0, 5.0], SIZE) if closing else SPECTRA["decaying"])

    def run():
        found = jax.jit(lambda a: eigenpairs(lambda v: a @ v, SIZE, 5, 21, KEY))(matrix)
        return jax.jit(lambda a: lanczos(lambda v: a @ v, jnp.ones(SIZE), 21, KEY))(matrix), found

    whole, expected = run()
    monkeypatch.setattr(spectra, "LARGE", 1)
    blocks, found = run()
    np.testing.assert_allclose(blocks.basis @ blocks.basis.T, np.eye(21), atol=1e-13)
    small = blocks.basis @ matrix @ blocks.basis.T
    np.testing.assert_allclose(np.diag(small), blocks.diagonal, atol=1e-11)
    np.testing.assert_allclose(np.diag(small, 1), blocks.off_diagonal, atol=1e-11)
    np.testing.assert_allclose(np.triu(small, 2), 0.0, atol=1e-11)
    if not closing:
        np.testing.assert_allclose(blocks.diagonal, whole.diagonal, atol=1e-11)
        np.testing.assert_allclose(blocks.off_diagonal, whole.off_diagonal, atol=1e-11)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-11)
    np.testing.assert_allclose(found.residuals, expected.residuals, atol=1e-11)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_low_rank_operators_close_the_krylov_space_without_harm(rank):
    """Oracle: the eigenvalues 50, 49, ... of a matrix of that rank, and zeros."""
    values = np.zeros(SIZE)
    values[:rank] = 50 - np.arange(rank)
    for num_steps in (12, SIZE):
        found = five(symmetric(values), num_steps, "magnitude")
        np.testing.assert_allclose(found.values, values[:5], atol=1e-11)
        np.testing.assert_allclose(found.residuals, 0, atol=1e-11)


def test_repeated_eigenvalues_are_all_found_once_the_space_is_exhausted():
    """Oracle: 3, 3, 3 and then 1s; a single Krylov space holds each of them once."""
    matrix = symmetric(np.concatenate([[3.0] * 3, np.ones(SIZE - 3)]))
    np.testing.assert_allclose(five(matrix, SIZE, "largest").values, [3, 3, 3, 1, 1], rtol=1e-12)


def test_more_steps_than_dimensions_are_not_taken():
    shapes = jax.eval_shape(lambda start: lanczos(jnp.sin, start, 100, KEY), jnp.ones(3))
    assert [leaf.shape for leaf in shapes] == [(3, 3), (3,), (2,)]
    basis, diagonal, _ = jax.jit(lambda start: lanczos(lambda v: 2 * v, start, 5, KEY))(jnp.ones(1))
    assert (basis.item(), diagonal.item()) == (1.0, 2.0)


def test_a_vector_may_be_a_tree():
    """Oracle: the same operator on flat vectors."""
    tree = {"w": jnp.zeros((6, 6)), "b": jnp.zeros(4)}
    unravel = ravel_pytree(tree)[1]

    @jax.jit
    def find(matrix):
        def matvec(v):
            return unravel(matrix @ ravel_pytree(v)[0])

        return eigenpairs(matvec, tree, 5, 12, KEY, "magnitude")

    matrix = symmetric(SPECTRA["negative"])
    found, flat = find(matrix), five(matrix, 12, "magnitude")
    np.testing.assert_allclose(found.values, flat.values, rtol=1e-12)
    assert found.vectors["w"].shape == (5, 6, 6)
    np.testing.assert_allclose(found.vectors["b"], flat.vectors[:, :4], atol=1e-12)


def test_power_iteration_finds_the_greatest_magnitude_and_with_a_shift_the_greatest():
    """Oracle: the spectrum, -9 to 1; the shifted run converges by (9 + 1 - 1/37)/(9 + 1)."""
    matrix = symmetric(SPECTRA["negative"])
    found = iterate(matrix, 0.0)
    assert found.values == pytest.approx(-9.0, rel=1e-12)
    assert found.residuals < 1e-10
    np.testing.assert_allclose(matrix @ found.vectors, -9 * found.vectors, atol=1e-10)
    assert iterate(matrix, 9.0).values == pytest.approx(1.0, rel=1e-9)


def test_everything_can_be_mapped_over_operators_and_keys():
    """Oracle: the same, one after another."""
    matrices = jnp.stack([symmetric(SPECTRA["even"], seed) for seed in range(3)])
    keys = jax.random.split(KEY, 3)
    together = jax.vmap(lambda a, key: five(a, 12, "magnitude", key))(matrices, keys)
    for i in range(3):
        alone = five(matrices[i], 12, "magnitude", keys[i])
        np.testing.assert_allclose(together.values[i], alone.values, rtol=1e-11)


def test_single_precision_keeps_the_basis_orthogonal():
    """Oracle: the dense spectrum to float32's rounding."""
    matrix = symmetric(SPECTRA["clustered"]).astype(jnp.float32)
    find = jax.jit(lambda like: top_eigenvalues(lambda v: matrix @ v, like, 4, SIZE, KEY))
    found = find(jnp.zeros(SIZE, jnp.float32))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, [5.003, 5.002, 5.001, 5.0], rtol=1e-5)


def test_an_operator_that_is_not_finite_gives_nan():
    found = five(jnp.nan * symmetric(SPECTRA["even"]), 12, "magnitude")
    assert np.isnan(found.values).all()
    assert np.isnan(found.residuals).all()


def test_sizes_are_checked():
    with pytest.raises(ValueError, match="k must be between 1 and num_steps = 3"):
        top_eigenvalues(lambda v: v, 10, 4, 3, KEY)
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        power_iteration(lambda v: v, jnp.ones(3), 0)


def test_lanczos_from_nothing_starts_anew():
    """Oracle: the spectrum, after as many steps as dimensions; the space of 0 closes at once."""
    values = jnp.array([3.0, -1.0, 0.5])
    found = lanczos(lambda v: values * v, jnp.zeros(3), 3, jax.random.key(0))
    small = tridiagonal_matrix(found.diagonal, found.off_diagonal)
    np.testing.assert_allclose(np.linalg.eigvalsh(small), np.sort(values), atol=1e-12)


def test_sizes_and_orders_are_checked():
    size = np.int64(3)
    found = top_eigenvalues(lambda v: 2.0 * v, size, 1, 3, jax.random.key(0))
    np.testing.assert_allclose(found, [2.0])
    with pytest.raises(ValueError, match="size of a vector must be at least 1, got 0"):
        top_eigenvalues(lambda v: v, 0, 1, 3, jax.random.key(0))
