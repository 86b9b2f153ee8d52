"""Strict JAX for every test (float64, no silent broadcasting of ranks), and a small tree to run."""

import sys
from pathlib import Path

import jax
import pytest

from theorylab.experiments.tree import Tree

TESTS = Path(__file__).parent

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")


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
