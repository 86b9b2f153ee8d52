"""Estimated traces against the sum of the diagonal."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.numerics import clopper_pearson, squared_norm, trace
from theorylab.numerics.counted import CompiledOperator

SIZE = 40
KEY = jax.random.key(0)


def matrix(kind: str) -> jax.Array:
    """Wigner; or the decaying spectrum of a covariance with a few large directions."""
    draw = np.random.default_rng(0).standard_normal((SIZE, SIZE))
    if kind == "wigner":
        return jnp.asarray((draw + draw.T) / 2 + np.eye(SIZE))
    basis, _ = np.linalg.qr(draw)
    return jnp.asarray((basis * 100.0 / np.arange(1, SIZE + 1) ** 2) @ basis.T)


def of_spectrum(values: np.ndarray) -> jax.Array:
    """A matrix with these eigenvalues, the others 0, in a random basis."""
    basis, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((SIZE, len(values))))
    return jnp.asarray((basis * values) @ basis.T)


def gauss_newton(num_samples: int) -> jax.Array:
    jacobian = np.random.default_rng(2).standard_normal((num_samples, SIZE))
    return jnp.asarray(jacobian.T @ jacobian)


@partial(jax.jit, static_argnames=("num_probes", "rank"))
def estimates(dense, keys, num_probes=20, rank=10):
    like = jnp.zeros(SIZE, dense.dtype)
    return jax.vmap(lambda key: trace(lambda v: dense @ v, like, key, num_probes, rank))(keys)


def covered(found, dense):
    exact = float(jnp.trace(dense))
    return (np.asarray(found.low) <= exact) & (exact <= np.asarray(found.high))


@pytest.mark.parametrize(
    ("dense", "rank"),
    [
        (matrix("wigner"), 0),
        (matrix("decaying"), 10),
        (matrix("decaying"), 0),
        (of_spectrum(np.ones(11)), 10),
        (of_spectrum(np.append(np.full(12, 50.0), np.linspace(0, 1, SIZE - 12))), 10),
        (of_spectrum(np.ones(1)), 0),
        (gauss_newton(14), 10),
    ],
    ids=["wigner", "decaying", "plain", "one is left", "outliers", "rank 1", "Gauss-Newton"],
)
def test_the_interval_covers_as_often_as_it_says(dense, rank):
    """Oracle: the exact trace. 93 to 97 % with Clopper and Pearson's interval; no bias."""
    found = estimates(dense, jax.random.split(KEY, 4000), rank=rank)
    sure = clopper_pearson(int(covered(found, dense).sum()), 4000)
    assert sure.low >= 0.93
    assert sure.high <= 0.97
    error = np.std(found.value) / np.sqrt(4000)
    assert abs(np.mean(found.value) - float(jnp.trace(dense))) < 4 * error
    assert np.mean(found.error**2) == pytest.approx(float(np.var(found.value)), rel=0.25)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "dense",
    [
        of_spectrum(np.arange(1.0, 6.0)),
        of_spectrum(np.arange(1.0, 11.0)),
        of_spectrum(np.array([3.0, -3.0, 1e-3])),
        gauss_newton(5),
        jnp.zeros((SIZE, SIZE)),
    ],
    ids=["rank 5", "rank 10", "no trace", "Gauss-Newton", "zero"],
)
def test_where_the_directions_hold_all_the_interval_always_covers(dense, dtype):
    """Oracle: the exact trace, in double precision; what is left is rounding, and it is small."""
    narrow = dense.astype(dtype)
    found = estimates(narrow, jax.random.split(KEY, 4000))
    exact = float(jnp.trace(narrow.astype("float64")))
    assert ((np.asarray(found.low) <= exact) & (exact <= np.asarray(found.high))).all()
    largest = float(jnp.abs(dense).sum())
    assert np.max(found.high - found.low) <= 1e3 * float(jnp.finfo(dtype).eps) * largest


