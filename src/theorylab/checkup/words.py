"""A card as text, in the words that terminal, notebook and page share.

Reading ─► "12.3 ± 0.2", "95 %"        a number to the place of its error, and how certain
Row     ─► Line                        everything about it, as text
card    ─► heading, groups of lines
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from theorylab.answers.digits import number
from theorylab.answers.text import with_error
from theorylab.report.numbers import duration, interval

from .measure import Reading, Row

if TYPE_CHECKING:
    from .card import Card

EVEN = 1.5  # the longer side of an interval over the shorter one, up to which ± tells both
SMALL = 0.01  # an error, relative to the number, of which the side does not matter
DIGITS = 4


class Line(NamedTuple):
    """A row of the card, as text."""

    name: str
    title: str
    value: str  # "12.3 ± 0.2"; empty if nothing was measured
    certainty: str
    meaning: str  # what theory says, or why there is no number
    details: dict[str, str]
    method: str
    seconds: str
    source: str
    experiment: str
    command: str  # how the experiment is run
    status: str


def value_of(reading: Reading) -> str:
    """Write a value with its interval: as ±, where both sides are alike.

    Example:
        >>> said = dict(method="", meaning="")
        >>> value_of(Reading(12.3, 12.1, 12.5, "95 %", **said))
        '12.3 ± 0.2'
        >>> value_of(Reading(0.01, 0.0, 0.4, "95 %", **said))
        '0.01 in [0, 0.4]'
        >>> value_of(Reading(2.0, 2.0, 2.0, "exact", **said))
        '2'
        >>> value_of(Reading(2.0, math.nan, math.nan, "estimate", **said))
        '2'
    """
    value, low, high = reading.value, reading.low, reading.high
    if math.isnan(low) or math.isnan(high) or low == high == value:
        return number(value)
    below, above = value - low, high - value
    if not (math.isfinite(below) and math.isfinite(above)) or min(below, above) < 0:
        return f"{number(value)} in {_interval(value, low, high)}"
    error = max(below, above)
    if error <= max(SMALL * abs(value), EVEN * min(below, above)):
        return with_error(value, error)
    return f"{number(value)} in {_interval(value, low, high)}"


def _interval(value: float, low: float, high: float) -> str:
    """An interval with as many digits as tell its ends from each other and from the value."""
    if low == high:
        return f"[{number(low)}, {number(high)}]"
    ends = {value, low, high}
    for digits in range(DIGITS - 1, 17):
        if len({number(end, digits) for end in ends}) == len(ends):
            return interval(low, high, digits)
    return interval(low, high, 17)


def line_of(row: Row) -> Line:
    """Everything about a row, as text.

    Example:
        >>> from theorylab.checkup.rows.curvature import MEASURES
        >>> line = line_of(Row(MEASURES[0], "skipped", reason="it would take an hour"))
        >>> line.meaning, line.command
        ('skipped: it would take an hour', 'theorylab run curvature/spectrum')
    """
    measure, reading = row.measure, row.reading
    return Line(
        name=measure.name,
        title=measure.title,
        value="" if reading is None else value_of(reading),
        certainty="" if reading is None else reading.certainty,
        meaning=without(row) if reading is None else reading.meaning,
        details={} if reading is None else _details(reading),
        method="" if reading is None else reading.method,
        seconds="" if row.status == "missing" else duration(row.seconds),
        source=str(measure.source),
        experiment=measure.experiment,
        command=f"theorylab run {measure.experiment}",
        status=row.status,
    )


def without(row: Row) -> str:
    """Why a row has no number: what to pass, or what forces it.

    Example:
        >>> from theorylab.checkup.rows.curvature import MEASURES
        >>> without(Row(MEASURES[0], "missing", reason="pass learning_rate="))
        'not measured: pass learning_rate='
    """
    begins = {"missing": "not measured", "skipped": "skipped", "failed": "failed"}
    return f"{begins.get(row.status, row.status)}: {row.reason or 'no reason is known'}"


def groups_of(rows: Sequence[Row]) -> list[tuple[str, list[Line]]]:
    """The rows as text under the headings of their groups, in the card's order.

    Example:
        >>> from theorylab.checkup.rows.curvature import MEASURES
        >>> [name for name, lines in groups_of([Row(MEASURES[0], "missing")])]
        ['curvature']
    """
    groups: dict[str, list[Line]] = {}
    for row in rows:
        groups.setdefault(row.measure.group, []).append(line_of(row))
    return list(groups.items())


def about_of(card: "Card") -> str:
    """What was examined, on one line.

    Example:
        >>> from theorylab.checkup import Card
        >>> about_of(Card((), (), {"parameters": 1234.0, "loss": "squared, mean", "seconds": 2.0}))
        '1,234 parameters · loss: squared, mean · 2 s'
    """
    parts = []
    for name, value in card.about.items():
        if name == "seconds" and isinstance(value, int | float):
            parts.append(duration(value))
        elif isinstance(value, str):
            parts.append(f"{name}: {value}")
        else:
            whole = math.isfinite(value) and value == int(value)
            many = name.removesuffix("s") if value == 1 else name
            parts.append(f"{int(value):,} {many}" if whole else f"{number(value)} {many}")
    return " · ".join(parts)


def counts_of(rows: Sequence[Row]) -> str:
    """How many rows were measured, and how the others fared.

    Example:
        >>> from theorylab.checkup.rows.curvature import MEASURES
        >>> counts_of([Row(MEASURES[0], "missing"), Row(MEASURES[0], "failed")])
        '0 of 2 rows measured, 1 missing, 1 failed'
    """
    counts = {each: sum(row.status == each for row in rows) for each in _STATUSES}
    others = [f", {counts[each]} {each}" for each in _STATUSES[1:] if counts[each]]
    return f"{counts['measured']} of {len(rows)} rows measured{''.join(others)}"


_STATUSES = ("measured", "missing", "skipped", "failed")


def _details(reading: Reading) -> dict[str, str]:
    """Further numbers and words by name; what is empty is not told."""
    told = {name: value for name, value in reading.details.items() if value != ""}
    return {k: v if isinstance(v, str) else number(float(v)) for k, v in told.items()}
