"""The figures of a card: what the measures draw of their curves.

    row ─► figure ─► SVG, the same bytes whenever the row is the same
    card ─► one figure with a panel for each row that draws

A row whose figure fails has none, and costs the others nothing: what was saved by another version
may lack a curve.
"""

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from theorylab.answers.figure import Picture, drawn, styled

from .measure import Row

if TYPE_CHECKING:
    from .card import Card

_ACROSS = 3  # panels beside each other
_SIZE = (4.8, 3.4)  # of a panel, in inches


def drawn_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows that have a figure: measured, with a measure that draws it, and without error.

    Example:
        >>> from theorylab.checkup.rows.curvature import MEASURES
        >>> drawn_rows([Row(MEASURES[0], "missing")])
        []
    """
    return [row for row in rows if row_figure(row) is not None]


def row_figure(row: Row) -> Figure | None:
    """The figure of one row; None if it has none.

    Example:
        >>> from theorylab.checkup.rows.curvature import MEASURES
        >>> row_figure(Row(MEASURES[0], "missing")) is None
        True
    """
    if row.reading is None or row.measure.draw is None:
        return None
    try:
        return drawn(**{row.measure.title: lambda axes: _draw(row, axes)})
    except Exception:  # of a measure; the row's number stands without
        return None


def row_svg(row: Row) -> str:
    """The figure of one row as the text of an SVG file; empty if it has none.

    Example:
        >>> from theorylab.checkup.rows.curvature import MEASURES
        >>> row_svg(Row(MEASURES[0], "missing"))
        ''
    """
    file = io.StringIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.hashsalt"] = "theorylab"
        try:
            figure = row_figure(row)
            if figure is None:
                return ""
            figure.savefig(file, format="svg", metadata={"Date": None})
        except Exception:  # ticks and labels are laid out only now
            return ""
    return file.getvalue()


def card_figure(card: "Card") -> Figure:
    """One figure with a panel for each row that draws.

    Raises:
        ValueError: No row does.

    Example:
        >>> from theorylab.checkup import Card
        >>> card_figure(Card(rows=(), verdict=(), about={}))
        Traceback (most recent call last):
        ...
        ValueError: a card must have a row with curves to be drawn, got none.
    """
    rows = drawn_rows(card.rows)
    if not rows:
        raise ValueError("a card must have a row with curves to be drawn, got none.")
    across = min(_ACROSS, len(rows))
    down = math.ceil(len(rows) / across)
    figure = Picture(figsize=(_SIZE[0] * across, _SIZE[1] * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for row, axes in zip(rows, panels, strict=False):
        styled(axes, row.measure.title)
        _draw(row, axes)
    for axes in panels[len(rows) :]:
        axes.set_axis_off()
    return figure


def _draw(row: Row, axes: Axes) -> None:
    assert row.reading is not None, "a row without a reading draws nothing"
    assert row.measure.draw is not None, "nor does one whose measure cannot"
    row.measure.draw(row.reading, axes)
