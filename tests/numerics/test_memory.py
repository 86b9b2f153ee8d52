"""Memory: what the system says, and limits made up in files."""

import os
from pathlib import Path

import jax
import numpy as np
import pytest

from theorylab.numerics import memory
from theorylab.numerics.memory import traced_bytes


@pytest.fixture
def groups(monkeypatch):
    """Write what control groups would say, instead of asking the system."""

    def write(files: dict[str, str]):
        def read_text(path: Path) -> str:
            if str(path) not in files:
                raise FileNotFoundError(path)
            return files[str(path)]

        monkeypatch.setattr("theorylab.numerics.memory.Path.read_text", read_text)

    return write


def test_there_is_memory_and_no_more_than_the_machine_has():
    available = memory.available_memory()
    assert available is not None
    assert 0 < available <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_a_containers_limit_counts_without_its_file_cache(groups):
    groups(
        {
            "/proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n",
            "/proc/self/cgroup": "0::/a/b\n",
            "/sys/fs/cgroup/a/b/memory.max": "max\n",
            "/sys/fs/cgroup/a/memory.max": "1000000\n",
            "/sys/fs/cgroup/a/memory.current": "700000\n",
            "/sys/fs/cgroup/a/memory.stat": "anon 5\ninactive_file 200000\n",
        }
    )
    assert memory.available_memory() == 500_000


def test_without_limits_it_is_what_the_machine_has_free(groups):
    groups({"/proc/meminfo": "MemAvailable:    8000 kB\n"})
    assert memory.available_memory() == 8000 * 1024


def test_elsewhere_it_is_what_the_machine_has_or_unknown(groups, monkeypatch):
    groups({})
    assert memory.available_memory() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    monkeypatch.delattr(os, "sysconf")
    assert memory.available_memory() is None


def test_on_an_accelerator_it_is_the_devices_own(monkeypatch):
    class Device:
        def memory_stats(self):
            return {"bytes_limit": 1000, "bytes_in_use": 300}

    monkeypatch.setattr(jax, "devices", lambda: [Device()])
    assert memory.available_memory() == 700


def test_traced_bytes_are_those_of_arrays_alive_together():
    """Oracle: by hand. Two matrices and their product live together; a scan keeps one step."""
    size = 1000 * 1000 * jax.numpy.ones(()).dtype.itemsize

    def product(n):
        one = jax.numpy.full((n, n), 2.0)
        return (one @ (one + 1)).sum()

    assert 3 * size <= traced_bytes(product, 1000) <= 3.1 * size

    def loop(steps):
        return jax.lax.scan(lambda x, _: (x @ x, None), jax.numpy.ones((1000, 1000)), length=steps)

    assert traced_bytes(loop, 10) == traced_bytes(loop, 10**9) <= 4 * size


def test_what_cannot_be_traced_is_said():
    with pytest.raises(TypeError, match=r"needs memory\(config\)"):
        traced_bytes(
            lambda n: np.asarray(jax.numpy.ones(n) + 1).sum() * float(jax.numpy.ones(())), 3
        )
