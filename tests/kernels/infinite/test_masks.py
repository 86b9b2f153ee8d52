"""Infinite-width kernels of inputs with missing positions."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import (
    infinite_diagonal,
    infinite_kernels,
    infinite_kernels_on_disk,
    infinite_kernels_sampled,
    infinite_nngp,
)
from theorylab.models import (
    NTK,
    Activation,
    AvgPool,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    LayerNorm,
    Masked,
    Residual,
    SelfAttention,
    Serial,
)
from theorylab.models.branches import Parallel
from theorylab.models.einsum import Einsum
from theorylab.models.selection import Index

SCALES = NTK(weight_scale=1.4, bias_scale=0.5)
RELU, COSINE = Activation("relu"), Activation("cosine")  # cos 0 = 1: masked again after it
LENGTHS = np.array([5, 3, 1])
MASK = jnp.asarray(np.arange(5) >= LENGTHS[:, None])
X = jax.random.normal(jax.random.key(0), (3, 5, 2))


def sequences(width, num_outputs):
    """A masked case of every rule, width for width."""
    return Serial(
        Conv(width, (3,), padding="same"),
        LayerNorm(axes=(0, 1)),
        COSINE,
        Residual(Serial(Conv(width, (3,), padding="same"), RELU, Dense(width)), Dense(width)),
        SelfAttention(width, max(width // 8, 1), 8, scaling="linear", tied=True),
        LayerNorm(),
        RELU,
        GlobalPool(),
        Dense(num_outputs),
    )


def test_masked_sequences_agree_with_wide_networks(monte_carlo, agree):
    """Oracle: Monte Carlo, with sequences of three lengths."""
    make = lambda w, k: Serial(  # noqa: E731
        Conv(w, (3,), padding="same"), RELU, Conv(w, (2,)), COSINE, GlobalPool(), Dense(k)
    )
    x = Masked(X, MASK)
    samples = monte_carlo(make, x, SCALES, "normal")
    agree(samples, infinite_kernels(make(1, 1), x, parametrization=SCALES, bias="normal"))


def test_masks_pass_branches_indices_and_fixed_arrays(monte_carlo, agree):
    """Oracle: Monte Carlo, with sequences of three lengths."""
    turn = np.random.default_rng(0).normal(size=(4, 6))
    make = lambda w, k: Serial(  # noqa: E731
        Dense(w),
        Parallel(Conv(w, (3,)), Serial(), join="concatenate", axis=0),
        Index(slice(1, 7)),
        Einsum("sc,ts->tc", turn),
        COSINE,
        GlobalPool(),
        Dense(k),
    )
    samples = monte_carlo(make, Masked(X, MASK), SCALES, "normal")
    limits = infinite_kernels(make(1, 1), Masked(X, MASK), None, SCALES, "normal")
    agree(samples, limits)


def test_a_sequence_that_ends_early_is_a_shorter_sequence():
    """Oracle: the same network of the shorter inputs, without masks."""
    x, network = Masked(X, MASK), sequences(1, 1)
    kernels = infinite_kernels(network, x, parametrization=SCALES, bias="normal")
    diagonal = infinite_diagonal(network, x, parametrization=SCALES, bias="normal")
    for index, length in enumerate(LENGTHS):
        one = X[index : index + 1, :length]
        expected = infinite_kernels(network, one, parametrization=SCALES, bias="normal")
        for found, alone, kernel in zip(kernels, diagonal, expected, strict=True):
            np.testing.assert_allclose(found[index, index], kernel[0, 0], rtol=1e-10)
            np.testing.assert_allclose(alone[index], kernel[0, 0], rtol=1e-10)


def test_two_sequences_of_one_shorter_length_agree_with_unmasked_ones():
    """Oracle: the kernels between shorter inputs; x with a mask and x′ without are no exception."""
    mask = jnp.asarray(np.arange(5) >= np.array([3, 3, 3])[:, None])
    network = Serial(Conv(1, (3,), padding="same"), RELU, GlobalPool(), Dense(1))
    kernels = infinite_kernels(network, Masked(X, mask), Masked(X[1:], mask[1:]))
    shorter = infinite_kernels(network, X[:, :3], X[1:, :3])
    whole = infinite_kernels(network, Masked(X, jnp.zeros_like(mask)), X[1:])
    for found, expected in ((kernels, shorter), (whole, infinite_kernels(network, X, X[1:]))):
        np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-12)
        np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-12)


def test_what_stands_at_missing_positions_changes_no_bit():
    """An invariance: other numbers there, NaN too; of kernels, of estimates and of gradients."""
    others = (
        jnp.where(MASK[..., None], 1e6 * jax.random.normal(jax.random.key(1), X.shape), X),
        jnp.where(MASK[..., None], jnp.nan, X),
    )

    def measured(x):
        x = Masked(x, MASK)
        random = SelfAttention(1, 1, 1)
        return (
            infinite_kernels(sequences(1, 1), x),
            infinite_kernels_sampled(jax.random.key(0), random, x, num_draws=4, num_groups=2),
        )

    total = jax.jit(jax.grad(lambda x: infinite_nngp(sequences(1, 1), Masked(x, MASK)).sum()))
    expected, gradient = measured(X), total(X)
    assert np.isfinite(gradient).all()
    assert not np.any(np.where(MASK[..., None], gradient, 0.0))
    for x in others:
        jax.tree.map(np.testing.assert_array_equal, measured(x), expected)
        np.testing.assert_array_equal(total(x), gradient)


IMAGES = jax.random.normal(jax.random.key(2), (5, 4, 3, 2))
IMAGE_MASK = jax.random.bernoulli(jax.random.key(3), 0.3, (5, 4, 3))
NETWORKS = {
    "pairs of positions": Serial(
        Conv(1, (2, 2), padding="same"), COSINE, AvgPool((2, 2)), Dense(1), RELU, GlobalPool()
    ),
    "equal positions": Serial(Conv(1, (2, 2), (2, 1), "circular"), COSINE, Flatten(), Dense(1)),
    "outputs with positions": Serial(Conv(1, (2, 2)), COSINE, Dense(1)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_tiles_carry_masks(name, tmp_path):
    """Oracle: one piece; of one batch and of two, in memory and on disk."""
    x = Masked(IMAGES, IMAGE_MASK)
    for x2 in (None, Masked(IMAGES[3:] + 1, ~IMAGE_MASK[3:]), IMAGES[2:]):
        expected = infinite_kernels(NETWORKS[name], x, x2, SCALES, "normal")
        tiled = infinite_kernels(NETWORKS[name], x, x2, SCALES, "normal", block=2)
        stored = infinite_kernels_on_disk(
            tmp_path, NETWORKS[name], x, x2, SCALES, "normal", block=2
        )
        for one, other, file in zip(expected, tiled, stored, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-14)
            np.testing.assert_array_equal(file, other)


def test_missing_outputs_have_kernels_of_zero_and_an_input_may_be_missing_whole():
    """Oracle: 0, exactly; and finite numbers where nothing is there."""
    mask = jnp.array([[False, True, False]])
    network = Serial(Conv(1, (1,)), COSINE, Dense(1))
    kernel = infinite_kernels(network, Masked(X[:1, :3], mask), bias="normal").ntk[0, 0]
    assert np.count_nonzero(kernel) == 4
    assert not np.any(kernel[1])
    everything = Masked(X[:2], jnp.array([[True] * 5, [False] * 5]))
    kernels = infinite_kernels(sequences(1, 1), everything, bias="normal")
    assert kernels.nngp[0, 0] == kernels.nngp[0, 1] == kernels.ntk[0, 1] == 0
    assert np.isfinite(kernels.ntk[1, 1])


def test_the_masked_sequences_of_the_docs_agree_with_drawn_networks():
    """Oracle: Monte Carlo, as the page has it: within three standard errors of every entry."""
    page = (Path(__file__).parents[3] / "docs" / "concepts" / "kernels.md").read_text("utf-8")
    section = page[page.index("## Sequences of several lengths") :]
    block = section[section.index("```python\n") + 10 :]
    namespace: dict[str, Any] = {}
    exec(block[: block.index("```")], namespace)
    assert namespace["deviations"].shape == (3, 3)
    assert namespace["deviations"].max() < 3
    assert np.all(namespace["drawn"].error < 0.03 * namespace["masked_limit"])
