"""One style for every figure, and a small vocabulary of what figures show.

    panels           a figure with one panel for each title, ready to draw on
    curves           medians over seeds in time, each in its band
    scaling          a power law: measurements over a size, with the fitted exponent
    phase_diagram    a number at every point of two settings
    paired_bars      differences between two methods, seed by seed
    image            a matrix as pixels
    medians          medians over seeds without a band
    beside_theory    measured curves as dots, each on the dashed curve of its prediction
    agreement        measured over predicted numbers, with the diagonal
    directions       vectors in the plane beside what they may point to
    label_axes       names of both axes, and which of them are logarithmic

`tidy_ticks` sets the ticks when all is drawn, for only then it is known what an axis shows.

Figures are made without pyplot: no global state, nothing to close, no display needed.
"""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Real
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

from theorylab.answers.figure import COLOURS as COLOURS
from theorylab.answers.figure import Picture, styled

# Black is for theory, colours for measurements.
Places = Sequence[int] | Sequence[float] | np.ndarray
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
    figure = Picture(figsize=(4.2 * columns, 3.4 * rows), layout="constrained")
    axes = list(np.ravel(figure.subplots(rows, columns)))
    for empty in axes[len(titles) :]:
        empty.remove()
    axes = axes[: len(titles)]
    for axis, title in zip(axes, titles, strict=True):
        styled(axis, title)
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


def beside_theory(
    axis: Axes,
    x: Places,
    measured: Real[np.ndarray, "t e"],
    predicted: Real[np.ndarray, "t e"],
    names: Sequence[str] = (),
) -> None:
    """Draw every measured curve as dots of one colour, and its prediction as a dashed line.

    Args:
        axis: Where.
        x: The t places on the horizontal axis.
        measured: One column for each curve.
        predicted: The same by theory.
        names: Of the curves, for the legend.
    """
    for index, (found, theory) in enumerate(zip(measured.T, predicted.T, strict=True)):
        name = names[index] if names else None
        colour = COLOURS[index % len(COLOURS)]
        axis.plot(x, found, "o", color=colour, markersize=3, label=name)
        axis.plot(x, theory, **THEORY)
    if names:
        axis.legend(fontsize=7)


def agreement(
    axis: Axes, named: Mapping[str, tuple[Real[np.ndarray, "..."], Real[np.ndarray, "..."]]]
) -> None:
    """Draw measured over predicted numbers as dots, and the diagonal on which they agree.

    Args:
        axis: Where.
        named: Predicted and measured numbers.
    """
    for name, (predicted, measured) in named.items():
        axis.plot(np.ravel(predicted), np.ravel(measured), "o", markersize=4, label=name)
    ends = [bound(np.concatenate([np.ravel(p) for p, _ in named.values()])) for bound in (min, max)]
    axis.plot(ends, ends, label="equal", **THEORY)
    label_axes(axis, "predicted", "measured")
    axis.legend(fontsize=7)


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


