"""Make the API reference and the table of experiments from the code: nothing in it is typed.

    src/theorylab/<room>/__init__.py ─► docs/reference/<room>/index.md   what the room exports
    src/theorylab/<room>/<module>.py ─► docs/reference/<room>/<module>.md   the rest of a module
    src/theorylab/experiments/**/*.py ─► docs/reference/experiments.md

A name stands once, under the shortest path from which it can be imported, with the types of its
arguments. Modules are read, not imported, so it takes seconds.
"""

import re
import shutil
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from docstrings import cell, markdown  # beside this file
from members import (
    PACKAGE,
    UNDOCUMENTED,
    Place,
    described,
    documented,
    dotted,
    first_line,
    is_private,
    parsed,
    public,
    resolved,
)
from theorylab.experiments.entry import Entry
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.sources import DOCUMENTS

ROOT = Path(__file__).parents[1]
REFERENCE = Path(__file__).parent / "reference"
WIDE = "---\nhtml_theme.sidebar_secondary.remove: true\n---"


def write_reference(folder: Path) -> None:
    """Write an index, the pages of every room and one of all experiments; what was there goes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = rooms()
    for room in names:
        write_package(PACKAGE / room, folder / room, frozenset())
    (folder / "typing.md").write_text(module_page(PACKAGE / "typing.py"), encoding="utf-8")
    (folder / "index.md").write_text(index_page(names), encoding="utf-8")
    table = experiments_page(EXPERIMENTS.entries())
    (folder / "experiments.md").write_text(table, encoding="utf-8")


def rooms() -> list[str]:
    """The rooms that a user imports from, in the order of the architecture."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"^    (\w+) {2,}\S", page, flags=re.MULTILINE)
    shown = (room for room in named if (PACKAGE / room).is_dir())
    return [room for room in shown if room not in UNDOCUMENTED]


def index_page(names: Sequence[str]) -> str:
    """What can be imported from the top, and the rooms, each with what it is about."""
    top = resolved(PACKAGE / "__init__.py")
    about = {room: first_line(parsed(PACKAGE / room / "__init__.py")) for room in names}
    lines = [f"- [{room}]({room}/index.md): {markdown(line)}" for room, line in about.items()]
    lines += ["- [typing](typing.md): the names of types that signatures share"]
    parts = [
        "# API reference",
        "Every public name, under the path from which it is imported, as in "
        "`from theorylab.kernels import ntk`. A room's page has what the room itself exports; the "
        "pages of its modules have the rest.",
        "\n".join(lines),
    ]
    own = {name: place for name, place in top.items() if place.file.parent == PACKAGE}
    rest = [_pointer(name, place) for name, place in sorted(top.items()) if name not in own]
    parts += ["## theorylab", "```{py:module} theorylab\n```"]
    parts += [place.entry("theorylab", name) for name, place in sorted(own.items())]
    parts += ["Names of the rooms that `theorylab` itself has too, as `theorylab.ntk`:"]
    parts += ["\n".join(rest)]
    children = [*(f"{room} <{room}/index>" for room in names), "typing <typing>"]
    return "\n\n".join([*parts, toctree(children)]) + "\n"


def write_package(package: Path, folder: Path, shown: frozenset[tuple[Path, str]]) -> bool:
    """Write the pages of a package: its own names, those of its modules that are not shown yet.

    Args:
        package: The folder of the package.
        folder: Where its pages go.
        shown: What pages above have: the file and name of each definition.
    """
    exported = resolved(package / "__init__.py")
    own = {n: p for n, p in exported.items() if p.file and p.identity not in shown}
    own = {n: p for n, p in own.items() if p.file.is_relative_to(package)}
    shown |= {place.identity for place in own.values()}
    children = []
    for path in sorted(package.iterdir()):
        if is_private(path):
            continue
        if path.is_dir() and (path / "__init__.py").is_file():
            if write_package(path, folder / path.name, shown):
                children.append(f"{path.name} <{path.name}/index>")
        elif path.suffix == ".py" and (text := module_page(path, shown)):
            folder.mkdir(parents=True, exist_ok=True)
            page = "index_" if path.stem == "index" else path.stem  # index.md is the package's own
            (folder / f"{page}.md").write_text(text, encoding="utf-8")
            children.append(f"{path.stem} <{page}>")
    guests = {n: p for n, p in exported.items() if p.file and not p.file.is_relative_to(package)}
    if not (own or children):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    text = package_page(package, own, guests, children)
    (folder / "index.md").write_text(text, encoding="utf-8")
    return True


def package_page(
    package: Path, own: dict[str, Place], guests: dict[str, Place], children: Sequence[str]
) -> str:
    """The names that a package exports, then the list of its modules."""
    module = dotted(package)
    parts = [f"# {module}", described(parsed(package / "__init__.py"))]
    kind = "module" if package.parent == PACKAGE else "currentmodule"
    parts += [f"```{{py:{kind}}} {module}\n```"]
    for name in sorted(own, key=str.lower):
        parts.append(own[name].entry(module, name))
    if guests:
        parts += ["Also here: " + ", ".join(_link(p, n) for n, p in sorted(guests.items())) + "."]
    if children:
        parts += ["## Modules", "Names that are imported from a module of their own:"]
        parts += [toctree(children, hidden=False)]
    return "\n\n".join(part for part in parts if part) + "\n"


def module_page(path: Path, shown: frozenset[tuple[Path, str]] = frozenset()) -> str:
    """The public names of a module that no page above has; nothing if there are none."""
    rest = {n: p for n, p in public(path).items() if p.identity not in shown}
    if not rest:
        return ""
    module = dotted(path)
    parts = [f"# {module}", described(parsed(path)), f"```{{py:currentmodule}} {module}\n```"]
    parts += [place.entry(module, name) for name, place in rest.items()]
    return "\n\n".join(part for part in parts if part) + "\n"


def toctree(children: Sequence[str], hidden: bool = True) -> str:
    """The pages below a page."""
    options = ":hidden:\n" if hidden else ":maxdepth: 1\n"
    return f"```{{toctree}}\n{options}\n" + "\n".join(children) + "\n```"


def experiments_page(entries: Sequence[Entry]) -> str:
    """Every experiment: a table for each room."""
    number = sum(len(entry.claims) for entry in entries)
    parts = [WIDE, "# Experiments", f"{len(entries)} experiments with {number} claims."]
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


def _pointer(name: str, place: Place) -> str:
    return f"- {_link(place, name)}: {markdown(place.summary)}"


def _link(place: Place, name: str) -> str:
    return f"{{py:obj}}`{name} <{documented(place)}>`"


if __name__ == "__main__":
    write_reference(REFERENCE)
