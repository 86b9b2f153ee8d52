"""Make the reference from docstrings and from the tree of experiments: nothing in it is typed.

    src/theorylab/<room>/**.py ─► ast ─► docs/reference/<room>.md, index.md
    src/theorylab/experiments/<concept>/**.py ─► docs/reference/experiments.md

Modules are read, not imported, so it takes seconds. `generate.py` makes it with the gallery.
"""

import ast
import html
import re
import shutil
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from theorylab.experiments.entry import Entry
from theorylab.experiments.sources import DOCUMENTS
from theorylab.experiments.tree import EXPERIMENTS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "theorylab"
REFERENCE = Path(__file__).parent / "reference"

Definition = ast.FunctionDef | ast.ClassDef


def write_reference(folder: Path) -> None:
    """Write an index, a page for each room and one of all experiments; what was there goes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = rooms()
    for room in names:
        (folder / f"{room}.md").write_text(room_page(room), encoding="utf-8")
    (folder / "index.md").write_text(index_page(names), encoding="utf-8")
    table = experiments_page(EXPERIMENTS.entries())
    (folder / "experiments.md").write_text(table, encoding="utf-8")


def rooms() -> list[str]:
    """The rooms that a user imports from, in the order of the architecture."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"^    (\w+) {2,}\S", page, flags=re.MULTILINE)
    shown = (room for room in named if (PACKAGE / room).is_dir())
    return [room for room in shown if room not in ("experiments", "cli")]


def index_page(names: Sequence[str]) -> str:
    """The rooms, each with what it is about."""
    lines = [f"- [{room}]({room}.md): {markdown(first_line(_parsed(room)))}" for room in names]
    return "\n\n".join(["# Reference", "Every public name, room by room.", "\n".join(lines)]) + "\n"


def room_page(room: str) -> str:
    """The names that a room exports, then those of its modules that it does not."""
    exported = dict(exports(room))
    parts = [f"# theorylab.{room}", markdown(first_line(_parsed(room)))]
    if exported:
        lines = [entry(name, exported[name]) for name in sorted(exported, key=str.lower)]
        parts += [f"## from theorylab.{room} import …", "\n".join(lines)]
    for path in sorted((PACKAGE / room).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        rest = [node for node in definitions(tree) if node.name not in exported]
        if rest and not any(part.startswith("_") for part in path.with_suffix("").parts[-1:]):
            module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
            lines = [entry(node.name, node) for node in rest]
            parts += [f"## theorylab.{module}", markdown(first_line(tree)), "\n".join(lines)]
    return "\n\n".join(part for part in parts if part) + "\n"


def exports(room: str, package: str = "") -> Iterator[tuple[str, Definition | None]]:
    """What a package's `__init__.py` imports under its own name, with where it is defined."""
    tree, home = _parsed(room, package), PACKAGE / room / package
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            for alias in node.names:
                if alias.asname == alias.name and alias.name[0] != "_":
                    place = home.joinpath(*node.module.split("."))
                    yield alias.name, definition(place, alias.name)


def definition(place: Path, name: str) -> Definition | None:
    """Find a function or class in a module, or in what a package imports; None: it is neither."""
    file = place.with_suffix(".py")
    if not file.is_file():
        relative = place.relative_to(PACKAGE)
        package = "/".join(relative.parts[1:])
        return dict(exports(relative.parts[0], package)).get(name)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return next((node for node in definitions(tree) if node.name == name), None)


def definitions(tree: ast.Module) -> list[Definition]:
    """The public functions and classes of a module; classes with what they take from their base."""
    kinds = ast.FunctionDef | ast.ClassDef
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in classes.values():
        for base in map(ast.unparse, node.bases):
            node.body[1:1] = classes[base].body if base in classes else []  # below the docstring
    return [node for node in tree.body if isinstance(node, kinds) and node.name[0] != "_"]


def entry(name: str, node: Definition | None) -> str:
    """One name: its signature and the first line of its docstring."""
    if node is None:
        return f"- `{name}`"
    return f"- `{name}{signature(node)}`: {markdown(first_line(node))}"


def signature(node: Definition) -> str:
    """The arguments with their defaults, without their types.

    Example:
        >>> signature(ast.parse("def f(a: int, *, b=2, **c): pass").body[0])
        '(a, *, b=2, **c)'
    """
    if isinstance(node, ast.FunctionDef):
        bare = ast.parse(f"def f({ast.unparse(node.args)}): pass").body[0]
        assert isinstance(bare, ast.FunctionDef)
        for argument in ast.walk(bare.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return f"({ast.unparse(bare.args)})"
    init = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    init = [each for each in init if each.name == "__init__"]
    if init:
        return signature(init[-1]).replace("(self, ", "(").replace("(self)", "()")
    lines = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    fields = {
        ast.unparse(each.target): f"={ast.unparse(each.value)}" if each.value else ""
        for each in lines
        if "ClassVar" not in ast.unparse(each.annotation)
    }
    shown = [name + default for name, default in fields.items() if name[0] != "_"]
    return f"({', '.join(shown)})" if shown else ""


def first_line(node: ast.Module | Definition) -> str:
    """The first line of a docstring."""
    return (ast.get_docstring(node) or "").partition("\n")[0]


def experiments_page(entries: Sequence[Entry]) -> str:
    """Every experiment: a table for each concept."""
    number = sum(len(entry.claims) for entry in entries)
    parts = ["# Experiments", f"{len(entries)} experiments with {number} claims."]
    for concept, group in groupby(entries, key=lambda entry: entry.concept):
        rows = "\n".join(
            f"| [{cell(entry.name.partition('/')[2])}](../gallery/{entry.name}.md)"
            f" | {cell(entry.title)} | {len(entry.claims)} | {', '.join(entry.keys)} |"
            for entry in group
        )
        head = "| experiment | what it shows | claims | sources |\n|---|---|---|---|"
        parts += [f"## {concept}", f"    theorylab run {concept}/NAME", f"{head}\n{rows}"]
    listed = "\n".join(f"- {key}: {markdown(text)}" for key, text in DOCUMENTS.items())
    return "\n\n".join([*parts, "## Sources", listed]) + "\n"


def cell(text: str) -> str:
    """A text in a table."""
    return markdown(text).replace("|", "\\|")


def markdown(text: str) -> str:
    """A text in which no letter means anything to Markdown, except `code`."""
    pieces = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(piece if i % 2 else _plain(piece) for i, piece in enumerate(pieces))


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]#!])", r"\\\1", html.escape(text, quote=False))


def _parsed(room: str, package: str = "") -> ast.Module:
    file = PACKAGE / room / package / "__init__.py"
    return ast.parse(file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    write_reference(REFERENCE)
