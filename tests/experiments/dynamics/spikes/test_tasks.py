import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import digits
from theorylab.experiments.dynamics.spikes._tasks import (
    image_network,
    task_data,
    task_shape,
    watched_bytes,
)
from theorylab.kernels import ntk
from theorylab.models import cnn, mlp, network, wide_resnet
from theorylab.numerics.memory import traced_bytes
from theorylab.training import empirical_risk, squared


def test_depth_counts_the_layers_with_weights():
    """Oracle: the builders of `models`, whose lists are one shorter."""
    assert image_network("mlp", 7, 5) == mlp([7] * 4)
    assert image_network("cnn", 7, 5, 10) == cnn([7] * 4, (3, 3), 10)
    assert image_network("wide_resnet", 10, 99) == wide_resnet(10, 10)


@pytest.mark.parametrize("kind", ["mlp", "cnn", "wide_resnet", "vit", "myrtle"])
def test_every_network_takes_the_data_that_is_drawn_for_it(kind):
    """There is one output for each label."""
    data_key = jax.random.key(0)
    data = task_data(kind, "contrast", 2)(data_key)
    assert data.input_shape == task_shape(kind, "contrast", "digits")
    model = network(image_network(kind, 1, 2), data.input_shape)
    outputs = jax.eval_shape(lambda key, x: model.apply(model.init(key), x), data_key, data.x)
    assert outputs.shape == data.y.shape


def test_images_are_two_classes_in_the_shape_of_the_network():
    """Oracle: every drawn image is one of those digits, with its sign."""
    drawn = task_data("cnn", "images", 20, "digits", (3, 8))(jax.random.key(0)).flat()
    pool = digits("standard", (3, 8), "sign")
    for x, y in zip(drawn.x, drawn.y, strict=True):
        same = (np.asarray(pool.x) == np.asarray(x)).all(axis=1)
        assert float(y[0]) in np.asarray(pool.y)[same, 0]


def test_polynomials_have_their_rank():
    """Oracle: the product of two inputs, to the noise; of rank 4, the sum of four monomials."""
    two = task_data("mlp", "rank-2", 50)(jax.random.key(0))
    np.testing.assert_allclose(two.y[:, 0], two.x[:, 0] * two.x[:, 1], atol=0.5)
    four = task_data("mlp", "rank-4", 50)(jax.random.key(0))
    expected = np.cumprod(np.asarray(four.x[:, :4]), axis=1).sum(axis=1)
    np.testing.assert_allclose(four.y[:, 0], expected, atol=0.5)


@pytest.mark.parametrize(
    ("kind", "width", "depth", "shape"),
    [("mlp", 128, 4, (64,)), ("cnn", 16, 4, (8, 8, 1)), ("wide_resnet", 1, 2, (8, 8, 1))],
)
def test_the_estimate_is_no_less_than_what_programs_hold_and_of_its_order(
    kind, width, depth, shape
):
    """Oracle: the arrays that are alive together in the kernel's program and in the gradient's."""
    model, n = network(image_network(kind, width, depth), shape), 48
    loss = empirical_risk(squared("mean"), model.apply)

    def kernel():
        params = model.init(jax.random.key(0))
        return ntk(model.apply, params, jnp.ones((n, *shape)), method="structured")

    def gradient():
        params = model.init(jax.random.key(0))
        return jax.grad(loss)(params, jnp.ones((n, *shape)), jnp.ones((n, 1)))

    held = max(map(traced_bytes, (kernel, gradient)))
    scale = jnp.ones(1).dtype.itemsize / 4  # the estimate is in single precision
    both = 2 * held / scale  # and of a run on each of two cores
    assert both <= watched_bytes(kind, width, depth, n, shape) <= 20 * both


def test_bytes_grow_with_what_is_held():
    """A lower bound: the weights of WRN-10-10, known to be 7.7 million and more, in 4 bytes."""
    shape = task_shape("wide_resnet", "images", "cifar10")
    assert watched_bytes("wide_resnet", 10, 2, 1, shape) > 4 * 7.7e6
    small, large = (watched_bytes("cnn", 8, 5, n, (8, 8, 1)) for n in (10, 20))
    assert small < large


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: image_network("mlp", 4, 1), "a depth from 2 to 100, got 4 and 1"),
        (lambda: image_network("cnn", 0, 3), "a width from 1 to 1000000"),
        (lambda: task_shape("vit", "rank-2", "digits"), "must be learned by mlp, got vit"),
        (lambda: task_data("mlp", "images", 1000), "at most 355 images, got 1000"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
