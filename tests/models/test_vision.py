"""Networks for images: shapes, parameters counted by hand, symmetries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import ntk
from theorylab.models import network, resnet, vit, wide_resnet
from theorylab.models.vision import myrtle


def num_parameters(architecture, shape):
    model = network(architecture, shape)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def test_a_wide_resnet_has_the_parameters_of_its_blocks():
    """By hand, WRN-10-2 of RGB images: 3·16·9, then 9(ab + bb) + ab for each block, then 128."""
    blocks = [(16, 32), (32, 64), (64, 128)]
    expected = 3 * 16 * 9 + sum(9 * (a * b + b * b) + a * b for a, b in blocks) + 128
    assert num_parameters(wide_resnet(10, 2), (8, 8, 3)) == expected
    deeper = expected + sum(9 * 2 * b * b for _, b in blocks)  # a second block in every group
    assert num_parameters(wide_resnet(16, 2), (8, 8, 3)) == deeper


def test_batch_norms_of_a_wide_resnet_have_gains_and_offsets():
    """By hand, WRN-10-2: two for every channel that comes to an activation."""
    channels = 16 + 32 + 32 + 64 + 64 + 128 + 128
    plain = num_parameters(wide_resnet(10, 2, normalized=True), (8, 8, 3))
    batch = num_parameters(wide_resnet(10, 2, normalized=True, norm="batch"), (8, 8, 3))
    assert batch - plain == 2 * channels


def test_resnet_18_has_the_parameters_of_its_blocks():
    """By hand, of RGB images: blocks as above; the first group changes no shape."""
    changes = [(64, 128), (128, 256), (256, 512)]
    expected = 3 * 64 * 9 + 512 + 9 * 4 * 64 * 64
    expected += sum(9 * (a * b + 3 * b * b) + a * b for a, b in changes)
    assert num_parameters(resnet(), (32, 32, 3)) == expected


def test_a_vision_transformer_has_the_parameters_of_its_blocks():
    """By hand: 16 pixels to 8 channels, two blocks of 4 · 64 and 2 · 8 · 32 weights, 8 out."""
    expected = 16 * 8 + 2 * (4 * 64 + 2 * 8 * 32) + 8
    assert num_parameters(vit(2, width=8, num_heads=2), (8, 8, 1)) == expected


def test_myrtle_has_the_parameters_of_its_convolutions():
    expected = 9 * (3 * 2 + 2 * 4 + 4 * 6 + 6 * 8) + 8 * 10
    assert num_parameters(myrtle([2, 4, 6, 8], 10), (32, 32, 3)) == expected


@pytest.fixture(scope="module")
def images():
    return jax.random.normal(jax.random.key(1), (3 * 8 * 8,)).reshape(3, 8, 8, 1)


def test_the_order_of_patches_does_not_count(images):
    """Invariance: without position embeddings a vision transformer reads a set of patches."""
    model = network(vit(1, width=8, num_heads=2), (8, 8, 1))
    params = model.init(jax.random.key(0))
    swapped = jnp.roll(images, 4, axis=1)  # the upper and the lower patches
    np.testing.assert_allclose(
        model.apply(params, swapped), model.apply(params, images), rtol=1e-10
    )
    mixed = jnp.roll(images, 1, axis=1)
    assert jnp.abs(model.apply(params, mixed) - model.apply(params, images)).max() > 1e-3


@pytest.mark.parametrize("normalized", [False, True])
def test_a_wide_resnet_is_homogeneous_unless_it_is_normalised(images, normalized):
    """f(2x) = 2 f(x) of a ReLU network without bias; every input is read by itself."""
    model = network(wide_resnet(10, 1, base=2, normalized=normalized), (8, 8, 1))
    params = model.init(jax.random.key(0))
    once, twice = model.apply(params, images), model.apply(params, 2 * images)
    assert bool(jnp.allclose(twice, 2 * once, rtol=1e-9)) != normalized
    np.testing.assert_allclose(model.apply(params, images[:1]), once[:1], rtol=1e-9)


def test_kernels_read_them(images):
    """Oracle: the kernel by products with the network's own Jacobian."""
    model = network(wide_resnet(10, 1, base=2), (8, 8, 1))
    params = model.init(jax.random.key(0))
    structured = ntk(model.apply, params, images, method="structured")
    np.testing.assert_allclose(
        structured, ntk(model.apply, params, images, method="jacobian"), rtol=1e-8
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wide_resnet(12), "depth must be 10, 16, 22, ..., got 12"),
        (lambda: resnet(4, blocks=0), "blocks must be at least 1, got 0"),
        (lambda: wide_resnet(10, 0), "widening must be at least 1, got 0"),
        (lambda: myrtle([8]), r"channels must be four numbers, got \[8\]"),
        (lambda: vit(width=10, num_heads=4), "width must be a multiple of 4 heads, got 10"),
        (lambda: vit(depth=0), "depth must be at least 1, got 0"),
        (
            lambda: network(vit(patch=3), (8, 9, 1)),
            r"must be multiples of its patches' \(3, 3\), got \(8, 9\)",
        ),
        (lambda: vit(num_outputs=0), "num_outputs must be at least 1, got 0"),
    ],
)
def test_bad_sizes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
