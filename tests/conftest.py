"""Strict JAX for every test (float64, no silent broadcasting of ranks), and a small tree to run."""

import gc
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

# XLA deals a batch of factorisations to its pool of threads and waits for them in it: as many
# batches at once as there are threads wait for each other for ever. With one thread it deals none.
os.environ.setdefault("NPROC", "1")
# Threads of linear algebra wait by spinning: with a process for every core they take the tests'
# time, ten times what one thread needs. (Libraries read this when they are loaded.)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import jax
import pytest

from theorylab.experiments.tree import Tree
from theorylab.lab.compilation import kept_compilations

TESTS = Path(__file__).parent
MODULES = itertools.count(1)
SLOW = {("test_docs.py",), ("models", "test_network.py")}

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs experiments, by its path: `pytest -m "not experiments"` is the quick suite."""
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.experiments)


def is_slow(path: Path) -> bool:
    """Whether a test file runs an experiment, all blocks of the docs, or networks of full width."""
    if not path.is_relative_to(TESTS):
        return False
    parts = path.relative_to(TESTS).parts
    return (parts[:1] == ("experiments",) and len(parts) > 2) or parts in SLOW


def pytest_collection_finish() -> None:
    """What was imported stays: looking for garbage in it, over and over, took 4 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


@pytest.fixture(scope="session", autouse=True)
def kept_programs(pytestconfig: pytest.Config) -> Iterator[None]:
    """Nearly all of the tests' time is compiling: programs are kept in pytest's cache.

    Every process of pytest-xdist has a folder of its own, for JAX may read what another one has
    half written. The next run reads what it finds there; `pytest --cache-clear` forgets it.
    """
    assert pytestconfig.cache is not None
    process = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    with kept_compilations(pytestconfig.cache.mkdir("programs") / process):
        yield


@pytest.fixture(scope="module", autouse=True)
def few_programs() -> Iterator[None]:
    """Thousands of compiled programs fill gigabytes: forget them after every 150 modules."""
    yield
    if next(MODULES) % 150 == 0:
        jax.clear_caches()


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Experiments that take no time."""
    monkeypatch.setattr(sys, "path", [str(TESTS), *sys.path])
    return Tree(TESTS / "toylab/experiments", "toylab.experiments", ("toys/coin", "toys/dice"))


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store and a cache of the test's own."""
    monkeypatch.setenv("THEORYLAB_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("THEORYLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path
