"""Entries as a table, and curves as figures: sharpness beside the edge of stability.

    λ_max(∇²L) = 2/η              gradient descent
    λ_max(∇²L) = 2 (1 + β)/η      heavy ball with momentum β

Source: Cohen et al. (2021), Gradient descent on neural networks typically occurs at the edge of
stability, arXiv:2103.00065.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from theorylab.answers.figure import curve, drawn
from theorylab.typing import Axes, DataFrame, Figure

from ..measure import Measure
from .entries import Curve, Entry

RATE = "learning_rate"


def as_table(entries: Sequence[Entry]) -> DataFrame:
    """Entries as a table of pandas, a row each.

    Args:
        entries: What was found.

    Example:
        >>> found = [Entry(0, 0.1, "loss", 2.0, 2.0, 2.0, "exact", "given")]
        >>> as_table(found).value.tolist()
        [2.0]
    """
    try:
        import pandas
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "to_pandas needs pandas, which is not installed: pip install pandas"
        ) from None
    return pandas.DataFrame(list(entries), columns=pandas.Index(Entry._fields))


def edge(optimizer: str | None, momentum: float | None) -> float | None:
    """The number c of the edge of stability c/η, or None where sharpness alone has none.

    Args:
        optimizer: Its name; None is gradient descent.
        momentum: β of "momentum"; 0.9 unless told otherwise.

    Example:
        >>> edge("sgd", None), edge("momentum", 0.5), edge("adam", None)
        (2.0, 3.0, None)
    """
    if optimizer in (None, "sgd"):
        return 2.0
    if optimizer == "momentum":
        return 2.0 * (1.0 + (0.9 if momentum is None else momentum))
    return None


def drawn_curves(
    curves: Mapping[str, Curve], measures: Mapping[str, Measure], limit: float | None
) -> Figure:
    """A panel for every measure that has a value; learning rates show as the edge of stability.

    Args:
        curves: By name, with those of numbers that were told.
        measures: Their titles.
        limit: The number c of the edge c/η.

    Example:
        >>> told = Curve(np.arange(3), np.ones(3), np.ones(3), np.ones(3))
        >>> drawn_curves({"loss": told}, {}, None).axes[0].get_title()
        'loss'
    """
    rates = curves.get(RATE)
    panels = {
        measures[name].title if name in measures else name: partial(
            draw, found=found, rates=rates if name == "sharpness" else None, limit=limit
        )
        for name, found in curves.items()
        if name != RATE
    }
    if not panels:
        panels = {"nothing is measured yet": lambda axes: axes.set_xlabel("step")}
    return drawn(**panels)


def draw(axes: Axes, found: Curve, rates: Curve | None = None, limit: float | None = None) -> None:
    """Draw a curve with its intervals, and the edge of stability if it is known.

    Args:
        axes: Where.
        found: The curve.
        rates: Learning rates at their steps.
        limit: The number c of the edge c/η.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes, steps = Figure().subplots(), np.arange(2)
        >>> rates = Curve(steps, 0.5 * np.ones(2), np.ones(2), np.ones(2))
        >>> draw(axes, Curve(steps, np.ones(2), np.ones(2), np.ones(2)), rates, 2.0)
        >>> axes.lines[1].get_ydata().tolist()
        [4.0, 4.0]
    """
    curve(axes, found.steps, found.values)
    sure = np.isfinite(found.values) & np.isfinite(found.low) & np.isfinite(found.high)
    sure &= found.low < found.high
    if sure.any():
        middle, low, high = found.values[sure], found.low[sure], found.high[sure]
        ends = np.clip(np.stack([middle - low, high - middle]), 0, None)
        axes.errorbar(found.steps[sure], middle, ends, fmt=".", capsize=2, linewidth=1)
    if rates is not None and limit is not None and len(rates.steps):
        with np.errstate(divide="ignore"):
            axes.plot(rates.steps, limit / rates.values, "k--", linewidth=1, label=f"{limit:g}/η")
        axes.legend(fontsize=8, frameon=False)
    axes.set_xlabel("step")
