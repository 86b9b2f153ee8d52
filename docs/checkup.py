"""The rows of the check-up and the rules of its verdict, as tables: nothing in them is typed.

    theorylab.checkup.rows  ─► docs/gallery/checkup-rows.txt    a table for each group
    theorylab.checkup.rules ─► docs/gallery/checkup-rules.txt   a list, in the order of the rules

`docs/concepts/checkup.md` includes both.
"""

import inspect
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

from docstrings import cell, markdown  # beside this file
from theorylab.checkup import Measure
from theorylab.checkup.rows import MEASURES
from theorylab.checkup.rules import RULES, Rule

ROWS, RULES_FILE = "checkup-rows.txt", "checkup-rules.txt"


def write_checkup(folder: Path) -> None:
    """Write the tables of rows and the list of rules.

    Args:
        folder: Where they go; it must be there.
    """
    (folder / ROWS).write_text(rows_text(MEASURES.values()), encoding="utf-8")
    (folder / RULES_FILE).write_text(rules_text(RULES), encoding="utf-8")


def rows_text(measures: Iterable[Measure]) -> str:
    """A table for each group: name, what it is, what it needs, its source, its experiment."""
    parts = []
    for group, rows in groupby(measures, key=lambda measure: measure.group):
        lines = [
            "| row | what it is | needs | source | shown by |",
            "|---|---|---|---|---|",
            *(_row(measure) for measure in rows),
        ]
        parts += [f"### {markdown(group.capitalize())}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _row(measure: Measure) -> str:
    needs = ", ".join(f"`{name}=`" for name in measure.needs)
    experiment = f"[{cell(measure.experiment)}](../gallery/{measure.experiment}.md)"
    cells = (f"`{measure.name}`", cell(measure.title), needs, cell(str(measure.source)), experiment)
    return f"| {' | '.join(cells)} |"


def rules_text(rules: Mapping[str, Rule]) -> str:
    """A list of the rules, each with when it speaks, as its docstring says."""
    lines = [
        f"{number}. *{markdown(name)}*: {markdown(inspect.getdoc(rule) or '')}"
        for number, (name, rule) in enumerate(rules.items(), start=1)
    ]
    return "\n".join(lines) + "\n"
