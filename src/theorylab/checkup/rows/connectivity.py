"""Is there a barrier between the network and another one, on the straight line?"""

import math

import jax
import numpy as np
from jaxtyping import Array

from theorylab.answers.digits import number
from theorylab.claims import Source
from theorylab.landscape import segment
from theorylab.landscape.connectivity import POINTS, Segment
from theorylab.numerics import student
from theorylab.typing import Axes

from ..classes import has_classes
from ..measure import Measure, Reading, Skipped
from ..subject import Subject

FEWEST = 11  # points of the segment: a few do not show a barrier
CONNECTED = 0.02  # rise of the error below which networks are connected (Frankle et al. 2020)


def _connectivity(subject: Subject) -> Reading:
    inputs, products = subject.effort("connectivity", 0.08, 1 / 3, POINTS)
    x, y = subject.sample(inputs)
    if products < FEWEST:
        raise Skipped('it would take too long; force="connectivity" computes it')
    path = segment(subject.apply, subject.loss, subject.params, subject.checkpoint, x, y, products)
    losses = np.asarray(path.losses, float)
    if not np.isfinite(losses).all():
        raise Skipped("the loss is not finite between the two")
    value, low, high = _interval(path)
    classes = has_classes(subject.loss, y)
    rise = float(path.error_barrier) if classes else value / _constant_loss(subject, y)
    top = float(path.points[path.top])
    details: dict[str, float | str] = {
        "barrier of the error" if classes else "share of a constant's loss": rise,
        "barrier/largest end": value / max(float(losses[0]), float(losses[-1]), 1e-300),
        "loss here": float(losses[0]),
        "loss at the checkpoint": float(losses[-1]),
        "where (0 here, 1 there)": top,
        "distance/norm": _distance(subject),
    }
    if rise <= CONNECTED:
        meaning = (
            f"the two are linearly connected: no barrier above {number(100 * CONNECTED)} % of error"
        )
        meaning = meaning if classes else "the two are linearly connected: no barrier to speak of"
    elif low == 0:
        meaning = f"no barrier can be told between the two on {inputs:,} inputs"
    else:
        kind = "error" if classes else "loss"
        meaning = (
            f"a barrier lies between the two: the {kind} rises by {number(100 * rise, 3)}"
            f" {'percentage points' if classes else '% of that of a constant'}; it may vanish once"
            " their hidden units are matched"
        )
    method = f"{products} points of the segment, {inputs:,} inputs; interval over inputs"
    curves = {"points": np.asarray(path.points), "losses": losses}
    if classes:
        curves["errors"] = np.asarray(path.errors)
    return Reading(value, low, high, "95 %", method, meaning, details=details, curves=curves)


def _interval(path: Segment) -> tuple[float, float, float]:
    """The barrier; from below at the top, from above at any point."""
    rises = np.asarray(path.rises, float)
    within = [student(each) for each in rises[1:-1]]
    low = student(rises[int(path.top)]).low if float(path.barrier) > 0 else 0.0
    high = max(0.0, *(each.high for each in within))
    return float(path.barrier), max(low, 0.0), high


def _constant_loss(subject: Subject, y: Array) -> float:
    """The loss of predicting the mean."""
    loss = float(subject.loss(y.mean(axis=0, keepdims=True).repeat(len(y), axis=0), y))
    return loss if loss > 0 else math.inf


def _distance(subject: Subject) -> float:
    pairs = zip(*map(jax.tree.leaves, (subject.params, subject.checkpoint)), strict=True)
    sums = [
        (float(np.square(np.asarray(w) - np.asarray(v)).sum()), float(np.square(w).sum()))
        for w, v in pairs
    ]
    moved, norm = (math.sqrt(sum(each)) for each in zip(*sums, strict=True))
    return moved / norm if norm > 0 else math.inf


def _draw(reading: Reading, axes: Axes) -> None:
    axes.plot(reading.curves["points"], reading.curves["losses"])
    axes.set(xlabel="from here (0) to the checkpoint (1)", ylabel="loss")


CONNECTIVITY = Measure(
    name="connectivity",
    group="generalization",
    title="loss barrier to the checkpoint",
    read=_connectivity,
    source=Source("karp", "lmc", "2.4.2"),
    experiment="dynamics/catapult",
    needs=("checkpoint",),
    draw=_draw,
)
