"""Finite networks of inputs with missing positions."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import (
    Activation,
    Architecture,
    AvgPool,
    BatchNorm,
    Concatenate,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    LayerNorm,
    Masked,
    Residual,
    SelfAttention,
    Serial,
    network,
)
from theorylab.models.architecture import ConvTranspose, Product
from theorylab.models.branches import Parallel
from theorylab.models.einsum import Einsum
from theorylab.models.masks import mask_constant, output_mask
from theorylab.models.mixing import Resize, Upsample
from theorylab.models.selection import Index
from theorylab.models.unfold import im2col

LENGTHS = np.array([6, 3, 1])
MASK = jnp.asarray(np.arange(6) >= LENGTHS[:, None])
X = jax.random.normal(jax.random.key(0), (3, 6, 2))
OTHER = jnp.where(MASK[..., None], jax.random.normal(jax.random.key(1), X.shape) * 1e6, X)
COSINE = Activation("cosine")  # 1 at 0, so what is missing must be made 0 after it
SEQUENCES = Serial(
    Conv(4, (3,), padding="same"),
    COSINE,
    LayerNorm(axes=(0, 1)),
    Residual(Serial(SelfAttention(4, 2, 2), COSINE)),
    LayerNorm(affine=True),
    SelfAttention(3, 1, 2, scaling="linear", tied=True),
    Product(Serial(Dense(3), COSINE)),
    Concatenate(Dense(2)),
    GlobalPool(),
    Dense(2),
)


def test_what_stands_at_missing_positions_changes_no_bit():
    """An invariance: other numbers there, NaN too; of the outputs and of their gradients."""
    model = network(SEQUENCES, (6, 2), bias="normal")
    params = model.init(jax.random.key(2))

    @jax.jit
    def outputs(x):
        def squares(params):
            return jnp.square(model.apply(params, Masked(x, MASK))).sum()

        return model.apply(params, Masked(x, MASK)), jax.grad(squares)(params)

    expected = outputs(X)
    for x in (OTHER, jnp.where(MASK[..., None], jnp.nan, X)):
        jax.tree.map(np.testing.assert_array_equal, outputs(x), expected)


def test_a_sequence_that_ends_early_is_a_shorter_sequence():
    """Oracle: the same network and parameters, of the shorter inputs without masks."""
    model = network(SEQUENCES, (6, 2), bias="normal")
    params = model.init(jax.random.key(2))
    masked = jax.jit(model.apply)(params, Masked(OTHER, MASK))
    for index, length in ((1, 3), (2, 1)):
        shorter = jax.jit(network(SEQUENCES, (length, 2), bias="normal").apply)
        one = shorter(params, X[index : index + 1, :length])
        np.testing.assert_allclose(masked[index], one[0], rtol=1e-10)


@pytest.mark.parametrize("axes", [(-1,), (0,), (0, 1), (-3, 2), (0, 1, -1)])
def test_layer_norm_over_any_axes(axes):
    """Oracle: NumPy, with missing positions as NaN that its means leave out."""
    x = jax.random.normal(jax.random.key(4), (2, 3, 4, 5))
    mask = jax.random.bernoulli(jax.random.key(5), 0.3, (2, 3, 4))
    model = network(LayerNorm(epsilon=0.2, axes=axes), (3, 4, 5))
    found = model.apply((), Masked(x, mask))
    there = np.where(mask[..., None], np.nan, x)
    over = tuple(axis + 1 if axis >= 0 else axis for axis in axes)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of means of nothing
        mean = np.nanmean(there, axis=over, keepdims=True)
        variance = np.nanmean((there - mean) ** 2, axis=over, keepdims=True)
    expected = np.nan_to_num((there - mean) / np.sqrt(variance + 0.2))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_batch_statistics_are_those_of_what_is_there():
    """Oracle: NumPy over the unmasked positions."""
    outputs = network(BatchNorm(epsilon=0.0), (6, 2))
    params = outputs.init(jax.random.key(0))
    found = outputs.apply(params, Masked(OTHER, MASK))
    there = np.asarray(X)[~np.asarray(MASK)]
    expected = (there - there.mean(axis=0)) / there.std(axis=0)
    np.testing.assert_allclose(np.asarray(found)[~np.asarray(MASK)], expected, rtol=1e-10)
    assert not np.any(np.asarray(found)[np.asarray(MASK)])


IMAGE_MASK = np.asarray(jax.random.bernoulli(jax.random.key(3), 0.4, (2, 7, 6)))


@pytest.mark.parametrize("padding", ["valid", "same", "circular"])
@pytest.mark.parametrize(("window", "strides"), [((3, 2), (1, 1)), ((2, 4), (2, 3))])
def test_a_window_is_missing_if_its_middle_is(window, strides, padding):
    """Oracle: a convolution that reads the middle alone, (w − 1)//2 of positions 0, …, w − 1."""
    middle = np.zeros((*window, 1, 1))
    middle[(window[0] - 1) // 2, (window[1] - 1) // 2] = 1
    image = jnp.asarray(IMAGE_MASK[..., None].astype(float))
    for layer in (Conv(1, window, strides, padding), AvgPool(window, strides, padding)):
        mask = output_mask(layer, jnp.asarray(IMAGE_MASK[..., None]), (7, 6, 1))
        model = network(Conv(1, window, strides, padding), (7, 6, 1))
        weight = middle * np.sqrt(np.prod(window))  # the multiplier is 1/√fan-in
        expected = model.apply({"weight": jnp.asarray(weight)}, image)
        np.testing.assert_array_equal(mask, expected > 0.5)


def test_masks_through_layers_that_give_other_positions():
    """Oracle: by hand."""
    mask = jnp.array([False, True, False, False]).reshape(1, 4, 1)

    def after(layer: Architecture, channels: int = 2) -> str:
        found = output_mask(layer, mask, (4, channels))
        return "".join("x" if missing else "." for missing in np.asarray(found).ravel())

    assert after(ConvTranspose(1, (2,), (2,))) == "..xx...."
    assert after(ConvTranspose(1, (3,), (2,))) == "..xxx...."
    assert after(Upsample((2,))) == "..xx...."
    assert after(Upsample((3,), "linear")) == "....x......."
    assert after(Resize((2,), "nearest")) == "x."  # positions 1 and 3
    assert after(Resize((2,))) == ".."
    assert after(Flatten()) == "..xx...."
    assert after(GlobalPool()) == "."
    assert after(Residual(Conv(2, (3,), padding="same"))) == ".x.."
    assert after(Residual(Serial(Conv(2, (3,)), ConvTranspose(2, (3,))))) == ".x.."
    assert after(Index(slice(1, 3))) == "x."
    assert after(Index(1)) == "x"
    assert after(Index(..., slice(0, 1))) == ".x.."
    beside = Parallel(Conv(2, (3,)), Serial(), join="concatenate", axis=0)
    assert after(beside) == "x..x.."
    assert after(Parallel(Serial(), Conv(2, (3,), padding="same"), join="product")) == ".x.."
    assert after(Einsum("sc,ts->tc", [[0, 1, 0, 0], [0, 1, -1, 0]])) == "x."
    with pytest.raises(TypeError, match="no rule for masks through a _Shorter"):
        after(_Shorter())


class _Shorter(Architecture):
    def output_shape(self, input_shape):
        return (input_shape[0] - 1, input_shape[1])


def test_unfolding_keeps_masked_outputs():
    """Oracle: the convolution that is unfolded."""
    layers = Serial(Conv(3, (3,), (2,), "same"), COSINE, Flatten(), COSINE, Dense(2))
    model = network(layers, (6, 2))
    params = model.init(jax.random.key(0))
    plain = model.apply(params, Masked(X, MASK))
    flat = [jax.tree.map(lambda w: w.reshape(-1, 3), params[0])]
    unfolded = network(im2col(layers), (6, 2))
    structured = jax.tree.unflatten(
        jax.tree.structure(unfolded.init(jax.random.key(0))), jax.tree.leaves([flat, params[1:]])
    )
    np.testing.assert_allclose(unfolded.apply(structured, Masked(X, MASK)), plain, rtol=1e-12)


@pytest.mark.parametrize("constant", [-1.0, np.nan])
def test_a_constant_marks_what_is_missing(constant):
    """Oracle: the mask itself; a position with one other channel is there."""
    x = jnp.where(MASK[..., None], constant, X).at[0, 0, 0].set(constant)
    masked = mask_constant(x, constant)
    np.testing.assert_array_equal(masked.mask, MASK)
    expected = jnp.where(MASK[..., None], 0.0, X).at[0, 0, 0].set(0.0)
    np.testing.assert_array_equal(masked.x, expected)


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (MASK.astype(float), TypeError, "mask of inputs must be boolean, got an array of float64"),
        (MASK[:, :4], ValueError, r"every position, \(3, 6\), got shape \(3, 4\)"),
        (MASK[..., None], ValueError, r"every position, \(3, 6\), got shape \(3, 6, 1\)"),
    ],
)
def test_masks_that_do_not_fit_are_refused(mask, error, message):
    with pytest.raises(error, match=message):
        network(GlobalPool(), (6, 2)).apply((), Masked(X, mask))
