"""Unfolded convolutions against `jax.lax`'s, with the same weights in another shape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import Activation, Conv, Dense, Flatten, Residual, Serial, Standard, network
from theorylab.models.unfold import Patches, im2col


@pytest.mark.parametrize("padding", ["valid", "same", "circular"])
def test_an_unfolded_network_is_the_same_network(padding):
    """Oracle: the convolution of `jax.lax`, which takes weights (*window, in, out)."""
    inner = Conv(3, (3, 3), padding="same", weight_scale=2.0)
    architecture = Serial(
        *(Conv(3, (3, 2), (2, 1), padding), Activation("relu"), Residual(inner), Flatten()),
        Dense(2),
    )
    settings = ((7, 6, 2), Standard(), "normal")
    folded = network(architecture, *settings)
    flat = network(im2col(architecture), *settings)
    key = jax.random.key(0)
    params, x = folded.init(key), jax.random.normal(key, (4, 7 * 6 * 2)).reshape(4, 7, 6, 2)
    like = flat.init(key)
    # The same leaves in the same order: only weights of convolutions change their shape.
    leaves = zip(jax.tree.leaves(params), jax.tree.leaves(like), strict=True)
    moved = [leaf.reshape(other.shape) for leaf, other in leaves]
    outputs = flat.apply(jax.tree.unflatten(jax.tree.structure(like), moved), x)
    np.testing.assert_allclose(outputs, folded.apply(params, x), rtol=1e-11)
    scales = [
        [leaf.scaling for leaf in jax.tree.leaves(each.parameters, is_leaf=_is_parameter)]
        for each in (folded, flat)
    ]
    assert scales[0] == scales[1]


def _is_parameter(node):
    return hasattr(node, "scaling")


def test_patches_are_the_windows_in_order():
    x = jnp.arange(12.0).reshape(1, 4, 3, 1)
    patches = network(Patches((2, 2), (2, 1)), (4, 3, 1)).apply((), x)
    expected = [[[0, 1, 3, 4], [1, 2, 4, 5]], [[6, 7, 9, 10], [7, 8, 10, 11]]]
    np.testing.assert_array_equal(patches[0], expected)


def test_windows_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"positions must be at least the window \(3, 3\)"):
        network(Patches((3, 3)), (2, 2, 1))
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        Patches((0,))
