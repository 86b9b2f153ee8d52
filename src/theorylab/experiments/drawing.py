"""One style for every figure: `panels` gives a figure and its axes, ready to draw on.

Figures are made without pyplot: no global state, nothing to close, no display needed.
"""

import numpy as np
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
