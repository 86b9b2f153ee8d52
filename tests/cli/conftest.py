"""The command on a small tree, in folders of its own for every test."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from theorylab.cli import main
from theorylab.experiments.tree import Tree

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _own_folders(folders):
    pass


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def theorylab(tree: Tree, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """The command, in this process, on the small tree."""

    def command(*arguments: str) -> Answer:
        code = main(arguments, tree)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return command


SCRIPT = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
from theorylab.cli import main
from theorylab.experiments.tree import Tree
tree = Tree(Path({str(TESTS / "toylab/experiments")!r}), "toylab.experiments", ("toys/coin",))
code = main(tree=tree)
"""


@pytest.fixture
def script() -> str:
    """The command as a program for a process of its own; `code` is what it would exit with."""
    return SCRIPT
