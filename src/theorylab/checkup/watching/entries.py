"""What was found at which step, and the curves that this makes."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..measure import Row

GIVEN = "given"  # the status of a number that the training loop told
DIVERGED = "diverged"  # the status of parameters that are NaN or infinite


class Entry(NamedTuple):
    """A number at a step; NaN where there is none, and `status` says why.

    Example:
        >>> Entry(100, 0.5, "sharpness", 2.0, 2.0, 2.1, "certified", "measured").value
        2.0
    """

    step: int
    seconds: float  # that it took to measure
    measure: str
    value: float
    low: float
    high: float
    certainty: str
    status: str  # "measured", "missing", "skipped", "failed", "diverged" or "given"


class Curve(NamedTuple):
    """A measure at many steps, in their order.

    Example:
        >>> Curve(np.array([0]), np.ones(1), np.ones(1), np.ones(1)).values
        array([1.])
    """

    steps: Int[np.ndarray, " t"]
    values: Float[np.ndarray, " t"]
    low: Float[np.ndarray, " t"]  # NaN where a value is an estimate without an error
    high: Float[np.ndarray, " t"]


def entry_of(step: int, row: Row) -> Entry:
    """A row of the card as an entry.

    Args:
        step: At which step.
        row: What was read, or why it was not.

    Example:
        >>> from theorylab.checkup.rows import MEASURES
        >>> entry_of(3, Row(MEASURES["sharpness"], "skipped", reason="too slow")).status
        'skipped'
    """
    found = row.reading
    if found is None:
        return nothing(step, row.name, row.status, row.seconds)
    numbers = (float(found.value), float(found.low), float(found.high))
    return Entry(step, row.seconds, row.name, *numbers, found.certainty, row.status)


def nothing(step: int, measure: str, status: str, seconds: float = 0.0) -> Entry:
    """An entry without a number.

    Example:
        >>> nothing(3, "sharpness", "diverged").value
        nan
    """
    return Entry(step, seconds, measure, math.nan, math.nan, math.nan, "", status)


def curve_of(entries: Iterable[Entry], measure: str) -> Curve:
    """The curve of a measure; where the parameters had diverged it is NaN.

    Args:
        entries: What was found, in any order.
        measure: The name of what was measured, or told.

    Example:
        >>> found = [Entry(s, 0.1, "loss", 1 / s, 0, 0, "exact", "given") for s in (2, 1)]
        >>> curve_of(found, "loss").values
        array([1. , 0.5])
    """
    shown = ("measured", GIVEN, DIVERGED)
    own = {each.step: each for each in entries if each.measure == measure and each.status in shown}
    steps = sorted(own)
    columns = [[own[step][place] for step in steps] for place in (3, 4, 5)]
    return Curve(np.array(steps, int), *(np.array(column, float) for column in columns))
