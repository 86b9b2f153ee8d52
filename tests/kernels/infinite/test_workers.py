"""Pieces of work, by several threads and devices."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels
from theorylab.kernels.infinite import workers
from theorylab.kernels.infinite.kernels import make_reading
from theorylab.models import NTK, mlp

X = jax.random.normal(jax.random.key(0), (5, 3))

ON_THREE_DEVICES = """
import jax, numpy as np
from theorylab.kernels import infinite_kernels
from theorylab.kernels.infinite import workers
from theorylab.models import mlp
assert len(set(workers._devices(9))) == 3
with jax.enable_x64(True):  # of this thread, and so of those that work for it
    x = jax.random.normal(jax.random.key(0), (5, 3), dtype=float)
    kernel = infinite_kernels(mlp([1, 1]), x, block=2).ntk
    assert kernel.dtype == float
    np.testing.assert_allclose(kernel, infinite_kernels(mlp([1, 1]), x).ntk, rtol=1e-12)
"""


def test_tiles_are_dealt_to_all_devices():
    """Oracle: one piece. In a process of its own, where the CPU counts as three devices."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", ON_THREE_DEVICES], check=True, env=os.environ | flags)


def test_every_piece_is_done_once_and_errors_come_through():
    reading = make_reading(mlp([1]), X, NTK(), "none", False, tangent=True)
    done = []
    workers.compute(_double, reading, 7, lambda number: (np.full(2, float(number)),), store(done))
    assert sorted(done) == [(number, 2.0 * number) for number in range(7)]

    def fail(number, result):
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        workers.compute(_double, reading, 7, lambda number: (np.zeros(2),), fail)


def test_pieces_are_done_in_the_precision_of_the_caller_which_stays_as_it_was():
    """Oracle: the type of a number made by JAX, in the threads that work and after them."""
    reading = make_reading(mlp([1]), X, NTK(), "none", False, tangent=True)
    seen = []

    def prepare(number):
        seen.append(str(jax.numpy.zeros(()).dtype))
        return (np.zeros(2, np.float32),)

    for double in (False, True):
        with jax.enable_x64(double):
            workers.compute(_double, reading, 5, prepare, lambda number, result: None)
            seen.append(str(jax.numpy.zeros(()).dtype))
    assert seen == ["float32"] * 7 + ["float64"] * 7
    assert jax.numpy.zeros(()).dtype == float


def test_another_xla_without_these_options_works_too(monkeypatch):
    """Oracle: the kernels with them."""
    expected = infinite_kernels(mlp([1, 1]), X)
    monkeypatch.setattr(workers, "_QUICK_OPTIONS", {"xla_option_of_another_version": True})
    workers._program.cache_clear()
    np.testing.assert_allclose(infinite_kernels(mlp([1, 1]), X).ntk, expected.ntk, rtol=1e-12)
    workers._program.cache_clear()


def _double(reading, x):
    return 2 * x


def store(done):
    return lambda number, result: done.append((number, float(result[0])))
