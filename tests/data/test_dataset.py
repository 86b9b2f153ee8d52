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


def test_a_table_of_two_classes_has_signs_in_the_order_of_names():
    data = Dataset.from_table([[1, 2], [3, 4], [5, 6]], np.array(["no", "yes", "no"]))
    np.testing.assert_array_equal(data.y, [[-1], [1], [-1]])
    np.testing.assert_array_equal(data.x, [[1, 2], [3, 4], [5, 6]])
    assert data.x.dtype == data.y.dtype == jnp.float32
    assert "no −1, yes +1" in str(data)
    for column in (np.array([0, 1, 0]), np.array([[0.0], [1.0], [0.0]]), [False, True, False]):
        np.testing.assert_array_equal(Dataset.from_table(data.x, column).y, data.y)


def test_a_table_of_more_classes_is_one_hot_and_numbers_stay():
    x = np.arange(12.0).reshape(6, 2)
    np.testing.assert_array_equal(
        Dataset.from_table(x, [7, 5, 9, 5, 9, 7]).y, np.eye(3)[[1, 0, 2, 0, 2, 1]]
    )
    numbers = np.array([0.5, 1.0, 2.0, 2.5, 3.0, 4.0])
    np.testing.assert_array_equal(Dataset.from_table(x, numbers).y[:, 0], numbers)
    counts = Dataset.from_table(x, np.arange(6), classes=False)
    np.testing.assert_array_equal(counts.y[:, 0], np.arange(6))
    np.testing.assert_array_equal(Dataset.from_table(x, x).y, x)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (
            [[1, 2], [3, 4]],
            [0, 1, 1],
            r"as many targets .* got \(2, 2\) and \(3,",
        ),
        ([1, 2], [0, 1], r"needs inputs \(n, d\)"),
        ([[1, "a"], [3, 4]], [0, 1], "inputs must be numbers.*could not convert"),
        ([[1, 2], [3]], [0, 1], "inputs must be numbers, in rows of one length"),
        ([[1, np.nan], [3, 4]], [0, 1], r"1 that are not, first at \(0, 1\)"),
        ([[1, 1e300], [3, 4]], [0, 1], r"finite in float32, got 1 that are not"),
        ([[1], [3]], [1, 1], "at least two classes.*got 1 classes in 2 samples"),
        ([[1], [3], [4], [5]], ["a", "b", "c", "d"], "got 4 classes in 4 samples"),
        ([[1], [3]], np.array(["a", None]), "no gaps, got one in row 1"),
        ([[1], [3], [4]], np.array(["a", 1, 1], object), "classes must be of one kind"),
        ([[1], [3]], [0.5, np.nan], "targets must be finite"),
    ],
)
def test_bad_tables_are_refused(x, y, message):
    with pytest.raises(ValueError, match=message):
        Dataset.from_table(x, y)


def test_law_and_source_may_be_left_out():
    assert str(Dataset(jnp.ones((2, 3)), jnp.ones((2, 1)))) == "2 samples (3,) ─► (1,)."


def test_complex_numbers_are_refused():
    """Their real parts would be taken."""
    with pytest.raises(ValueError, match=r"inputs must be numbers, .* got complex ones"):
        Dataset.from_table(np.ones((4, 2)) * 1j, np.array([0, 1, 0, 1]))
