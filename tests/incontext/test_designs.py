import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.incontext import condition_number, gaussian_condition
from theorylab.incontext.designs import gaussian_moment


def test_condition_numbers_are_those_of_numpy():
    x = np.random.default_rng(0).normal(size=(7, 3))
    np.testing.assert_allclose(condition_number(jnp.asarray(x)), np.linalg.cond(x) ** 2, rtol=1e-10)
    assert condition_number(jnp.zeros((2, 2))) == np.inf


def test_long_designs_have_the_condition_of_the_edges():
    rows = np.random.default_rng(1).normal(size=(2000, 200))
    found = condition_number(jnp.asarray(rows))
    np.testing.assert_allclose(found, gaussian_condition(0.1), rtol=0.08)


def test_moments_have_the_law_of_designs():
    """Oracle: Wishart moments: E W = nI, Var W_ij = n(1 + δ_ij); and log det, by designs."""
    n, d, draws = 9, 3, 4000
    keys = jax.random.split(jax.random.key(0), draws)
    moments = np.asarray(jax.jit(jax.vmap(lambda key: gaussian_moment(key, n, d)))(keys))
    x = np.random.default_rng(2).normal(size=(draws, n, d))
    direct = np.einsum("snd,sne->sde", x, x)
    variance = n * (1 + np.eye(d))
    assert np.abs(moments.mean(axis=0) - n * np.eye(d)).max() < 5 * np.sqrt(2 * n / draws)
    np.testing.assert_allclose(moments.var(axis=0), variance, rtol=0.2)
    both = [np.linalg.slogdet(part)[1] for part in (moments, direct)]
    assert abs(both[0].mean() - both[1].mean()) < 5 * np.sqrt(2 * both[1].var() / draws)


def test_short_designs_are_refused():
    with pytest.raises(ValueError, match="num_examples must be at least the dimension 3, got 2"):
        gaussian_moment(jax.random.key(0), 2, 3)
