"""A dataset is a pytree that knows its shapes, and is cut without losing a sample."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import Dataset, Sphere, linear_teacher


def _numbered(num_samples=6):
    x = jnp.arange(num_samples * 4.0).reshape(num_samples, 4)
    return Dataset(x, x[:, :2], law="numbers", source="test")


def test_shapes_law_and_source_are_said():
    data = _numbered()
    assert (data.num_samples, data.input_shape, data.num_outputs) == (6, (4,), 2)
    assert str(data) == "6 samples (4,) ─► (2,): numbers. Source: test."


def test_split_gives_back_every_sample_in_order():
    data = _numbered()
    first, rest = data.split(2)
    np.testing.assert_array_equal(jnp.concatenate([first.x, rest.x]), data.x)
    np.testing.assert_array_equal(jnp.concatenate([first.y, rest.y]), data.y)
    assert (first.num_samples, rest.num_samples, rest.law) == (2, 4, "numbers")


def test_shuffling_permutes_pairs_together():
    """Oracle: the first input coordinate names the sample, and y repeats it."""
    data = _numbered(50)
    shuffled = data.shuffled(jax.random.key(0))
    assert not np.array_equal(shuffled.x, data.x)
    np.testing.assert_array_equal(np.sort(shuffled.x[:, 0]), data.x[:, 0])
    np.testing.assert_array_equal(shuffled.y, shuffled.x[:, :2])


def test_reshaping_keeps_the_numbers():
    image = _numbered().reshaped(2, 2, 1)
    assert image.input_shape == (2, 2, 1)
    np.testing.assert_array_equal(image.x[1, :, :, 0], [[4, 5], [6, 7]])


def test_centred_inputs_have_length_1_and_differ_by_what_they_differed_from_the_mean():
    """Oracle: samples in a line lie on both sides of their mean, in one direction."""
    centred = _numbered(4).centred()
    direction = np.full(4, 0.5)
    expected = np.array([-1, -1, 1, 1])[:, None] * direction[None, :]
    np.testing.assert_allclose(centred.x, expected, rtol=1e-12)
    np.testing.assert_array_equal(centred.y, _numbered(4).y)
    assert "centred" in centred.law
    with pytest.raises(ValueError, match=r"must be flat to be centred, got \(2, 2\)"):
        _numbered().reshaped(2, 2).centred()


def test_a_dataset_goes_through_jit_vmap_and_tree_map():
    data = _numbered()
    assert float(jax.jit(lambda d: d.x.sum() + d.y.sum())(data)) == float(
        data.x.sum() + data.y.sum()
    )
    assert jax.tree.map(jnp.shape, data).x == (6, 4)
    keys = jax.random.split(jax.random.key(0), 3)
    weights = jnp.ones((5, 1))
    many = jax.vmap(lambda key: linear_teacher(key, Sphere(5), 7, weights))(keys)
    assert (many.x.shape, many.y.shape) == ((3, 7, 5), (3, 7, 1))
    one = linear_teacher(keys[1], Sphere(5), 7, weights)
    np.testing.assert_allclose(many.x[1], one.x, rtol=1e-14)
    assert many.law == one.law


@pytest.mark.parametrize("shapes", [((3, 2), (4, 1)), ((3,), (3, 1)), ((3, 2), (3,))])
def test_shapes_that_do_not_fit_are_refused(shapes):
    x, y = map(jnp.zeros, shapes)
    with pytest.raises((ValueError, TypeError)):  # TypeError from the shape checker of the tests
        Dataset(x, y, "", "")


def test_bad_cuts_are_refused():
    data = _numbered()
    with pytest.raises(ValueError, match=r"num_first must be in \(0, 6\), got 6"):
        data.split(6)
    with pytest.raises(ValueError, match=r"cannot be reshaped to \(3, 3\)"):
        data.reshaped(3, 3)
