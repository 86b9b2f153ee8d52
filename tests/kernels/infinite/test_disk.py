"""Kernels on disk are the kernels in memory; files are whole or not there."""

import jax
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels, infinite_kernels_on_disk
from theorylab.models import mlp

X = jax.random.normal(jax.random.key(0), (9, 3))


def test_files_hold_the_kernels(tmp_path):
    """Oracle: in memory; for one batch and two, over older files."""
    for x2 in (None, X[:4] + 1):
        stored = infinite_kernels_on_disk(tmp_path / "new", mlp([1, 1]), X, x2, block=4)
        for name, kernel, file in zip(
            ("nngp", "ntk"), infinite_kernels(mlp([1, 1]), X, x2, block=4), stored, strict=True
        ):
            assert isinstance(file, np.memmap)
            np.testing.assert_array_equal(file, kernel)
            np.testing.assert_array_equal(np.load(tmp_path / "new" / f"{name}.npy"), kernel)
        assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["nngp.npy", "ntk.npy"]


def test_what_is_interrupted_leaves_no_file(tmp_path, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("theorylab.kernels.infinite.disk.fill", stop)
    with pytest.raises(KeyboardInterrupt):
        infinite_kernels_on_disk(tmp_path, mlp([1, 1]), X)
    assert list(tmp_path.iterdir()) == []


def test_a_kernel_larger_than_the_disk_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 100}))
    with pytest.raises(OSError, match=r"the kernels need 1 kB, and .* has 100 bytes"):
        infinite_kernels_on_disk(tmp_path, mlp([1, 1]), X)
    with pytest.raises(ValueError, match="block must be at least 1"):
        infinite_kernels_on_disk(tmp_path, mlp([1, 1]), X, block=0)
