"""The figure of `parity_six` and `interval_six`: accuracy in training, and where weights point."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.experiments.drawing import THEORY, curves, directions, label_axes, panels


def figure(
    what: str,
    steps: Int[np.ndarray, " t"],
    named: Mapping[str, Float[np.ndarray, "s t"]],
    ceiling: float,
    maps: Float[np.ndarray, "3 v 2"],
) -> Figure:
    """Draw accuracies of methods, and weights at the start and after each of two steps.

    Args:
        what: Which accuracy.
        steps: When it was measured.
        named: Accuracies of methods.
        ceiling: That of the best threshold of the count.
        maps: Weights in the plane, then the two targets.
    """
    drawn, (course, *planes) = panels(what, "weights at the start", "after step 1", "after step 2")
    course.axhline(ceiling, label="best threshold of the count", **THEORY)
    curves(course, steps, named)
    label_axes(course, "steps")
    for axis, points in zip(planes, maps, strict=True):
        directions(axis, points[:-2], points[-2:])
        axis.set(xlabel="plane of cosines; stars: ± the relevant patterns", xticks=[], yticks=[])
    return drawn
