"""A small tree of experiments that take no time, and folders of their own for every test."""

import sys
from pathlib import Path

import pytest

from theorylab.experiments.tree import Tree

TESTS = Path(__file__).parents[1]


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setattr(sys, "path", [str(TESTS), *sys.path])
    return Tree(TESTS / "toylab/experiments", "toylab.experiments", ("toys/coin", "toys/dice"))


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THEORYLAB_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("THEORYLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path
