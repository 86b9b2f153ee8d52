"""One style for every figure: `panels` gives a figure and its axes, ready to draw on.

`medians` and `directions` draw what several experiments show.

Figures are made without pyplot: no global state, nothing to close, no display needed.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by every eye; black is for theory, colours for measurements.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
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
        axis.tick_params(labelsize=8)
    return figure, axes


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
