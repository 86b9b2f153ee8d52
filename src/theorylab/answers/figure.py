"""Answers as figures, drawn by the shape of their first array.

    ranked   a spectrum: values with their errors, by rank
    curve    a line, in the band between two others
    image    a matrix as pixels, with what its colours mean

A class that knows better has a method `draw(axes)`, made of these. Figures are made without
pyplot: no global state, nothing to close, no display needed.
"""

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .entries import entries, is_array, leaves
from .table import axis_names

# Okabe and Ito's colours, told apart by every eye, and a grey. (Their yellow cannot be seen on
# white.)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")


class Picture(Figure):
    """A figure that a notebook shows without being told how to."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=120)
        return file.getvalue()


def drawn(**panels: Callable[[Axes], None]) -> Figure:
    """A figure of some panels side by side: their titles, and what draws on each.

    Example:
        >>> drawn(Sharpness=lambda axes: ranked(axes, [2.5], [0.1])).axes[0].get_title()
        'Sharpness'
    """
    figure = Picture(figsize=(4.8 * len(panels), 3.4), layout="constrained")
    row = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, draw) in zip(row, panels.items(), strict=True):
        styled(axes, title)
        draw(axes)
    return figure


def styled(axes: Axes, title: str) -> None:
    """Give a panel its title and the look that all figures have.

    Example:
        >>> axes = Figure().subplots()
        >>> styled(axes, "loss")
        >>> axes.get_title()
        'loss'
    """
    axes.set_title(title, fontsize=10)
    axes.set_prop_cycle(color=COLOURS)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.tick_params(which="both", labelsize=8)


def ranked(axes: Axes, values: Any, errors: Any = None, x: str = "rank", y: str = "") -> None:
    """Draw values by rank, from 1 on, with their errors; a batch has a colour for each of its own.

    Args:
        axes: Where.
        values: One number, or (k,), or a batch of them, (m, k).
        errors: Of the same shape; what is not finite is not drawn.
        x: What the horizontal axis shows.
        y: What the vertical axis shows.

    Example:
        >>> axes = Figure().subplots()
        >>> ranked(axes, np.array([3.0, 1.0]), np.array([0.1, 0.2]), y="eigenvalue λ")
        >>> axes.get_ylabel(), len(axes.containers)
        ('eigenvalue λ', 1)
    """
    rows = np.atleast_2d(shown(values))
    margins = None if errors is None else np.atleast_2d(shown(errors))
    if rows.ndim > 2:
        raise ValueError(f"values must have at most two axes to be drawn, got {rows.shape}.")
    for number, row in enumerate(rows):
        margin = None if margins is None else np.where(np.isfinite(margins), margins, 0.0)[number]
        places = np.arange(1, row.size + 1)
        axes.errorbar(places, row, margin, fmt="o", markersize=4, capsize=2, linewidth=1)
    if np.size(rows[0]) <= 20:
        axes.set_xticks(np.arange(1, np.size(rows[0]) + 1))
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def curve(
    axes: Axes, x: Any, y: Any, low: Any = None, high: Any = None, label: str | None = None
) -> None:
    """Draw a line, in the band between two others if they are given.

    Args:
        axes: Where.
        x: The places, (t,).
        y: The line, (t,); or several, a column for each, (t, k).
        low: The lower end of the band, like y.
        high: The upper end.
        label: What the legend calls it.

    Example:
        >>> axes = Figure().subplots()
        >>> curve(axes, np.arange(3), np.ones(3), np.zeros(3), 2 * np.ones(3))
        >>> len(axes.lines), len(axes.collections)
        (1, 1)
    """
    places, line = shown(x), shown(y)
    if line.ndim not in (1, 2) or line.shape[0] != places.size:
        raise ValueError(
            f"a curve at {places.size} places must be ({places.size},) or ({places.size}, k), "
            f"got {line.shape}."
        )
    lines = axes.plot(places, line, linewidth=1.4, label=label)
    if low is None or high is None:
        return
    below, above = (np.reshape(shown(end), (places.size, -1)) for end in (low, high))
    for number, each in enumerate(lines):
        colour = each.get_color()
        axes.fill_between(
            places, below[:, number], above[:, number], color=colour, alpha=0.2, linewidth=0
        )


def image(axes: Axes, matrix: Any, x: str = "", y: str = "", label: str = "") -> None:
    """Draw a matrix as pixels, with what its colours mean.

    Args:
        axes: Where.
        matrix: Such as a kernel, (n₁, n₂).
        x: What the columns are.
        y: What the rows are.
        label: What the colours mean.

    Example:
        >>> axes = Figure().subplots()
        >>> image(axes, np.eye(3), "input x′", "input x", "kernel K")
        >>> axes.images[0].get_array().shape
        (3, 3)
    """
    pixels = shown(matrix)
    if pixels.ndim != 2:
        raise ValueError(f"an image must be a matrix, got shape {pixels.shape}.")
    axes.grid(visible=False)
    drawn_image = axes.imshow(pixels, cmap="viridis", aspect="auto", interpolation="nearest")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    figure = axes.get_figure()
    if figure is not None:
        figure.colorbar(drawn_image, ax=axes, label=label)


def draw_first(
    axes: Axes,
    fields: Mapping[str, Any],
    errors: Mapping[str, str],
    labels: Mapping[str, str],
    names: tuple[str, ...] = (),
) -> None:
    """Draw the first array of a record: a number or a row by rank, a matrix as an image.

    Args:
        axes: Where.
        fields: The values of the record by name.
        errors: Which field is the error of which.
        labels: What fields are called.
        names: What the axes of the array are called.

    Example:
        >>> axes = Figure().subplots()
        >>> draw_first(axes, {"values": np.ones(3)}, {}, {"values": "eigenvalue λ"}, ("rank",))
        >>> axes.get_xlabel(), axes.get_ylabel()
        ('rank', 'eigenvalue λ')
    """
    flat = leaves(fields)
    arrays = {name: value for name, value in flat.items() if is_array(value)}
    numbers = {name: v for name, v in flat.items() if isinstance(v, float | int)}
    name, value = next(iter((arrays or numbers).items()), (None, None))
    if name is None:
        raise ValueError("an answer must have a number or an array to be drawn.")
    values = shown(value)
    label = labels.get(name, name)
    along = axis_names(values.ndim, names)
    if values.ndim == 2 and len(names) != 1:  # not a batch of rows
        image(axes, values, along[1], along[0], label)
        return
    error = fields[errors[name]] if name in errors else None
    ranked(axes, values, error, along[-1] if along else "", label)
    if values.ndim == 0:
        axes.set_xticks([])


def shown(value: Any) -> np.ndarray:
    """Entries as floating numbers.

    Example:
        >>> shown(3)
        array(3.)
    """
    found = entries(value if is_array(value) else np.asarray(value))
    if found is None:
        raise ValueError(f"an array must have entries to be drawn, got {value}.")
    return found.astype(float)
