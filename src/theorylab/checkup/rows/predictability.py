"""Can the labels be predicted from the inputs at all, by something that is not this network?"""

import math

import jax
import numpy as np

from theorylab.answers.digits import number
from theorylab.claims import Source
from theorylab.features.radial import RADIAL, median_distance
from theorylab.generalization import label_predictability
from theorylab.generalization.leave_one_out import value_predictability
from theorylab.typing import Inputs

from ..classes import class_numbers, has_classes, has_many_labels
from ..measure import Measure, Reading, Skipped
from ..subject import Subject

MOST, FEW_CLASSES, FEWER = 1_000, 20, 400  # inputs; fewer where there are many classes
FEWEST = 100  # inputs of a tangent kernel, below which a kernel of the inputs sees more


def _label_predictability(subject: Subject) -> Reading:
    size = min(subject.num_inputs, MOST if subject.num_outputs <= FEW_CLASSES else FEWER)
    kernel, how, size = _kernel(subject, size)
    y, key = subject.sample(size)[1], subject.key_for("label_predictability")
    method = f"leave-one-out kernel ridge regression, {how}, {size:,} inputs"
    if size < 8:
        raise Skipped("there are fewer than 8 inputs")
    if not has_classes(subject.loss, y):
        return _of_values(kernel, np.asarray(y, float), key, method)
    if has_many_labels(y):
        raise Skipped("an input has several labels")
    classes = class_numbers(y)
    if len(np.unique(classes)) < 2:
        raise Skipped("all labels are the same")
    found = label_predictability(kernel, classes, key)
    level, accuracy = number(100 * found.chance, 3), number(100 * found.accuracy, 3)
    if found.low > found.chance:
        meaning = (
            f"labels can be predicted from the inputs: {accuracy} %, where chance is {level} %"
        )
    else:
        meaning = (
            f"a kernel does not predict the labels ({accuracy} %, chance {level} %): a network that"
            " fits them has memorised them, or knows a rule that a kernel cannot see"
        )
    details: dict[str, float | str] = {
        "chance": found.chance,
        "shuffled labels": found.shuffled,
        "p value": found.p_value,
    }
    return Reading(found.accuracy, found.low, found.high, "95 %", method, meaning, details=details)


def _of_values(kernel: np.ndarray, y: np.ndarray, key: jax.Array, method: str) -> Reading:
    if not np.ptp(y, axis=0).any():
        raise Skipped("all targets are the same")
    score, shuffled, p_value = value_predictability(kernel, y, key)
    meaning = (
        f"a kernel predicts {number(100 * score, 3)} % of the variance of targets left out"
        if p_value <= 0.05 and score > 0
        else "a kernel does not predict the targets better than shuffled ones"
    )
    details: dict[str, float | str] = {"shuffled targets": shuffled, "p value": p_value}
    return Reading(score, math.nan, math.nan, "estimate", method, meaning, details=details)


def _kernel(subject: Subject, size: int) -> tuple[np.ndarray, str, int]:
    """The tangent kernel where training began, or one of the inputs, which saw no labels either."""
    if subject.initial_params is not None and subject.kernel_inputs >= min(size, FEWEST):
        kernel = np.asarray(subject.initial_kernel, float)[:size, :size]
        return kernel, "initial tangent kernel", min(size, subject.kernel_inputs)
    points = _points(subject.sample(size)[0])
    points = points / median_distance(points)
    return RADIAL["laplace"](points, points), "Laplace kernel of the inputs", size


def _points(x: Inputs) -> np.ndarray:
    """Inputs as vectors; token ids as counts. Arrays of a tree count alike."""
    columns = []
    for leaf in map(np.asarray, jax.tree.leaves(x)):
        n = len(leaf)
        flat = leaf.reshape(n, -1)
        if leaf.dtype.kind in "iu" and leaf.ndim == 2:
            words, places = np.unique(flat, return_inverse=True)
            counts = np.zeros((n, len(words)))
            np.add.at(counts, (np.repeat(np.arange(n), flat.shape[1]), places.reshape(-1)), 1)
            flat = counts
        flat = flat.astype(float)
        spread = math.sqrt(float(((flat - flat.mean(axis=0, keepdims=True)) ** 2).sum() / n))
        columns.append(flat / spread if spread > 0 else flat)
    return np.concatenate(columns, axis=1)


PREDICTABILITY = Measure(
    name="label_predictability",
    group="generalization",
    title="leave-one-out accuracy of a kernel",
    read=_label_predictability,
    source=Source("arora", "ntk-generalization", "Eq. 9.11"),
    experiment="generalization/tangent_complexity",
)
