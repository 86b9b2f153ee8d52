"""Tables against their sources, and made ones against the laws that they state."""

import numpy as np
import pytest

from theorylab.data import TABLES, table, tables


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_its_shape_and_classes(name):
    data = table(name)
    shapes = {
        "iris": (150, 4, 3),
        "wine": (178, 13, 3),
        "breast_cancer": (569, 30, 2),
        "diabetes": (442, 10, 2),
        "digits": (1797, 64, 10),
        "moons": (600, 2, 2),
        "circles": (600, 2, 2),
        "shells": (600, 10, 2),
        "chessboard": (600, 2, 2),
        "product": (600, 6, 2),
        "clusters": (600, 20, 3),
    }
    assert (data.num_samples, *data.input_shape, data.num_outputs) == shapes[name]
    np.testing.assert_array_equal(data.y.sum(axis=1), 1)
    assert float(data.y.mean(axis=0).min()) > 0.5 / data.num_outputs


def test_made_classes_follow_their_law():
    """Oracles: the stated rules, written another way."""
    x, y = (np.asarray(part) for part in (table("product").x, table("product").y[:, 1]))
    np.testing.assert_array_equal(y, np.sign(x[:, 0]) == np.sign(x[:, 1]))
    x, y = (np.asarray(part) for part in (table("shells").x, table("shells").y[:, 1]))
    assert np.sum(x[y == 1] ** 2, axis=1).min() > np.sum(x[y == 0] ** 2, axis=1).max()
    assert y.sum() == 300
    x, y = (np.asarray(part) for part in (table("chessboard").x, table("chessboard").y[:, 1]))
    middle = (np.abs(x - 0.5) < 1 / 6).sum(axis=1)  # of a cross, one coordinate is in the middle
    np.testing.assert_array_equal(y, middle == 1)
    x, y = (np.asarray(part) for part in (table("circles").x, table("circles").y[:, 1]))
    radius = np.linalg.norm(x, axis=1)
    np.testing.assert_allclose(
        [radius[y == 1].mean(), radius[y == 0].mean()], [0.52, 1.01], atol=0.03
    )
    x, y = (np.asarray(part) for part in (table("moons").x, table("moons").y[:, 1]))
    centres = [x[y == 0].mean(axis=0), x[y == 1].mean(axis=0)]
    np.testing.assert_allclose(centres, [[0, 2 / np.pi], [1, 0.5 - 2 / np.pi]], atol=0.15)


def test_seeds_make_other_rows_of_the_same_law():
    first, again, other = (table("clusters", seed).x for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_table_that_is_not_there_is_named(monkeypatch):
    with pytest.raises(ValueError, match=r"name must be one of iris, .* got 'irises'"):
        table("irises")

    def offline(*args, **kwargs):
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    with pytest.raises(OSError, match="blood could not be loaded from OpenML: no route to host"):
        tables._fetch("blood")
