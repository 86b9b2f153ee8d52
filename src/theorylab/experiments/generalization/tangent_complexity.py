"""A number known before training bounds the test error, and rises with it as labels turn random.

A lazy two-layer network that fits labels y on n samples with tangent kernel H* travels
B = √(yᵀH*⁻¹y) in its weights, and the functions within that distance have Rademacher complexity
B √(tr H*)/n. So √(2 yᵀH*⁻¹y · tr H*)/n bounds what is lost beyond the sample, up to constants. Here
two pairs of handwritten digits (centred, brought to length 1) have a growing part of their labels
replaced by coin flips; beside the measure stand the test error and the test loss of the kernel's
predictor. (`generalization/tangent_guarantee` has trained networks, and the bound of another
source.)

Source: arora · ntk-generalization · Eq. 9.11, Fig. 9.2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims import Source, holds, median_at_least, median_between, trend
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.experiments.generalization._label_noise import (
    PAIRS,
    Images,
    LabelNoise,
    drawn_images,
)
from theorylab.generalization import tangent_bounds
from theorylab.numerics import rank_correlations
from theorylab.progress import report
from theorylab.typing import Measured

PRECISION = "float64"
FORMULA = r"\frac{\sqrt{2\,y^\top (H^*)^{-1} y \cdot \mathrm{tr} H^*}}{n}"

BOUND = Source("arora", "ntk-generalization", "Eq. 9.11")
TREND = Source("arora", "ntk-generalization", "Fig. 9.2")


@dataclass(frozen=True)
class Config(LabelNoise):
    """Pairs of handwritten digits, more and more of them with random labels."""


PRESETS = {
    "smoke": Config(num_seeds=7),
    "paper": Config(images="mnist5k", num_samples=500, num_test=500, num_seeds=20),
}


class Result(NamedTuple):
    """Axes: s seeds, k pairs of digits, p parts of random labels. Means over draws of labels."""

    measure: Float[Measured, "s k p"]  # √(2 yᵀH*⁻¹y tr H*)/n
    test_error: Float[Measured, "s k p"]  # of the kernel's predictor, on true labels
    test_loss: Float[Measured, "s k p"]  # |f − y|, f cut off at ±1, on labels as random as trained
    margin: Float[Measured, "s k p"]  # measure − test loss, where it is least over draws of labels


def memory(config: Config) -> int:
    """Bytes of the kernels of one seed."""
    return 8 * 6 * config.num_samples * (config.num_samples + config.num_test)


def run(config: Config) -> Result:
    """Predict by the kernel at every level of noise."""
    report("kernels and predictions", 0.1)
    rows = drawn_images(jax.random.key(config.seed), config)
    found = [[_measured(here) for here in row] for row in rows]
    return jax.tree.map(
        lambda *parts: np.array(parts).reshape(len(rows), len(PAIRS), -1),
        *[each for row in found for each in row],
    )


def _measured(here: Images) -> Result:
    """Measure, test error and loss at every part of random labels."""
    outputs, levels = here.predicted, here.labels.shape[1:]
    measure = tangent_bounds.complexity_measure(
        here.kernel, here.labels.reshape(len(here.x), -1)
    ).reshape(levels)
    loss = np.abs(np.clip(outputs, -1, 1) - here.test_labels).mean(axis=0)
    return Result(
        measure=measure.mean(axis=0),
        test_error=np.mean(outputs * here.true[:, None, None] <= 0, axis=(0, 1)),
        test_loss=loss.mean(axis=0),
        margin=(measure - loss).min(axis=0),
    )


CLAIMS = (
    BOUND.claim(
        "The measure is never below the test loss |f − y|, which bounds the classification error.",
        lambda r, c: holds(r.margin),
        quote="complexity measure that upper bounds the generalization error",
        demand="source",
    ),
    BOUND.control(
        "A quarter of it is below the test loss of random labels.",
        lambda r, c: median_at_least((r.test_loss / r.measure)[:, :, -1].min(axis=1), 0.25),
        demand="lab: a quarter, from one run on seed 5",
    ),
    TREND.claim(
        "Over the parts of random labels, measure and test error rank alike: 0.95 for both pairs.",
        lambda r, c: median_at_least(
            np.minimum(*(rank_correlations(r.measure[:, k], r.test_error[:, k]) for k in (0, 1))),
            0.95,
        ),
        quote="almost matches the trend of generalization error as the portion of random labels",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    TREND.claim(
        "The measure grows with the part of random labels.",
        lambda r, c: trend(r.measure.mean(axis=1).T),
    ),
    TREND.control(
        "Of labels that are all random nothing is learned: half the test labels are wrong.",
        lambda r, c: median_between(r.test_error[:, :, -1].mean(axis=1), 0.35, 0.65),
        demand="derived: one half, and four standard errors of 150 tests",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw measure, loss and error over the part of random labels, for each pair."""
    names = [f"{first} and {second}" for first, second in PAIRS]
    figure, axes = panels(*names)
    for k, axis in enumerate(axes):
        shown = {"measure": result.measure, "test loss": result.test_loss}
        shown["test error"] = result.test_error
        curves(axis, config.parts, {name: values[:, k] for name, values in shown.items()})
        label_axes(axis, "part of random labels")
    return figure
