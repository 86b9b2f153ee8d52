"""Certificates against dense spectra: they must hold for every operator, not for nice ones."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.numerics import certified_eigenpairs, lanczos, needed_checks

SIZE, K = 24, 4
KEY = jax.random.key(0)


def spectrum(kind: str, generator: np.random.Generator, size: int = SIZE) -> np.ndarray:
    """Eigenvalues of one kind, in no order."""
    match kind:
        case "random":
            return generator.standard_normal(size)
        case "two values":
            return generator.choice(generator.standard_normal(2), size)
        case "repeated":
            top = np.repeat(3 + generator.standard_normal(2), 2)
            return np.concatenate([top, generator.standard_normal(size - 4)])
        case "clustered":
            top = 3 + 10.0 ** generator.uniform(-12, -1) * generator.standard_normal(4)
            return np.concatenate([top, generator.standard_normal(size - 4)])
        case "paired":
            half = generator.standard_normal(size // 2)
            return np.concatenate([half, -half])
        case "low rank":
            return np.where(np.arange(size) < 3, generator.standard_normal(size), 0.0)
        case _:
            return 2.0 ** -np.arange(size) * generator.choice([-1, 1], size)


KINDS = ("random", "two values", "repeated", "clustered", "paired", "low rank", "decaying")


@jax.jit
def symmetric(key, values):
    """A matrix with these eigenvalues in a random basis."""
    basis, _ = jnp.linalg.qr(jax.random.normal(key, (len(values),) * 2))
    return (basis * values[None, :]) @ basis.T


@partial(jax.jit, static_argnames="which")
def certified(matrices, keys, which):
    """Certified pairs of many matrices, one after another."""

    def one(given):
        matrix, key = given
        return certified_eigenpairs(lambda v: matrix @ v, SIZE, K, key, 10, which, num_checks=16)

    return jax.lax.map(one, (matrices, keys))


@pytest.mark.parametrize("which", ["largest", "magnitude"])
def test_bounds_hold_for_a_thousand_operators(which):
    """Oracle: the eigenvalues that the matrices were made from, in order; 1,050 in both tests.

    A bound is allowed to fail once in a thousand; it rests on an inequality that is far from tight.
    """
    generator = np.random.default_rng(0)
    exact = np.stack([spectrum(kind, generator) for kind in KINDS for _ in range(75)])
    keys = jax.random.split(KEY, (len(exact), 2))
    found = certified(jax.vmap(symmetric)(keys[:, 0], jnp.asarray(exact)), keys[:, 1], which)
    rank = {"largest": exact, "magnitude": np.abs(exact)}[which]
    truth = -np.sort(-rank, axis=1)[:, :K]
    values = np.asarray(found.values if which == "largest" else np.abs(found.values))
    assert np.all(np.abs(values - truth) <= found.bounds)
    assert np.all(found.bounds >= found.residuals / 2)  # no tighter than what was measured
    # Where only a few eigenvalues are large, sixteen checks are enough to say so.
    few = np.repeat(np.isin(KINDS, ["low rank", "decaying"]), 75)
    assert np.median(np.asarray(found.bounds)[few, 0]) < 1e-2


def test_repeated_eigenvalues_are_found_as_often_as_they_stand_there():
    """Oracle: the spectrum. Lanczos alone finds 5 once and reports 2 for the second."""
    values = jnp.concatenate([jnp.array([5.0, 5.0, 5.0]), jnp.linspace(-1, 2, SIZE - 3)])
    matrix = symmetric(KEY, values)
    find = jax.jit(lambda a: certified_eigenpairs(lambda v: a @ v, SIZE, K, KEY, 14))
    found = find(matrix)
    np.testing.assert_allclose(found.values[:3], 5.0, rtol=1e-6)
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(K), atol=1e-9)
    assert np.abs(float(found.values[3]) - 2.0) <= float(found.bounds[3])


@pytest.mark.parametrize("kind", ["two values", "clustered", "random"])
def test_two_hundred_steps_stay_orthonormal_and_exact(kind):
    """Oracle: QᵀQ = 1, and the spectrum, to rounding, with as many steps as dimensions."""
    values = spectrum(kind, np.random.default_rng(1), 200)
    matrix = symmetric(KEY, jnp.asarray(values))
    basis, diagonal, off = all_steps(matrix)
    assert np.abs(basis @ basis.T - np.eye(200)).max() <= 1e-12
    small = np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1)
    np.testing.assert_allclose(np.linalg.eigvalsh(small), np.sort(values), atol=1e-12)
    if kind == "two values":
        found = twenty(matrix)
        assert np.all(np.abs(found.values - values.max()) <= found.bounds)
        assert np.max(found.bounds) < 0.01  # of a spread of 1: what is left looks the same


@jax.jit
def all_steps(matrix):
    """Lanczos to the end."""
    return lanczos(lambda v: matrix @ v, jnp.ones(200), 200, KEY)


@jax.jit
def twenty(matrix):
    """Twenty pairs in 200 dimensions."""
    return certified_eigenpairs(lambda v: matrix @ v, 200, 20, KEY, 60, num_checks=100)


def test_few_checks_widen_the_bound():
    """Oracle: an honest bound cannot be the residual when almost nothing was looked at."""
    values = jnp.linspace(0.0, 1.0, SIZE)
    matrix = symmetric(KEY, values)
    bounds = [
        jax.jit(
            lambda a, n=n: certified_eigenpairs(lambda v: a @ v, SIZE, 1, KEY, 6, num_checks=n)
        )(matrix).bounds[0]
        for n in (3, 20)
    ]
    assert np.isinf(bounds[0])
    assert bounds[1] < 0.5


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="k must be between 1 and num_steps = 3 and size = 9"):
        certified_eigenpairs(lambda v: v, 9, 4, KEY, 3)
    with pytest.raises(ValueError, match="num_checks must be at least 1, got 0"):
        certified_eigenpairs(lambda v: v, 9, 2, KEY, 3, num_checks=0)
    with pytest.raises(ValueError, match=r"risk must be in \(0, 1\), got 1"):
        certified_eigenpairs(lambda v: v, 9, 2, KEY, 3, risk=1.0)


def test_as_many_checks_as_needed_leave_the_share_that_was_asked():
    """Oracle: the formula of the module, and bounds of a spectrum without a gap."""
    count = needed_checks(0.3, 60, 2)
    log = np.log(1.648 * np.sqrt(58) * 2 * 3 / 1e-3)
    shares = [(log / (2 * n - 1)) ** 2 for n in (count, count - 1)]
    assert shares[0] / (1 - 2 * shares[0]) <= 0.3 < shares[1] / (1 - 2 * shares[1])
    matrix = symmetric(KEY, jnp.linspace(0.0, 1.0, 60))
    find = jax.jit(
        lambda a: certified_eigenpairs(lambda v: a @ v, 60, 2, KEY, 40, num_checks=count)
    )
    found = find(matrix)
    assert float(found.bounds[0]) <= 0.3 + 2 * float(jnp.linalg.norm(found.residuals)) + 1e-12
    assert needed_checks(1e-9, 60, 2) == 58  # all there are
    with pytest.raises(ValueError, match="share must be positive"):
        needed_checks(0.0, 60, 2)