def curves(
    axis: Axes,
    x: Places,
    named: Mapping[str, Real[np.ndarray, "s t"]],
    style: str = "-",
    first_colour: int = 0,
) -> None:
    """Draw the median over seeds of every measurement, in a band from 10 % to 90 % of the seeds.

    Args:
        axis: Where.
        x: The t places on the horizontal axis.
        named: Measurements, one row for each seed; what is not finite is left out.
        style: Of the lines, as matplotlib writes it.
        first_colour: Where in the cycle of colours the first one begins.
    """
    places = np.asarray(x, float)
    for index, (name, values) in enumerate(named.items()):
        colour = COLOURS[(first_colour + index) % len(COLOURS)]
        rows = np.where(np.isfinite(values), values, np.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a place without a finite number
            low, middle, high = np.nanquantile(rows, (0.1, 0.5, 0.9), axis=0)
        axis.plot(places, middle, style, color=colour, label=name)
        axis.fill_between(places, low, high, color=colour, alpha=0.2, linewidth=0)
    axis.legend(fontsize=7)


def scaling(
    axis: Axes,
    x: Places,
    named: Mapping[str, Real[np.ndarray, "s w"]],
    exponent: float | None = None,
) -> None:
    """Draw measurements over a size on logarithmic axes, with the exponent fitted to the medians.

    Args:
        axis: Where.
        x: The sizes, such as widths.
        named: Measurements, one row for each seed.
        exponent: What theory says; drawn as a dashed line through the first measurement.
    """
    places = np.asarray(x, float)
    for index, (name, values) in enumerate(named.items()):
        rows = np.asarray(values, float)
        middle = np.median(rows, axis=0)
        usable = np.isfinite(middle) & (middle > 0)
        label = name
        if usable.sum() >= 2:
            slope = np.polyfit(np.log(places[usable]), np.log(middle[usable]), 1)[0]
            label = f"{name}: {slope:+.2f}"
        colour = COLOURS[index % len(COLOURS)]
        axis.loglog(places, rows.T, ".", color=colour, alpha=0.3, markersize=4)
        axis.loglog(places, middle, "o-", color=colour, markersize=4, label=label)
        if exponent is not None and index == 0 and usable.any():
            start = int(np.argmax(usable))
            theory = middle[start] * (places / places[start]) ** exponent
            axis.loglog(places, theory, label=f"theory: {exponent:+g}", **THEORY)
    axis.legend(fontsize=7)


def phase_diagram(
    axis: Axes,
    x: Places,
    y: Places,
    values: Real[np.ndarray, "h w"],
    label: str = "",
) -> None:
    """Draw a number at every point of two settings as colours; what is not finite stays grey.

    Args:
        axis: Where.
        x: The setting along the horizontal axis.
        y: The one along the vertical axis.
        values: A row for every entry of y.
        label: What the colours mean.
    """
    shown = np.ma.masked_invalid(np.asarray(values, float))
    axis.grid(visible=False)
    axis.set_facecolor("#dddddd")
    mesh = axis.pcolormesh(
        np.asarray(x, float), np.asarray(y, float), shown, cmap="viridis", rasterized=True
    )
    figure = axis.get_figure()
    if figure is not None:
        figure.colorbar(mesh, ax=axis, label=label)


def paired_bars(axis: Axes, named: Mapping[str, Real[np.ndarray, " s"]], label: str = "") -> None:
    """Draw the median of paired differences as bars, with every seed as a dot; 0 is no difference.

    Args:
        axis: Where.
        named: One difference for each seed.
        label: What the differences are.
    """
    for index, (name, values) in enumerate(named.items()):
        seeds = np.ravel(np.asarray(values, float))
        axis.bar(
            index, np.median(seeds), color=COLOURS[index % len(COLOURS)], alpha=0.5, label=name
        )
        axis.plot(np.full(seeds.size, index), seeds, "k.", markersize=3)
    axis.axhline(0.0, color="#222222", linewidth=0.8)
    axis.set_xticks(range(len(named)), list(named), fontsize=7)
    axis.set_ylabel(label)


def image(axis: Axes, matrix: Real[np.ndarray, "h w"]) -> None:
    """Draw a matrix as pixels, from its least entry to its largest.

    Args:
        axis: Where.
        matrix: Such as a picture, or an AGOP.
    """
    axis.grid(visible=False)
    axis.imshow(np.asarray(matrix, float), cmap="viridis")


def label_axes(axis: Axes, x: str, y: str = "", logarithmic: str = "") -> None:
    """Name both axes, and say which of them are logarithmic: "x", "y" or "xy".

    Args:
        axis: Where.
        x: What the horizontal axis shows.
        y: What the vertical axis shows; the title of the panel says it where this is empty.
        logarithmic: The letters of the logarithmic axes.
    """
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    if "x" in logarithmic:
        axis.set_xscale("log")
    if "y" in logarithmic:
        axis.set_yscale("log")
