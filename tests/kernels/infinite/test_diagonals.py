"""Diagonals of kernels: over inputs, pairs of inputs, and positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import (
    infinite_diagonal,
    infinite_kernels,
    infinite_pairs,
    infinite_positions,
)
from theorylab.kernels.infinite import kernels as module
from theorylab.models import (
    NTK,
    Activation,
    Aggregate,
    AvgPool,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Serial,
)

SCALES = NTK(weight_scale=1.4, bias_scale=0.5)
X = jax.random.normal(jax.random.key(0), (5, 3, 4, 2))
OTHERS = jax.random.normal(jax.random.key(1), (5, 3, 4, 2))
CONV = (Conv(1, (2, 2), padding="same"), Activation("relu"))
ENDS = {
    "vectors": Serial(*CONV, Flatten(), Dense(1)),
    "positions": Serial(*CONV, Conv(1, (2, 1))),
    "pooled": Serial(*CONV, AvgPool((1, 2)), Dense(1)),
}


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("small", [True, False])
def test_diagonals_are_entries_of_the_whole_kernel(end, small, monkeypatch):
    """Oracle: the kernel of all pairs of inputs and positions; in one piece, and in tiles."""
    if not small:
        monkeypatch.setattr(module, "_SMALL", 0)
        monkeypatch.setattr("theorylab.kernels.infinite.tiles._CACHE", 300)
    settings = (SCALES, "normal")
    whole = infinite_kernels(ENDS[end], X, OTHERS, *settings)
    itself = infinite_kernels(ENDS[end], X, None, *settings)
    pairs = infinite_pairs(ENDS[end], X, OTHERS, *settings)
    alone = infinite_diagonal(ENDS[end], X, *settings)
    every = np.arange(5)
    for ours, kernel in zip((*pairs, *alone), (*whole, *itself), strict=True):
        close(ours, kernel[every, every])
    positions = infinite_positions(ENDS[end], X, OTHERS, *settings)
    again = infinite_positions(ENDS[end], X, None, *settings)
    for ours, kernel in zip((*positions, *again), (*whole, *itself), strict=True):
        equal = kernel if kernel.ndim == 2 else np.einsum("ijssuu->ijsu", kernel)
        close(ours, equal)


def test_pairs_have_graphs_and_gradients():
    """Oracle: the kernel of all pairs; and K = x·x′/2, of which x′/2 is the gradient."""
    graphs = jax.random.uniform(jax.random.key(2), (2, 5, 3, 3))
    network = Serial(Dense(1), Activation("relu"), Aggregate(), Flatten())
    whole = infinite_kernels(
        network, X[:, :, 0], OTHERS[:, :, 0], graphs1=graphs[0], graphs2=graphs[1]
    )
    pairs = infinite_pairs(
        network, X[:, :, 0], OTHERS[:, :, 0], graphs1=graphs[0], graphs2=graphs[1]
    )
    close(pairs.ntk, np.diagonal(whole.ntk))
    x, other = X[:, 0, 0], OTHERS[:, 0, 0]
    slope = jax.grad(lambda x: infinite_pairs(Dense(1), x, other).nngp.sum())(x)
    close(slope, other / 2)


def test_masks_of_dropout_are_different_in_a_pair():
    """Oracle: no masks; an input alone has one mask, and 1/keep times the variance."""
    network = Serial(Dense(1), Dropout(0.5))
    x = X[:, 0, 0]
    pairs = infinite_pairs(network, x, x, training=True)
    close(pairs.nngp, infinite_pairs(network, x, x).nngp)
    close(infinite_diagonal(network, x, training=True).nngp, 2 * pairs.nngp)


def test_what_does_not_pair_is_refused_in_words():
    with pytest.raises(ValueError, match=r"as many inputs, got \[5, 4\]"):
        infinite_pairs(ENDS["vectors"], X, OTHERS[:4])
    with pytest.raises(ValueError, match="x2 must be finite"):
        infinite_pairs(ENDS["vectors"], X, OTHERS.at[0].set(jnp.nan))
