"""Finite networks with parallel branches, and with parts of their inputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import Activation, Conv, Dense, Serial, network, summary
from theorylab.models.branches import Parallel, repeat
from theorylab.models.custom_layer import CustomLayer
from theorylab.models.einsum import Einsum
from theorylab.models.masks import output_mask
from theorylab.models.selection import Index, Span
from theorylab.models.unfold import im2col

X = jax.random.normal(jax.random.key(0), (3, 4, 2))
BRANCHES = (Dense(5), Serial(Activation("relu"), Conv(5, (3,), padding="same")))


@pytest.mark.parametrize(
    ("join", "axis", "joined"),
    [
        ("sum", -1, lambda parts: parts[0] + parts[1]),
        ("product", -1, lambda parts: parts[0] * parts[1]),
        ("concatenate", -1, lambda parts: jnp.concatenate(parts, axis=2)),
        ("concatenate", 0, lambda parts: jnp.concatenate(parts, axis=1)),
    ],
)
def test_branches_see_one_input_and_are_joined(join, axis, joined):
    """Oracle: every branch as a network of its own, with its part of the parameters."""
    both = Parallel(*BRANCHES, join=join, axis=axis)
    model = network(both, X.shape[1:])
    params = model.init(jax.random.key(1))
    parts = [
        network(branch, X.shape[1:]).apply(own, X)
        for branch, own in zip(BRANCHES, params, strict=True)
    ]
    outputs = model.apply(params, X)
    np.testing.assert_array_equal(outputs, joined(parts))
    assert outputs.shape[1:] == both.output_shape(X.shape[1:])


def test_branches_that_do_not_fit_are_refused_in_words():
    narrow = Dense(3)
    with pytest.raises(ValueError, match=r"a sum needs branches of one shape, got \[\(5,\), \(3,"):
        Parallel(Dense(5), narrow).output_shape((2,))
    with pytest.raises(ValueError, match="one shape outside of axis 0"):
        Parallel(Dense(5), narrow, join="concatenate", axis=0).output_shape((4, 2))
    with pytest.raises(ValueError, match=r"axis must be an axis of one output.*got 2"):
        Parallel(Dense(5), join="concatenate", axis=2).output_shape((4, 2))
    with pytest.raises(ValueError, match="at least one branch, got none"):
        Parallel()
    both = Parallel(Dense(5), narrow, join="concatenate", axis=0)
    assert repr(both).endswith("join='concatenate', axis=0)")


def test_repeated_layers_have_weights_of_their_own():
    """Oracle: the layers written out; their parameters are as many, and differ."""
    model = network(repeat(Dense(2), 3), (2,))
    params = model.init(jax.random.key(0))
    assert jax.tree.map(jnp.shape, params) == ({"weight": (2, 2)},) * 3
    assert len({float(each["weight"][0, 0]) for each in params}) == 3
    assert "2.weight" in summary(model.parameters)


@pytest.mark.parametrize(
    ("index", "where"),
    [
        (Index(0), np.s_[:, 0]),
        (Index(-1, ...), np.s_[:, -1]),
        (Index(slice(1, None, 2)), np.s_[:, 1::2]),
        (Index(..., slice(0, 1)), np.s_[:, :, 0:1]),
        (Index(slice(None, None, -1), slice(None)), np.s_[:, ::-1]),
    ],
)
def test_an_index_is_that_of_arrays(index, where):
    """Oracle: NumPy."""
    model = network(index, X.shape[1:])
    expected = np.asarray(X)[where]
    np.testing.assert_array_equal(model.apply(model.init(jax.random.key(0)), X), expected)
    assert index.output_shape(X.shape[1:]) == expected.shape[1:]
    assert hash(index) == hash(Index(*index.entries))


def test_an_index_that_does_not_fit_is_refused_in_words():
    for index, words in (
        (Index(0, 0), "must keep the axis of channels"),
        (Index(4), r"must stay inside inputs of shape \(4, 2\), got 4"),
        (Index(slice(4, None)), "must keep something"),
        (Index(0, 0, 0), "an axis for every entry"),
    ):
        with pytest.raises(ValueError, match=words):
            index.output_shape((4, 2))
    with pytest.raises(ValueError, match=r"at most once"):
        Index(..., ...)
    with pytest.raises(TypeError, match="whole numbers, slices"):
        Index("a")
    assert repr(Index(0, ..., slice(1, 2))) == "Index(0, ..., slice(1, 2, None))"
    assert Index(slice(1, 2)).entries == (Span(1, 2, None),)


def test_convolutions_in_branches_unfold():
    """Oracle: the network with convolutions, from the same numbers."""
    both = Parallel(*BRANCHES)
    params = network(both, X.shape[1:]).init(jax.random.key(1))
    unfolded = network(im2col(both), X.shape[1:])
    shapes = jax.tree.map(jnp.shape, unfolded.init(jax.random.key(1)))
    again = jax.tree.map(lambda own, shape: own.reshape(shape), _nested(params), shapes)
    np.testing.assert_allclose(
        unfolded.apply(again, X), network(both, X.shape[1:]).apply(params, X), rtol=1e-12
    )


def _nested(params):
    dense, (nothing, conv) = params
    return dense, (nothing, ((), conv))


def test_masks_go_the_way_of_positions():
    """Oracle: the same arrays, made of the mask itself."""
    mask = jnp.array([[False, False, True, True], [False, True, True, True]])[..., None]
    early = jnp.array([[False, False, False, True]] * 2)[..., None]
    shape = (4, 2)
    cases = (
        (Parallel(Dense(2), Dense(2), join="concatenate", axis=0), jnp.tile(mask, (1, 2, 2))),
        (Parallel(Dense(2), Dense(1), join="concatenate"), jnp.tile(mask, (1, 1, 3))),
        (Parallel(Dense(2), Dense(2)), mask),
        (Parallel(Conv(2, (2,)), Conv(2, (2,))), mask[:, :3]),
        (Index(slice(None, None, -1)), jnp.tile(mask[:, ::-1], (1, 1, 2))),
        (Index(2), jnp.ones((2, 2), bool)),
        (Einsum("sc,st->tc", np.eye(4)[:, 1:3]), jnp.tile(mask[:, 1:3], (1, 1, 2))),
        (Einsum("sc,s->c", [0.0, 1.0, -1.0, 0.0]), jnp.array([[False] * 2, [True] * 2])),
    )
    for layer, expected in cases:
        found = np.broadcast_to(output_mask(layer, mask, shape), expected.shape)
        np.testing.assert_array_equal(found, expected, str(layer))
    both = output_mask(Parallel(Dense(2), Serial(Early(), Dense(2))), mask, shape)
    np.testing.assert_array_equal(both, mask & early)
    with pytest.raises(NotImplementedError, match="Cut must have a method output_mask"):
        output_mask(Cut(), mask, shape)


class Early(CustomLayer):
    """A layer that says itself what is missing after it."""

    def output_shape(self, input_shape):
        return input_shape

    def apply(self, params, x):
        return x

    def output_mask(self, mask, input_shape):
        return jnp.broadcast_to(jnp.arange(4)[None, :, None] == 3, mask.shape)


class Cut(CustomLayer):
    """A layer that changes positions, and does not."""

    def output_shape(self, input_shape):
        return (input_shape[0] - 1, input_shape[1])

    def apply(self, params, x):
        return x[:, 1:]
