"""Estimated traces against the sum of the diagonal."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.numerics import trace

SIZE = 40
KEY = jax.random.key(0)


def matrix(kind: str) -> jax.Array:
    """Wigner; or the decaying spectrum of a covariance with a few large directions."""
    draw = np.random.default_rng(0).standard_normal((SIZE, SIZE))
    if kind == "wigner":
        return jnp.asarray((draw + draw.T) / 2 + np.eye(SIZE))
    basis, _ = np.linalg.qr(draw)
    return jnp.asarray((basis * 100.0 / np.arange(1, SIZE + 1) ** 2) @ basis.T)


@partial(jax.jit, static_argnames=("num_probes", "rank"))
def estimates(dense, keys, num_probes, rank):
    return jax.vmap(lambda key: trace(lambda v: dense @ v, SIZE, key, num_probes, rank))(keys)


@pytest.mark.parametrize(("kind", "rank"), [("wigner", 0), ("decaying", 8)])
def test_the_interval_covers_as_often_as_it_says(kind, rank):
    """Oracle: the exact trace. 93 to 97 % of 1,000 repeats; and the mean is unbiased."""
    dense = matrix(kind)
    exact = float(jnp.trace(dense))
    found = estimates(dense, jax.random.split(KEY, 1000), 30, rank)
    covered = np.mean((found.low <= exact) & (exact <= found.high))
    assert 0.93 <= covered <= 0.97
    error = np.std(found.value) / np.sqrt(1000)
    assert abs(np.mean(found.value) - exact) < 4 * error
    assert np.mean(found.error**2) == pytest.approx(float(np.var(found.value)), rel=0.2)


def test_directions_lower_the_variance_at_equal_cost():
    """Oracle: the source's theorem; 30 products each, on a decaying spectrum."""
    keys = jax.random.split(KEY, 1000)
    plain, better = (estimates(matrix("decaying"), keys, *plan) for plan in ((30, 0), (14, 8)))
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
