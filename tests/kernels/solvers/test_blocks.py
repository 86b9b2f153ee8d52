"""Kernels in blocks, against the whole matrix; and memory that is not there."""

import numpy as np
import pytest

from theorylab.kernels.solvers import BlockProduct, blocks, gram, rows

X = np.random.default_rng(0).normal(size=(23, 3))
V = np.random.default_rng(1).normal(size=(23, 2))


def bell(x1, x2):
    return np.exp(-np.sum((np.asarray(x1)[:, None] - np.asarray(x2)[None]) ** 2, axis=2))


@pytest.fixture(params=[4, 100, 10_000])
def entries(request, monkeypatch):
    """Blocks of one row, of some rows that do not divide 23, and one block for all."""
    monkeypatch.setattr(blocks, "_ENTRIES", request.param)


@pytest.mark.usefixtures("entries")
def test_blocks_make_the_whole():
    whole = np.asarray(bell(X, X))
    matrix = gram(bell, X)
    np.testing.assert_allclose(matrix, whole, rtol=1e-14)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(rows(bell, X[:5], X), whole[:5], rtol=1e-14)
    np.testing.assert_allclose(blocks.diagonal(bell, X), whole.diagonal(), rtol=1e-14)
    product = BlockProduct(bell, X, X[:7])
    np.testing.assert_allclose(product(V[:7]), whole[:, :7] @ V[:7], rtol=1e-12)
    np.testing.assert_allclose(product.transposed(V), whole[:7] @ V, rtol=1e-12)
    np.testing.assert_allclose(product.normal(V[:7]), whole[:7] @ whole[:, :7] @ V[:7], rtol=1e-12)


def test_what_does_not_fit_is_refused_before_work(monkeypatch):
    monkeypatch.setattr(blocks, "available_memory", lambda: 10**6)

    def never(x1, x2):
        raise AssertionError("no work should begin")

    with pytest.raises(
        MemoryError, match=r"500 × 500 in float64 needs 2 MB, and 1 MB are free: use"
    ):
        gram(never, np.zeros((500, 2)))
    with pytest.raises(MemoryError, match="600 × 500 in float32 needs 1 MB"):
        rows(never, np.zeros((600, 2)), np.zeros((500, 2)), np.float32)


def test_a_kernel_of_nan_is_refused():
    with pytest.raises(ValueError, match="the kernel must be finite"):
        gram(bell, np.where(X.max() == X, np.nan, X))
