"""Branches that are joined, and parts that are selected, at infinite width."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels
from theorylab.models import (
    NTK,
    Activation,
    Concatenate,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    Masked,
    Residual,
    Serial,
)
from theorylab.models.architecture import Product
from theorylab.models.branches import Parallel, repeat
from theorylab.models.einsum import Einsum
from theorylab.models.selection import Index

SCALES = NTK(weight_scale=1.4, bias_scale=0.5)
RELU, ERF = Activation("relu"), Activation("erf")
X = jax.random.normal(jax.random.key(1), (3, 4, 2))


def kernels(*layers, x=X):
    return infinite_kernels(Serial(*layers), x, None, SCALES, "normal")


def conv(width=1, window=2):
    return Conv(width, (window,), padding="same")


def same(one, other):
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_wide_networks_with_branches_have_these_kernels(monte_carlo, agree):
    """Oracle: Monte Carlo over 100 networks of width 64, with all joins and both selections."""

    def make(w, k):
        return Serial(
            Parallel(Serial(conv(w), RELU, conv(w)), Dense(w), conv(w, 3)),
            Parallel(Serial(Dense(w), RELU), Serial(conv(w), ERF), Serial(), join="product"),
            Parallel(Dense(w), conv(w), join="concatenate", axis=0),
            Index(slice(1, None, 2), slice(0, w // 2 or 1)),
            ERF,
            Parallel(Serial(), Serial(Dense(2 * w), RELU), join="concatenate"),
            Parallel(Serial(Index(0), Dense(w)), Serial(GlobalPool(), Dense(w))),
            RELU,
            Dense(k),
        )

    samples = monte_carlo(make, X / 2, SCALES, "normal")
    # The limit of every width, but for the ratio of what is concatenated: here 1 : 4.
    agree(samples, infinite_kernels(make(64, 1), X / 2, None, SCALES, "normal"), precision=0.2)


def test_two_branches_are_those_that_have_names():
    """Oracle: `Residual`, `Product` and `Concatenate`, second derivations of the same rules."""
    branch, shortcut = Serial(RELU, conv()), Dense(1)
    pairs = (
        (Parallel(branch, shortcut), Residual(branch, shortcut)),
        (Parallel(branch, shortcut, join="product"), Product(branch, shortcut)),
        (Parallel(Serial(), branch, join="concatenate"), Concatenate(branch)),
        (Parallel(branch), branch),
    )
    for ours, named in pairs:
        for end in ((Flatten(),), (GlobalPool(),)):
            same(kernels(Dense(1), ours, *end), kernels(Dense(1), named, *end))


def test_concatenated_channels_have_the_weighted_mean_of_kernels():
    """Oracle: the mean over all channels, five of one branch and three of the other."""
    one, other = (Dense(5), RELU), (Dense(3), ERF)
    beside = kernels(Parallel(Serial(*one), Serial(*other), join="concatenate"))
    expected = [(5 * a + 3 * b) / 8 for a, b in zip(kernels(*one), kernels(*other), strict=True)]
    same(beside, expected)


def test_concatenated_positions_stand_in_blocks():
    """Oracle: the branches' kernels in two blocks, and zeros between different weights."""
    one, other = kernels(conv()), kernels(Dense(1))
    for ours, a, b in zip(
        kernels(Parallel(conv(), Dense(1), join="concatenate", axis=0)), one, other, strict=True
    ):
        expected = np.zeros((3, 3, 8, 8))
        expected[..., :4, :4], expected[..., 4:, 4:] = a, b
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)
    # A flattened readout needs s = s′ only, and finds the mean of both.
    below = Parallel(conv(), Dense(1), join="concatenate", axis=-2)
    flat = kernels(below, Flatten())
    means = [
        (a + b) / 2
        for a, b in zip(kernels(conv(), Flatten()), kernels(Dense(1), Flatten()), strict=True)
    ]
    same(flat, means)


def test_an_index_takes_entries_of_the_kernel_of_all_positions():
    """Oracle: the same entries, taken from the kernel of the network without the index."""
    images = X.reshape(3, 2, 2, 2)
    first = Serial(Conv(4, (1, 2), padding="same"), RELU)
    everything = kernels(first, x=images)
    image = kernels(first, Index(1, slice(None, None, -1)), x=images)
    same(image, [kernel[:, :, 1, 1, ::-1, ::-1] for kernel in everything])
    point = kernels(first, Index(1, 0), x=images)
    same(point, [kernel[:, :, 1, 1, 0, 0] for kernel in everything])
    # Some channels are like all: nothing changes.
    same(kernels(Dense(8), Index(..., slice(0, 3)), RELU), kernels(Dense(8), RELU))


def test_repeated_layers_are_layers_in_series():
    """Oracle: the layers, written out."""
    block = Serial(Dense(1), RELU)
    same(kernels(repeat(block, 3), Flatten()), kernels(*[Dense(1), RELU] * 3, Flatten()))
    assert repeat(block, 0) == Serial()
    with pytest.raises(ValueError, match="count must be at least 0, got -1"):
        repeat(block, -1)


def test_correlated_branches_are_refused_in_words():
    made = Serial(Dense(1), RELU)
    with pytest.raises(ValueError, match="all branches of a sum but one must end with layers"):
        kernels(Parallel(made, made), Dense(1))
    with pytest.raises(ValueError, match="branches of a product but one must be made by layers"):
        kernels(Dense(1), Parallel(Serial(), RELU, join="product"))
    with pytest.raises(ValueError, match="Product needs a branch or shortcut"):
        kernels(Dense(1), Product(Product(Dense(1))))  # u · (u · Wu) has fourth moments of u
    with pytest.raises(ValueError, match="a concatenation of positions but one"):
        kernels(Parallel(made, made, join="concatenate", axis=0), GlobalPool())
    with pytest.raises(ValueError, match="to choose among channels"):
        kernels(Index(..., slice(0, 1)))
    kernels(Parallel(made, made, join="product"), Dense(1))  # independent, though of mean not 0
    kernels(Parallel(made, made, join="concatenate", axis=0), Flatten())  # pairs are not asked for


def test_sequences_of_one_shorter_length_agree_with_unmasked_ones():
    """Oracle: the same network without masks, of sequences with two positions of four."""
    missing = jnp.broadcast_to(jnp.arange(4) >= 2, (3, 4))
    short = (
        Parallel(Dense(1), conv(window=1)),
        Parallel(Serial(RELU, conv()), Dense(1), join="product"),
        Parallel(conv(), Dense(1), join="concatenate"),
        *(Dense(1), RELU, Parallel(Dense(1), Dense(1), join="concatenate", axis=0), ERF),
    )
    for end in ((GlobalPool(),), (Dense(1), ERF, GlobalPool())):
        masked = infinite_kernels(Serial(*short, *end), Masked(X, missing), None, SCALES, "normal")
        same(masked, kernels(*short, *end, x=X[:, :2]))
    longer = (*short[:3], Dense(1), RELU)
    masked = infinite_kernels(
        Serial(*longer, Index(1), Dense(1)), Masked(X, missing), None, SCALES, "normal"
    )
    same(masked, kernels(*longer, Index(1), Dense(1), x=X[:, :2]))
    einsum = Einsum("sc,st->tc", np.eye(4)[:, :2] + 0.5)
    masked = infinite_kernels(
        Serial(*longer, einsum, Dense(1)), Masked(X, missing), None, SCALES, "normal"
    )
    einsum = Einsum("sc,st->tc", np.eye(2) + 0.5)
    same(masked, kernels(*longer, einsum, Dense(1), x=X[:, :2]))
