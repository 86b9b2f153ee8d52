"""The reference of the documentation, which docs/reference.py reads off the code."""

import ast
import importlib
import inspect
import re
import sys
from pathlib import Path

import markdown as python_markdown
import pytest

import theorylab.kernels
from theorylab.experiments.tree import EXPERIMENTS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def reference(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    return importlib.import_module("reference")


def test_a_room_shows_every_name_with_its_signature_and_first_line(reference):
    """Oracle: Python's own signatures and docstrings of what is imported."""
    text = reference.room_page("kernels")
    for name in ("ntk", "posterior", "NTKRegressor", "Descent", "infinite_kernels", "Costs"):
        exported = getattr(theorylab.kernels, name)
        (line,) = re.findall(rf"^- `{name}\((.*)\)`: (.*)$", text, flags=re.MULTILINE)
        parameters = list(inspect.signature(exported).parameters)
        assert [each.partition("=")[0].strip() for each in line[0].split(", ")] == parameters
        first = (inspect.getdoc(exported) or "").partition("\n")[0]
        assert line[1] == reference.markdown(first)
    assert "## theorylab.kernels.applications.topology" in text
    assert "- `_" not in text


def test_every_room_has_a_page_and_every_experiment_a_row(reference, tmp_path):
    reference.write_reference(tmp_path / "reference")
    index = (tmp_path / "reference" / "index.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((\w+\.md)\)", index)
    assert {"numerics.md", "models.md", "kernels.md", "claims.md"} <= set(linked)
    assert all((tmp_path / "reference" / page).is_file() for page in linked)
    table = (tmp_path / "reference" / "experiments.md").read_text(encoding="utf-8")
    assert re.findall(r"gallery/([\w/]+)\.md", table) == list(EXPERIMENTS.names())
    rows = python_markdown.markdown(table, extensions=["tables"]).count("<tr>")
    assert rows == len(EXPERIMENTS.names()) + table.count("|---|---|---|---|")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(a: int, *, b: str = 'x', **c: int) -> int: pass", "(a, *, b='x', **c)"),
        ("class A:\n    x: int\n    y: float = 1.0\n    z: ClassVar[int] = 3", "(x, y=1.0)"),
        ("class A:\n    x: int\n    def __init__(self, *a: int): pass", "(*a)"),
        ("class A:\n    def __init__(self): pass", "()"),
        ("class A:\n    pass", ""),
    ],
)
def test_signatures_have_defaults_and_no_types(reference, code, expected):
    assert reference.signature(ast.parse(code).body[0]) == expected
