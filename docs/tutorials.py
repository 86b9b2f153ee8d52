"""Run the tutorials: a page of text and code becomes a page with results, and a notebook.

    docs/_tutorials/<name>.md ─► docs/tutorials/<name>.md, <name>-<i>.svg    what the site shows
                             └─► docs/tutorials/<name>.ipynb                 what a reader runs

A block ```python is run; the blocks of a page share one namespace. Below a block stands what it
printed and, if its last line is an expression, what a notebook would show of it. A tutorial that
needs a library that is not installed is run where it is: `python docs/tutorials.py pytorch`.
"""

import argparse
import ast
import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

SOURCES = Path(__file__).parent / "_tutorials"
TUTORIALS = Path(__file__).parent / "tutorials"
NEEDS = {"pytorch": "torch"}  # libraries that the project does not depend on
_BLOCK = re.compile(r"^```python\n(.*?)^```\n", flags=re.DOTALL | re.MULTILINE)


class Output(NamedTuple):
    """What a block of code gave: printed text, and its last value as text, HTML or a figure."""

    printed: str = ""
    text: str = ""
    html: str = ""
    figure: str = ""


class Cell(NamedTuple):
    """A piece of a page: prose, or code with what it gave."""

    source: str
    is_code: bool
    output: Output = Output()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tutorials that are named, or all that can be run here."""
    parser = argparse.ArgumentParser(description="Run the tutorials and write their pages.")
    parser.add_argument("names", nargs="*", help="tutorials; all unless told otherwise")
    write_tutorials(TUTORIALS, parser.parse_args(arguments).names)


def write_tutorials(folder: Path, names: Sequence[str] = ()) -> None:
    """Write the page and the notebook of each tutorial.

    One whose library is not installed keeps the page that is there, or is written without results.

    Args:
        folder: Where the pages go.
        names: Tutorials; by default all.
    """
    folder.mkdir(exist_ok=True)
    for path in sorted(SOURCES.glob("*.md")):
        if names and path.stem not in names:
            continue
        library = NEEDS.get(path.stem)
        can_run = library is None or find_spec(library) is not None
        page = folder / path.name
        if not can_run and page.exists():
            continue
        print(f"tutorial {path.stem}", file=sys.stderr)
        cells = list(run_cells(path.read_text(encoding="utf-8"), can_run))
        if not can_run:
            note = f"This page is shown without results: {library} was not there when it was made."
            cells.insert(1, Cell(f"\n*{note}*\n", is_code=False))
        page.write_text(as_page(cells, folder, path.stem), encoding="utf-8")
        notebook = json.dumps(as_notebook(cells), ensure_ascii=False, indent=1)
        page.with_suffix(".ipynb").write_text(notebook + "\n", encoding="utf-8")


def cells_of(source: str) -> Iterator[Cell]:
    r"""Take a page apart: prose and code in turn.

    Example:
        >>> [cell.is_code for cell in cells_of("# Title\n\n```python\n1 + 1\n```\n")]
        [False, True]
    """
    last = 0
    for found in _BLOCK.finditer(source):
        if text := source[last : found.start()].strip():
            yield Cell(text, is_code=False)
        yield Cell(found[1].rstrip("\n"), is_code=True)
        last = found.end()
    if text := source[last:].strip():
        yield Cell(text, is_code=False)


def run_cells(source: str, run: bool = True) -> Iterator[Cell]:
    r"""The cells of a page, with what their code gives.

    Example:
        >>> [cell.output.text for cell in run_cells("```python\n1 + 1\n```\n")]
        ['2']
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells_of(source):
        yield cell._replace(output=_run(cell.source, namespace)) if run and cell.is_code else cell


def _run(code: str, namespace: dict[str, Any]) -> Output:
    tree = ast.parse(code)
    last = tree.body[-1] if tree.body else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(tree.body[:-1], []), "<tutorial>", "exec"), namespace)
            value = eval(compile(ast.Expression(last.value), "<tutorial>", "eval"), namespace)
        else:
            exec(compile(tree, "<tutorial>", "exec"), namespace)
    return shown(value, printed.getvalue())


def shown(value: Any, printed: str = "") -> Output:
    r"""What a notebook would show of a value.

    Example:
        >>> shown(3, "so far\n")
        Output(printed='so far\n', text='3', html='', figure='')
    """
    if value is None:
        return Output(printed)
    if hasattr(value, "savefig"):
        return Output(printed, "a figure", figure=_svg(value))
    html = value._repr_html_() if hasattr(value, "_repr_html_") else ""
    return Output(printed, repr(value), html or "")


def as_page(cells: Sequence[Cell], folder: Path, name: str) -> str:
    """The page for the site; figures become files beside it."""
    parts = []
    for number, cell in enumerate(cells):
        if not cell.is_code:
            parts.append(cell.source)
            continue
        output = cell.output
        parts.append(f"```python\n{cell.source}\n```")
        if output.printed:
            parts.append(f"```text\n{output.printed.rstrip()}\n```")
        if output.figure:
            (folder / f"{name}-{number}.svg").write_text(output.figure, encoding="utf-8")
            parts.append(f"![What the code above draws]({name}-{number}.svg)")
        elif output.html:
            parts.append(f"```{{raw}} html\n<div class='shown'>{output.html}</div>\n```")
        elif output.text:
            parts.append(f"```text\n{output.text}\n```")
    link = f"This page as a notebook: {{download}}`{name}.ipynb`."
    return "\n\n".join([*parts, link]) + "\n"


def as_notebook(cells: Sequence[Cell]) -> dict[str, Any]:
    """The same as a notebook of Jupyter, format 4.5."""
    made = []
    for number, cell in enumerate(cells):
        kind = "code" if cell.is_code else "markdown"
        entry: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        entry["source"] = cell.source
        if cell.is_code:
            entry |= {"execution_count": None, "outputs": list(_outputs(cell.output))}
        made.append(entry)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": made}


def _outputs(output: Output) -> Iterator[dict[str, Any]]:
    if output.printed:
        yield {"output_type": "stream", "name": "stdout", "text": output.printed}
    if output.text:
        data = {"text/plain": output.text}
        data |= {"text/html": output.html} if output.html else {}
        data |= {"image/svg+xml": output.figure} if output.figure else {}
        yield {"output_type": "display_data", "data": data, "metadata": {}}


def _svg(figure: Any) -> str:
    import matplotlib.pyplot as plt

    text = io.StringIO()
    # The same figure gives the same bytes: no date, and names of shapes from a fixed salt.
    with plt.rc_context({"svg.hashsalt": "theorylab"}):
        figure.savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    return text.getvalue()


if __name__ == "__main__":
    main()
