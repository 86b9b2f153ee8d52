"""A card as data: JSON for programs, a table of pandas with a row for each of its rows.

A number that is not finite is null in JSON: an end of an interval that is not known, or not there.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from theorylab.answers.table import as_frame
from theorylab.typing import DataFrame
from theorylab.version import __version__

from .measure import Row

if TYPE_CHECKING:
    from .card import Card


def as_json(card: "Card") -> dict[str, Any]:
    """A card as JSON has it.

    Example:
        >>> from theorylab.checkup import Card
        >>> as_json(Card(rows=(), verdict=(), about={"inputs": 20.0}))["about"]
        {'inputs': 20.0}
    """
    return {
        "theorylab": __version__,
        "about": {name: _plain(value) for name, value in card.about.items()},
        "verdict": [{"rule": rule, "words": words} for rule, words in card.verdict],
        "rows": [row_json(row) for row in card.rows],
    }


def row_json(row: Row) -> dict[str, Any]:
    """A row as JSON has it; what only a reading has is null where there is none.

    Example:
        >>> from theorylab.checkup.rows.curvature import MEASURES
        >>> row_json(Row(MEASURES[0], "missing", reason="pass x="))["value"] is None
        True
    """
    measure, reading = row.measure, row.reading
    found: dict[str, Any] = dict.fromkeys(_OF_READINGS)
    if reading is not None:
        found = {name: _plain(getattr(reading, name)) for name in _OF_READINGS}
    source = measure.source
    return {
        "name": measure.name,
        "group": measure.group,
        "title": measure.title,
        "status": row.status,
        **found,
        "seconds": _plain(row.seconds),
        "reason": row.reason,
        "source": {"key": source.key, "system": source.system, "place": source.place},
        "experiment": measure.experiment,
    }


def as_table(card: "Card") -> DataFrame:
    """A card as a table of pandas, one row each; what was not measured is NaN.

    Example:
        >>> from theorylab.checkup import Card
        >>> as_table(Card(rows=(), verdict=(), about={})).empty
        True
    """
    rows = [_columns(row) for row in card.rows]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {}
    return as_frame(columns, ("row",))


_OF_READINGS = (
    "value",
    "low",
    "high",
    "certainty",
    "method",
    "meaning",
    "products",
    "details",
)


def _columns(row: Row) -> dict[str, str | float | int]:
    """What a table has of a row."""
    reading, measure = row.reading, row.measure
    return {
        "name": measure.name,
        "group": measure.group,
        "title": measure.title,
        "status": row.status,
        "value": math.nan if reading is None else reading.value,
        "low": math.nan if reading is None else reading.low,
        "high": math.nan if reading is None else reading.high,
        "certainty": "" if reading is None else reading.certainty,
        "meaning": "" if reading is None else reading.meaning,
        "method": "" if reading is None else reading.method,
        "products": 0 if reading is None else reading.products,
        "seconds": row.seconds,
        "reason": row.reason,
        "source": str(measure.source),
        "experiment": measure.experiment,
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it: numbers of NumPy as Python's, what is not finite as null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    return float(value) if math.isfinite(value) else None
