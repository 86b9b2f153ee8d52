"""Attention with random logits against finite attention, and against its closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels, infinite_kernels_sampled
from theorylab.models import NTK, Dense, GlobalPool, Masked, SelfAttention, Serial, Standard
from theorylab.models.positional import PositionalEmbedding

SCALES = NTK(weight_scale=1.4, bias_scale=0.3)
STANDARD = Standard(weight_scale=1.4)
UNBIASED = NTK(weight_scale=1.4)
X = jax.random.normal(jax.random.key(0), (3, 3, 4))


def make(width, num_outputs):
    attention = SelfAttention(width, width, width, scaling="root")
    return Serial(Dense(width), attention, GlobalPool(), Dense(num_outputs))


def test_networks_of_many_heads_have_these_kernels(monte_carlo, agree):
    """Oracle: Monte Carlo over 100 networks of 16 heads; in Θ, queries and keys count too."""
    estimate = infinite_kernels_sampled(
        jax.random.key(1), make(1, 1), X, None, SCALES, "normal", num_draws=512
    )
    samples = monte_carlo(make, X, SCALES, "normal", width=16)
    agree(samples, estimate.mean, width=16)
    for mean, error in zip(*estimate, strict=True):
        assert np.all(error < 0.1 * np.abs(mean).max())
        np.testing.assert_array_equal(mean, mean.T)


@pytest.mark.parametrize(
    ("mechanism", "scales"), [("relu", UNBIASED), ("abs", STANDARD), ("softmax", STANDARD)]
)
def test_variants_agree_with_networks_of_many_heads(mechanism, scales, monte_carlo, agree):
    """Oracle: Monte Carlo, with a mask, embeddings of positions and scales of every matrix."""

    def variant(width, num_outputs):
        attention = SelfAttention(
            *(width, width, width),
            mechanism=mechanism,
            query_scale=1.7,
            key_scale=1.2,
            value_scale=0.9,
            output_scale=1.3,
            embedding=PositionalEmbedding(scale=0.8, in_values=mechanism != "relu"),
            value_width=width,
        )
        return Serial(Dense(width), attention, GlobalPool(), Dense(num_outputs))

    x = Masked(X, jnp.array([[False] * 3, [False, True, False], [False, False, True]]))
    options = {"num_draws": 1024, "parametrization": scales}
    estimate = infinite_kernels_sampled(jax.random.key(1), variant(16, 16), x, **options)
    samples = monte_carlo(variant, x, scales, width=16, num_seeds=150)
    agree(samples, estimate.mean, width=16, precision=0.2)


def test_standard_error_is_that_of_other_keys():
    """Oracle: the spread of estimates over 12 keys, within a factor that 12 of them allow."""
    architecture = make(1, 1)
    runs = [
        infinite_kernels_sampled(
            jax.random.key(key), architecture, X, None, NTK(weight_scale=1.4), "none", 64, 16
        )
        for key in range(12)
    ]
    spread = np.std([run.mean.nngp for run in runs], axis=0, ddof=1)
    stated = np.sqrt(np.mean([np.square(run.standard_error.nngp) for run in runs], axis=0))
    ratios = np.diag(spread / stated)
    assert np.all((ratios > 0.5) & (ratios < 1.8))


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="infinite_kernels_sampled averages over them"):
        infinite_kernels(make(1, 1), X)
    tied = SelfAttention(1, 1, 1, scaling="root", tied=True)
    with pytest.raises(ValueError, match="its logits QQᵀ/√m grow as √m"):
        infinite_kernels_sampled(jax.random.key(0), Serial(tied, GlobalPool()), X)
    with pytest.raises(ValueError, match="num_groups must be at least 2, got 1"):
        infinite_kernels_sampled(jax.random.key(0), make(1, 1), X, num_groups=1)
    with pytest.raises(ValueError, match="num_draws must be at least num_groups, 16; got 3"):
        infinite_kernels_sampled(jax.random.key(0), make(1, 1), X, num_draws=3)
    with pytest.raises(ValueError, match="x1 must be finite"):
        infinite_kernels_sampled(jax.random.key(0), make(1, 1), X * jnp.nan)
