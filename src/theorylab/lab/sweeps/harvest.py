"""What a table needs of one outcome: its config, the scalars of its Result, its findings.

    config · one row for each repetition: NAME, final_NAME · claim_1, claim_1_low, claim_1_high, …

The axes of an array are read off its annotation in the experiment's file, `Float[Measured, "s t"]`:
`s` is the repetitions, `t` is time. Axes of length one are passed over. An array that is left with
repetitions gives a column with a number for each, one that is left with nothing the same number for
all; one with time gives its last entry, as final_NAME. Other arrays have no column.
"""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from theorylab.lab.outcome import Outcome

REPETITION, TIME = "s", "t"  # the letters of axes, see docs/notation.md
FINAL = "final_"

Row = dict[str, Any]


def harvest(outcome: Outcome, path: Path) -> list[Row]:
    """The rows of one outcome: one for each repetition, or a single one.

    Args:
        outcome: With its arrays.
        path: The experiment's file.
    """
    common: Row = {name: _single(value) for name, value in outcome.config.items()}
    measured = scalars(outcome.arrays, axes_of(path))
    lengths = {len(values) for values in measured.values() if values.ndim}
    number = max(lengths, default=1)
    rest = _findings(outcome) | {
        "as_expected": outcome.as_expected,
        "seconds": outcome.seconds,
        "key": outcome.key,
    }
    rows = []
    for repetition in range(number):
        each = {
            name: values[repetition] if values.ndim else values[()]
            for name, values in measured.items()
            if values.ndim == 0 or len(values) == number
        }
        numbers = {name if name not in common else f"{name}_": v.item() for name, v in each.items()}
        rows.append(common | {"repetition": repetition} | numbers | rest)
    return rows


def scalars(
    arrays: Mapping[str, np.ndarray], axes: Mapping[str, tuple[str, ...]]
) -> dict[str, np.ndarray]:
    """What of the arrays is a number, or a number for each repetition.

    Args:
        arrays: By name.
        axes: The letters of their axes, where they are known.

    Example:
        >>> loss = np.array([[3.0, 1.0], [4.0, 2.0]])
        >>> scalars({"loss": loss, "rate": np.array(0.1)}, {"loss": ("s", "t"), "rate": ()})
        {'final_loss': array([1., 2.]), 'rate': array(0.1)}
    """
    found = {}
    for name, array in arrays.items():
        letters = axes.get(name, ("",) * array.ndim)
        if array.dtype.kind not in "biuf" or len(letters) != array.ndim:
            continue
        kept = [place for place, size in enumerate(array.shape) if size != 1]
        # A single repetition stays one: its axis goes with the others of length one.
        left = tuple(letters[place] for place in kept)
        values = array.reshape([array.shape[place] for place in kept])
        if left in ((), (REPETITION,)):
            found[name] = values
        elif left in ((TIME,), (REPETITION, TIME)):
            found[FINAL + name] = values[..., -1]
    return found


@cache
def _axes(path: Path, changed: int) -> dict[str, tuple[str, ...]]:
    """The letters of the arrays of `Result`, by name; of a record inside it they are not known."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return {}
    found = {}
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name != "Result":
            continue
        for item in node.body:
            match item:
                case ast.AnnAssign(
                    target=ast.Name(id=name),
                    annotation=ast.Subscript(
                        slice=ast.Tuple(elts=[_, ast.Constant(value=str(words))])
                    ),
                ):
                    found[name] = tuple(word.lstrip("*") for word in words.split())
    return found


def axes_of(path: Path) -> dict[str, tuple[str, ...]]:
    """The letters of the axes of every array that the file of an experiment annotates."""
    try:
        return _axes(path, path.stat().st_mtime_ns)
    except OSError:
        return {}


def _findings(outcome: Outcome) -> Row:
    """Value, interval and verdict of every claim, by its number from 1 on."""
    row: Row = {}
    for number, judged in enumerate(outcome.judged, start=1):
        finding, name = judged.finding, f"claim_{number}"
        row |= {
            name: finding.measured,
            f"{name}_low": finding.low,
            f"{name}_high": finding.high,
            f"{name}_verdict": str(finding.verdict),
        }
    return row


def _single(value: Any) -> Any:
    """A field as a table has it: one of several numbers is that number, more are a text."""
    if isinstance(value, list):
        return value[0] if len(value) == 1 else ",".join(map(str, value))
    return value
