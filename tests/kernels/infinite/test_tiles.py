"""Kernels in tiles are the kernels in one piece."""

import jax
import numpy as np
import pytest

from theorylab.kernels import infinite_diagonal, infinite_kernels
from theorylab.kernels.infinite.tiles import triangle
from theorylab.models import Activation, Conv, Dense, Dropout, Flatten, GlobalPool, Serial

X = jax.random.normal(jax.random.key(0), (7, 4, 2))
LAYERS = (Conv(1, (2,)), Activation("relu"))
NETWORKS = {
    "rectangles": Serial(*LAYERS, Dropout(0.7), Flatten(), Dense(1)),
    "lists": Serial(*LAYERS, Dropout(0.7), GlobalPool(), Dense(1)),
    "positions": Serial(*LAYERS),
}


@pytest.mark.parametrize(
    ("name", "block"), [("rectangles", 3), ("rectangles", 50), ("lists", 4), ("positions", 5)]
)
def test_tiles_of_any_size_give_the_same(name, block):
    """Oracle: one piece. The last tile is smaller, and half of a symmetric matrix is mirrored."""
    network = NETWORKS[name]
    one_piece = infinite_kernels(network, X, training=True)
    tiles = infinite_kernels(network, X, training=True, block=block)
    for whole, tiled in zip(one_piece, tiles, strict=True):
        np.testing.assert_allclose(tiled, whole, rtol=1e-12)
        turned = np.swapaxes(tiled, 0, 1)
        turned = np.swapaxes(turned, 2, 3) if turned.ndim == 4 else turned
        np.testing.assert_array_equal(tiled, turned)  # exactly, as solvers want it
    other = infinite_kernels(network, X, X[:3], training=True, block=block)
    apart = ~np.eye(7, 3, dtype=bool)  # another mask, if x comes in as x′
    for whole, tiled in zip(one_piece, other, strict=True):
        np.testing.assert_allclose(
            np.asarray(tiled)[apart], np.asarray(whole)[:, :3][apart], rtol=1e-12
        )


def test_a_large_diagonal_is_made_in_tiles(monkeypatch):
    """Oracle: in one piece."""
    network = NETWORKS["lists"]
    whole = infinite_diagonal(network, X)
    monkeypatch.setattr("theorylab.kernels.infinite.kernels._SMALL", 0)
    for one, other in zip(whole, infinite_diagonal(network, X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 30])
def test_entries_of_a_triangle_are_counted_row_by_row(size):
    """Oracle: NumPy's indices; and the last entries of a triangle too large to list."""
    count = size * (size + 1) // 2
    np.testing.assert_array_equal(triangle(np.arange(count), size), np.triu_indices(size))
    huge = 10**7
    last = huge * (huge + 1) // 2 - 1 - np.arange(3)
    rows, columns = triangle(last, huge)
    assert rows.tolist() == [huge - 1, huge - 2, huge - 2]
    assert columns.tolist() == [huge - 1, huge - 1, huge - 2]
