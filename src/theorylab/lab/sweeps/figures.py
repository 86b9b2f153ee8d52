"""Figures of a sweep, in the vocabulary of the experiments' own.

y measured                 curves over x, one for each value of hue: medians and bands
x and y positive, spaced
by factors                 the same on logarithmic axes, with the fitted exponents
y another swept field      a phase diagram: the colours are the medians of hue
"""

import itertools
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from theorylab.experiments.drawing import (
    curves,
    label_axes,
    panels,
    phase_diagram,
    scaling,
    tidy_ticks,
)
from theorylab.lab.failure import Refused

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .result import Sweep

MOST_CURVES = 12


def drawn(sweep: "Sweep", x: str, y: str, hue: str | None = None) -> "Figure":
    """Draw columns of a sweep over each other.

    Raises:
        Refused: A column is missing or has no numbers, or there are too many curves.
    """
    places, heights = _numbers(sweep, x), _numbers(sweep, y)
    if y in sweep.swept and x in sweep.swept:
        if hue is None:
            offer = ", ".join(name for name in sweep.numbers if name not in sweep.swept)
            raise Refused(f"{x} and {y} both vary, so hue must say what is shown, one of {offer}.")
        figure = _phases(sweep, (x, places), (y, heights), (hue, _numbers(sweep, hue)))
    else:
        figure = _curves(sweep, (x, places), (y, heights), hue)
    tidy_ticks(figure)
    return figure


def _curves(
    sweep: "Sweep", x: tuple[str, np.ndarray], y: tuple[str, np.ndarray], hue: str | None
) -> "Figure":
    """A curve for each value of hue, through the medians over whatever else varies."""
    labels = np.full(len(sweep), y[0]) if hue is None else sweep.column(hue)
    names = list(dict.fromkeys(labels.tolist()))
    if len(names) > MOST_CURVES:
        raise Refused(f"hue must have at most {MOST_CURVES} values, {hue} has {len(names)}.")
    figure, (axis,) = panels(sweep.experiment)
    named = [str(name) if hue is None else f"{hue} = {_short(name)}" for name in names]
    if _spans(x[1]) and _spans(y[1], most=1.0):
        ticks = np.unique(x[1])
        tables = [_aligned(ticks, x[1][labels == name], y[1][labels == name]) for name in names]
        scaling(axis, ticks, dict(zip(named, tables, strict=True)))
    else:
        for index, (name, label) in enumerate(zip(names, named, strict=True)):
            ticks, table = grouped(x[1][labels == name], y[1][labels == name])
            curves(axis, ticks, {label: table}, "o-", first_colour=index)
    label_axes(axis, x[0], y[0])
    return figure


def _aligned(ticks: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A column for each tick; medians only, unless all have as many entries."""
    places, table = grouped(x, y)
    if not np.isfinite(table).all():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a place without a finite number
            table = np.nanmedian(table, axis=0, keepdims=True)
    wide = np.full((len(table), len(ticks)), np.nan)
    wide[:, np.searchsorted(ticks, places)] = table
    return wide


def _phases(
    sweep: "Sweep",
    x: tuple[str, np.ndarray],
    y: tuple[str, np.ndarray],
    hue: tuple[str, np.ndarray],
) -> "Figure":
    """The median of a column at every point of the plane of two fields."""
    across, up = np.unique(x[1]), np.unique(y[1])
    values = np.full((len(up), len(across)), np.nan)
    for (row, height), (column, place) in itertools.product(enumerate(up), enumerate(across)):
        found = hue[1][(x[1] == place) & (y[1] == height)]
        if np.isfinite(found).any():
            values[row, column] = np.median(found[np.isfinite(found)])
    if min(values.shape) < 2:
        raise Refused(f"a phase diagram needs two values of {x[0]} and of {y[0]} at least.")
    figure, (axis,) = panels(sweep.experiment)
    phase_diagram(axis, across, up, values, hue[0])
    scales = "".join(
        letter for letter, ticks in (("x", across), ("y", up)) if _spans(ticks, most=0.2)
    )
    label_axes(axis, x[0], y[0], scales)
    return figure


def grouped(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values of x, each once, and a table with a column for each; short columns end in NaN.

    Example:
        >>> grouped(np.array([1, 2, 1]), np.array([5.0, 6.0, 7.0]))
        (array([1, 2]), array([[ 5.,  6.],
               [ 7., nan]]))
    """
    places = np.unique(x)
    columns = [y[x == place] for place in places]
    table = np.full((max(map(len, columns), default=0), len(places)), np.nan)
    for number, column in enumerate(columns):
        table[: len(column), number] = column
    return places, table


def _numbers(sweep: "Sweep", name: str) -> np.ndarray:
    column = sweep.column(name)
    if column.dtype.kind not in "biuf" or len(column) == 0:
        offer = ", ".join(sweep.numbers)
        raise Refused(f"{name} must be a column of numbers, such as one of {offer}.")
    return column.astype(float)


def _spans(values: np.ndarray, most: float = 0.1) -> bool:
    """Whether numbers are positive, and the smallest is a small share of the largest."""
    finite = values[np.isfinite(values)]
    return finite.size > 0 and bool(finite.min() > 0 and finite.min() <= most * finite.max())


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
