"""What a run leaves behind: the claims with their findings, the arrays, the figure.

experiment + config ─► conduct ─► Outcome ─► store ─► report
"""

import base64
import html
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from theorylab.answers.digits import number
from theorylab.claims.claim import Finding, Kind, Source, Verdict, usual_verdict

from .requests import Value as Value

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True)
class Judged:
    """A claim beside what was found about it."""

    statement: str
    formula: str  # LaTeX, may be empty
    source: Source
    kind: Kind
    expected: Verdict
    finding: Finding
    quote: str = ""  # the source's own words
    regime: str = ""  # where it can be judged
    why: str = ""  # the expected verdict is not the one that its kind leads to expect
    demand: str = ""  # whose number it is: "source", "derived: …", "lab: …"

    @property
    def as_expected(self) -> bool:
        """Whether the verdict surprises nobody; what was not judged cannot surprise."""
        return self.finding.verdict in (self.expected, Verdict.NOT_JUDGED)

    @property
    def not_reproduced(self) -> bool:
        """Whether the source's statement was found not to hold here, as was known before."""
        known = self.expected != usual_verdict(self.kind)
        return known and self.finding.verdict == self.expected


@dataclass(frozen=True, eq=False, repr=False)  # arrays have no truth value, and are long
class Outcome:
    """One experiment, run whole with one config."""

    experiment: str  # "dynamics/catapult"
    title: str
    formula: str  # LaTeX
    preset: str  # "smoke", "default" or "paper": where the config started from
    config: dict[str, Value]  # every field
    judged: tuple[Judged, ...]
    arrays: dict[str, np.ndarray]  # the Result by name; empty when read for a report only
    figure: str  # SVG
    seconds: float  # of the run, its judgement and its drawing
    environment: dict[str, str]  # theorylab, jax, numpy, python, platform, precision
    key: str  # the hash under which the store keeps it
    stored: bool = False  # read from the store instead of run
    description: str = ""  # what it is about, as the module says it
    failure: str = ""  # why there is no figure
    sources: dict[str, str] = field(default_factory=dict)  # documents besides the five: titles

    @property
    def as_expected(self) -> bool:
        """Whether every verdict is the expected one, and nothing failed."""
        return not self.failure and all(judged.as_expected for judged in self.judged)

    def plot(self) -> "Figure":
        """The figure, drawn again from the arrays: a figure of matplotlib, to be changed or saved.

        Raises:
            ValueError: The outcome was read without its arrays, or is of a file of the user's.
        """
        from .redraw import redraw

        return redraw(self)

    def to_pandas(self) -> "DataFrame":
        """A table of the claims, one in a row, with what was measured and what was demanded."""
        from theorylab.answers.table import as_frame

        rows = [_columns(judged) for judged in self.judged]
        columns = {name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {}
        return as_frame(columns, ("claim",))

    def __repr__(self) -> str:
        expected = "as expected" if self.as_expected else "not as expected"
        return (
            f"<Outcome of {self.experiment} ({self.preset}): {len(self.judged)} claims, {expected}>"
        )

    def __str__(self) -> str:
        """Every claim with its verdict, a line each."""
        rows = [f"{judged.finding.verdict:12}  {judged.statement}" for judged in self.judged]
        failure = [f"failed: {self.failure}"] if self.failure else []
        return "\n".join([f"{self.experiment} ({self.preset}): {self.title}", *rows, *failure])

    def _repr_html_(self) -> str:
        """What a notebook shows: the figure, and the table of claims with their verdicts."""
        heading = f"<p><b>{html.escape(self.experiment)}</b> {html.escape(self.title)}</p>"
        failure = f"<p>{html.escape(self.failure)}</p>" if self.failure else ""
        svg = base64.b64encode(self.figure.encode()).decode()  # an image runs no script
        alt = html.escape(f"Figure: {self.title}")
        figure = f'<img alt="{alt}" src="data:image/svg+xml;base64,{svg}">' if self.figure else ""
        head = "".join(f'<th scope="col">{name}</th>' for name in _HEAD)
        rows = "".join(_row(judged) for judged in self.judged)
        style = "color: inherit; background: transparent; text-align: left"
        table = (
            f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        )
        return heading + figure + failure + table


def _columns(judged: Judged) -> dict[str, str | float | bool]:
    """What a table has of a claim."""
    finding = judged.finding
    return {
        "verdict": str(finding.verdict),
        "expected": str(judged.expected),
        "as_expected": judged.as_expected,
        "measured": finding.measured,
        "low": finding.low,
        "high": finding.high,
        "demand_low": finding.demand.low,
        "demand_high": finding.demand.high,
        "method": finding.method,
        "kind": judged.kind,
        "statement": judged.statement,
        "source": str(judged.source),
    }


def _row(judged: Judged) -> str:
    """A claim as a row of a table in HTML."""
    verdict = str(judged.finding.verdict)
    verdict += "" if judged.as_expected else f" (expected {judged.expected})"
    measured, interval = _numbers(judged.finding)
    demand = "" if judged.finding.verdict == Verdict.NOT_JUDGED else str(judged.finding.demand)
    cells = (verdict, judged.statement, measured, interval, demand, str(judged.source))
    left = '<td style="text-align: left">'
    return f"<tr>{''.join(f'{left}{html.escape(cell)}</td>' for cell in cells)}</tr>"


_HEAD = ("verdict", "claim", "measured", "interval", "demanded", "source")


def _numbers(finding: Finding) -> tuple[str, str]:
    """What was measured, and its interval; nothing of what was not judged."""
    if finding.verdict == Verdict.NOT_JUDGED:
        return "", ""
    low, high = finding.low, finding.high
    unknown = math.isnan(low) or math.isnan(high)
    ends = "no interval" if unknown else f"{number(low)} to {number(high)}"
    return number(finding.measured), "exact" if low == high else ends
