"""One style for every figure: `panels` gives a figure and its axes, ready to draw on.

`medians` and `directions` draw what several experiments show; `tidy_ticks` sets the ticks when all
is drawn, for only then it is known what an axis shows.

Figures are made without pyplot: no global state, nothing to close, no display needed.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import (
    AutoLocator,
    FixedLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    StrMethodFormatter,
)

# Okabe and Ito's colours, told apart by every eye, and a grey; black is for theory, colours for
# measurements. (Their yellow cannot be seen on white.)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
THEORY = {"color": "#222222", "linestyle": "--", "linewidth": 1.2}


def panels(*titles: str) -> tuple[Figure, list[Axes]]:
    """Make a figure with one panel for each title: up to three in a row, four as two by two.

    Example:
        >>> figure, axes = panels("loss", "sharpness")
        >>> len(axes)
        2
    """
    if not titles:
        raise ValueError("panels needs at least one title, got none.")
    columns = 2 if len(titles) == 4 else min(len(titles), 3)
    rows = -(-len(titles) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.4 * rows), layout="constrained")
    axes = list(np.ravel(figure.subplots(rows, columns)))
    for empty in axes[len(titles) :]:
        empty.remove()
    axes = axes[: len(titles)]
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, fontsize=10)
        axis.set_prop_cycle(color=COLOURS)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.tick_params(which="both", labelsize=8)
    return figure, axes


def tidy_ticks(figure: Figure) -> None:
    """Set the ticks of a figure that is drawn: nothing to read between powers, whole numbers whole.

    On a logarithmic axis the small ticks get no labels, which would run into each other; where it
    shows less than two powers, labels stand at 1, 2, 5, or at round numbers if it shows little.
    Where lines stand at whole numbers only, so do the labels under them. Ticks that an experiment
    sets itself stay.
    """
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() == "log":
                _label_powers(axis)
        if isinstance(axes.xaxis.get_major_locator(), AutoLocator) and _at_whole_numbers(axes):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def _label_powers(axis: Axis) -> None:
    """Labels of a logarithmic axis: at powers, if there are two at least."""
    low, high = sorted(axis.get_view_interval())
    axis.set_minor_formatter(NullFormatter())
    if isinstance(axis.get_major_locator(), FixedLocator | NullLocator):
        return

    exponents = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = np.outer(10.0**exponents, [1, 2, 5])
    inside = (low <= ticks) & (ticks <= high)
    if inside[:, 0].sum() >= 2:
        return
    few = MaxNLocator(4, steps=[1, 2, 5, 10])
    axis.set_major_locator(FixedLocator(ticks[inside].tolist()) if inside.sum() >= 2 else few)
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _at_whole_numbers(axes: Axes) -> bool:
    """Whether all lines stand at whole numbers of the horizontal axis."""
    lines = [line for line in axes.lines if line.get_transform() == axes.transData]
    places = [np.asarray(line.get_xdata(orig=False), dtype=float) for line in lines]
    return bool(places) and all((part == np.round(part)).all() for part in places)


def medians(
    axis: Axes,
    places: Sequence[str] | np.ndarray,
    named: Mapping[str, Float[np.ndarray, "s t"]],
    style: str = "-",
) -> None:
    """Draw the median over seeds of every measurement, with its name.

    Args:
        axis: Where.
        places: The t places on the horizontal axis.
        named: Measurements, one row for each seed.
        style: Of lines and markers, as matplotlib writes it.
    """
    for name, values in named.items():
        axis.plot(places, np.median(values, axis=0), style, label=name)
    axis.legend(fontsize=6)


def directions(
    axis: Axes, vectors: Float[np.ndarray, "v 2"], targets: Float[np.ndarray, "w 2"]
) -> None:
    """Draw vectors as dots and what they may point to as stars.

    Args:
        axis: Where.
        vectors: In the plane, such as those of neurons.
        targets: In the same plane.
    """
    axis.scatter(*vectors.T, s=4, color=COLOURS[0])
    axis.scatter(*targets.T, s=60, marker="*", color=COLOURS[1])