def test_directions_lower_the_variance_at_equal_cost():
    """Oracle: the source's theorem; 40 products each, on a decaying spectrum."""
    keys = jax.random.split(KEY, 4000)
    plain, better = (estimates(matrix("decaying"), keys, *plan) for plan in ((40, 0), (20, 10)))
    assert np.var(better.value) < 0.1 * np.var(plain.value)


def test_all_directions_are_exact():
    dense = matrix("wigner")
    found = trace(lambda v: dense @ v, SIZE, KEY, rank=SIZE)
    assert float(found.value) == pytest.approx(float(jnp.trace(dense)), rel=1e-12)
    assert float(found.error) < 1e-12


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match=r"num_probes must be at least 2 .* got 1 and 10"):
        trace(lambda v: v, 3, KEY, num_probes=1)
    with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\), got 95"):
        trace(lambda v: v, 3, KEY, confidence=95.0)


def test_a_tolerance_is_met_or_what_is_needed_is_told():
    """Oracle: the diagonal's sum; a counting operator; n ∝ 1/tolerance²."""
    values = 1 / jnp.arange(1.0, 301.0)

    def product(v):
        return values * v

    found = trace(product, 300, KEY, tolerance=0.03)
    assert found.converged
    assert found.products == found.needed
    assert float(jnp.maximum(found.high - found.value, found.value - found.low)) <= (
        0.03 * float(found.value) * (1 + 1e-9)
    )
    # One key: its own 95 % interval leaves out the sum one time in twenty, as it does here.
    assert abs(float(found.value) - float(values.sum())) <= 4 * float(found.error)
    short = trace(product, 300, KEY, tolerance=0.003, budget=60)
    assert short.products == 60
    assert not short.converged
    assert short.needed > 10 * 40
    with pytest.raises(ValueError, match="budget must be at least 2 rank"):
        trace(product, 300, KEY, tolerance=0.03, budget=10)
    with pytest.raises(TypeError, match="a tolerance needs values"):
        jax.jit(lambda key: trace(product, 300, key, tolerance=0.03))(KEY)


@partial(jax.jit, static_argnums=0)
def times(kind, v):
    return matrix(kind) @ v


@pytest.mark.parametrize(("kind", "rank"), [("wigner", 0), ("decaying", 8)])
def test_a_squared_norm_is_covered_as_often_as_it_says(kind, rank):
    """Oracle: the sum of the squared entries, for 60 keys."""
    exact = float(jnp.sum(matrix(kind) ** 2))
    product = CompiledOperator(partial(times, kind))
    plan = {"rank": rank, "tolerance": 0.15 if rank == 0 else 1e-3}
    found = [squared_norm(product, SIZE, key, 20, **plan) for key in jax.random.split(KEY, 60)]
    covers = sum(float(each.low) <= exact <= float(each.high) for each in found)
    sure = clopper_pearson(covers, 60)
    assert sure.low <= 0.95 <= sure.high
    assert all(each.converged for each in found)
    assert len({each.products for each in found}) > 1
    sides = [(each.high - each.value, each.value - each.low) for each in found]
    limits = [plan["tolerance"] * float(each.value) for each in found]
    assert all(
        max(map(float, side)) <= 1.01 * most for side, most in zip(sides, limits, strict=True)
    )


def test_a_squared_norm_of_low_rank_is_left_to_rounding_alone():
    """Oracle: Σ λ², where the directions hold all of the range; and a budget that ends."""
    dense = of_spectrum(np.array([3.0, -3.0, 1.0]))
    found = squared_norm(lambda v: dense @ v, SIZE, KEY, rank=4, tolerance=1e-6)
    assert float(found.low) <= 19.0 <= float(found.high) <= 19.0 + 1e-9
    assert found.products == 2 * 4 + 20
    dense = matrix("wigner")
    short = squared_norm(lambda v: dense @ v, SIZE, KEY, tolerance=0.01, budget=50)
    assert (short.products, short.converged) == (50, False)
    assert short.needed > 200
