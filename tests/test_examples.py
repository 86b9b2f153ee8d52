"""Who looks a name up finds an example that runs: doctests, which the suite runs with the rest."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "theorylab"
# The rooms that have all examples.
HELD = (
    "numerics",
    "data",
    "models",
    "training",
    "kernels",
    "curvature",
    "dynamics",
    "features",
    "bias",
    "generalization",
    "incontext",
)
MODULES = sorted(path for room in HELD for path in (PACKAGE / room).rglob("*.py"))


def without_example(source: str, shown: frozenset[str]) -> set[str]:
    """Public functions, and the classes that a room shows, whose docstring has no example."""
    return {
        node.name
        for node in ast.parse(source).body
        if (isinstance(node, ast.FunctionDef) and not node.name.startswith("_"))
        or (isinstance(node, ast.ClassDef) and node.name in shown)
        if ">>> " not in (ast.get_docstring(node) or "")
    }


def shown_by(room: str) -> frozenset[str]:
    """The names that a room re-exports."""
    tree = ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return frozenset(alias.name for node in imports for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_every_public_name_has_an_example(path):
    room = path.relative_to(PACKAGE).parts[0]
    assert without_example(path.read_text(encoding="utf-8"), shown_by(room)) == set()


def test_a_missing_example_is_seen():
    with_one = 'def one():\n    """Give 1.\n\n    Example:\n        >>> one()\n        1\n    """'
    without = (
        'def two():\n    """Give 2."""\ndef _three(): ...\nclass Shown: ...\nclass Record: ...'
    )
    assert without_example(f"{with_one}\n{without}", frozenset({"Shown"})) == {"two", "Shown"}
