"""Generalization: what the network fits, by which margins, and what bounds say of other inputs."""

import math

import jax
import numpy as np
from jaxtyping import Array

from theorylab.answers.digits import number
from theorylab.claims import Source
from theorylab.generalization import layer_norms, spectral_bound, stable_rank_bound
from theorylab.generalization.tangent_bounds import complexity_measure, gap_bound
from theorylab.models.inputs import num_inputs
from theorylab.numerics import Interval, clopper_pearson, mean_ratio, newcombe, student, welch
from theorylab.training import Loss
from theorylab.typing import Axes

from .. import programs
from ..classes import chance, has_classes, is_right, margins_of
from ..measure import Measure, Reading, Skipped
from ..subject import Subject
from .connectivity import CONNECTIVITY
from .flatness import FLATNESS
from .predictability import PREDICTABILITY

RISK = 0.05  # δ: the probability with which a bound may fail


def _fit(subject: Subject) -> Reading:
    outputs, y = subject.seen
    n, mean = len(y), student(_loss_of_each(subject.loss, outputs, y))
    details: dict[str, float | str] = {
        "loss": mean.estimate,
        "loss, low": mean.low,
        "loss, high": mean.high,
    }
    method = f"{_inputs(subject, n)}, taken as a sample of the law that they come from"
    if not has_classes(subject.loss, y):
        error = _relative_error(outputs, y)
        explained = 100 * (1 - error.estimate)
        meaning = f"it explains {number(explained, 3)} % of the variance of its targets"
        if explained < 0:
            meaning = "it predicts its targets worse than their mean does"
        return Reading(
            *error, "95 %", method, meaning, details=details | {"kind": "relative squared error"}
        )
    right = is_right(outputs, y)
    accuracy = clopper_pearson(int(right.sum()), n)
    level = chance(y)
    meaning = (
        f"it classifies {number(100 * accuracy.estimate, 3)} % of its inputs correctly; saying the"
        f" largest class always gives {number(100 * level, 3)} %"
    )
    details |= {"chance": level, "kind": "accuracy"}
    return Reading(*accuracy, "95 %", method + " (Clopper–Pearson)", meaning, details=details)


def _test_gap(subject: Subject) -> Reading:
    (seen, y), (outputs, y_test) = subject.seen, subject.held_out
    n, m = len(y), len(y_test)
    if has_classes(subject.loss, y):
        wrong = [int((~is_right(*each)).sum()) for each in ((outputs, y_test), (seen, y))]
        gap = newcombe((wrong[0], m), (wrong[1], n))
        how, kind = "Newcombe's interval", "error"
        told = [wrong[0] / m, wrong[1] / n]
        unit = f"{number(100 * gap.estimate, 3)} percentage points"
    else:
        scale = float(np.square(_centred(y)).sum(axis=1).mean())
        if scale == 0:
            raise Skipped("all targets are the same")
        squares = [
            np.square(np.asarray(f - t, float)).sum(axis=1) / scale
            for f, t in ((outputs, y_test), (seen, y))
        ]
        gap = welch(*squares)
        how, kind = "Welch's interval", "relative squared error"
        told = [float(each.mean()) for each in squares]
        unit = f"{number(100 * gap.estimate, 3)} % of the targets' variance"
    if gap.low > 0:
        meaning = (
            f"its error on held-out inputs is larger, by {unit}: what it lost by fitting these"
        )
    elif gap.high < 0:
        meaning = "its error on held-out inputs is smaller: they are not from the same law"
    else:
        meaning = "no difference between held-out inputs and its own can be told"
    details: dict[str, float | str] = {
        "kind": kind,
        "test error": told[0],
        "training error": told[1],
    }
    method = f"{m:,} held-out inputs and {n:,} of its own, {how}"
    return Reading(*gap, "95 %", method, meaning, details=details)


def _margins(subject: Subject) -> Reading:
    margins = np.sort(_class_margins(subject))
    median, share = float(np.median(margins)), float((margins <= 0).mean())
    details: dict[str, float | str] = {
        "least": float(margins[0]),
        "5 % quantile": float(np.quantile(margins, 0.05)),
        "share ≤ 0": share,
    }
    if share == 0:
        meaning = (
            f"all inputs are classified correctly, half of them by more than {number(median, 3)};"
            " training on goes on to raise margins relative to the weights' norm"
        )
    else:
        meaning = f"{number(100 * share, 3)} % of the inputs have a margin below 0: they are wrong"
    shares = (np.arange(len(margins)) + 0.5) / len(margins)
    return Reading(
        median,
        median,
        median,
        "exact",
        f"median over {_inputs(subject, len(margins))}, in units of the outputs",
        meaning,
        details=details,
        curves={"margin": margins, "share": shares},
    )


def _draw_margins(reading: Reading, axes: Axes) -> None:
    axes.plot(reading.curves["margin"], reading.curves["share"])
    axes.axvline(0.0, color="0.6", linewidth=1)
    axes.set(xlabel="margin", ylabel="share of inputs below")


def _spectral_margin(subject: Subject) -> Reading:
    margins = _class_margins(subject)
    rows = _input_rows(subject)
    total, largest = float(np.sqrt((rows**2).sum())), float(np.sqrt(rows**2).max())
    n, low = subject.num_inputs, float(np.quantile(margins, 0.05))
    gamma, which = (low, "5 % quantile") if low > 0 else (float(np.median(margins)), "median")
    if gamma <= 0:
        raise Skipped("most inputs are misclassified, so there is no margin to speak of")
    layers = layer_norms(subject.apply, subject.params, subject.x)
    if not layers:
        raise Skipped("the network's program has no layer that is a product or a convolution")
    product = math.prod(layer.spectral for layer in layers)
    value = gamma / (product * total / math.sqrt(n))
    bound = spectral_bound(layers, gamma, total, n)
    other = stable_rank_bound(layers, gamma, largest, n)
    least = min(bound, other)
    meaning = (
        f"the bounds on test error are vacuous, {number(least, 2)} times too large at least: only"
        " comparisons between networks mean something"
        if least > 1
        else "the leading term of a bound is below 1; its constants and logarithms may undo that"
    )
    details: dict[str, float | str] = {
        "γ": gamma,
        "product of norms": product,
        "‖X‖R/γn": bound,
        "stable-rank bound": other,
    }
    details |= {f"stable rank of {layer.name}": layer.stable_rank for layer in layers}
    method = (
        f"{which} of the margins over ∏‖W‖₂ and the inputs' length (root mean square);"
        f" {len(layers)} layers of the program, convolutions by a bound of their norm"
    )
    return Reading(value, value, value, "exact", method, meaning, details=details)


def _tangent_bound(subject: Subject) -> Reading:
    initial = subject.initial_kernel
    kernel = subject.kernel if initial is None else initial
    x, y = subject.sample(subject.kernel_inputs)
    targets = np.asarray(y, float)
    if has_classes(subject.loss, y):
        targets = targets - (0.0 if y.shape[1] == 1 else 1 / y.shape[1])
    else:
        targets = targets - targets.mean(axis=0, keepdims=True)
    where = "these parameters, which have seen the labels"
    if initial is not None:
        start = programs.all_outputs(subject.apply, subject.initial_params, x)
        targets = np.asarray(y, float) - np.asarray(start, float)
        where = "the initial parameters"
    matrix, m = np.asarray(kernel, float), len(y)
    values = np.linalg.eigvalsh(matrix)
    if not values[0] > m * np.finfo(np.asarray(kernel).dtype).eps * values[-1]:
        raise Skipped("the tangent kernel is not positive definite: it cannot fit all labels")
    measures = np.atleast_1d(complexity_measure(matrix, targets))
    value = float(measures.max())
    details: dict[str, float | str] = {
        "all outputs together": float(np.sqrt((measures**2).sum())),
        "gap bound, δ = 5 %": float(gap_bound(value / math.sqrt(2), m, RISK)),
        "inputs": float(m),
    }
    meaning = f"the bound for a lazy network on {m:,} inputs is " + (
        f"vacuous, {number(value, 2)} times too large; as labels turn random it grows"
        if value >= 1
        else f"{number(value, 2)}, below 1: a lazy network would generalize"
    )
    method = f"√(2 yᵀK⁻¹y · tr K)/n with the tangent kernel at {where}, {m:,} inputs"
    if m < subject.num_inputs:
        return Reading(value, math.nan, math.nan, "estimate", method, meaning, details=details)
    return Reading(value, value, value, "exact", method, meaning, details=details)


def _inputs(subject: Subject, size: int) -> str:
    return f"{'all' if size == subject.num_inputs else 'a sample of'} {size:,} inputs"


def _loss_of_each(loss: Loss, outputs: Array, y: Array) -> np.ndarray:
    """What each input adds to the loss, which is their mean."""
    n, k = y.shape
    weight = n * loss.scale(n, k) / loss.scale(1, k)
    return weight * np.asarray(programs.loss_of_each(loss, outputs, y), float)


def _relative_error(outputs: Array, y: Array) -> Interval:
    """Σ‖f − y‖²/Σ‖y − ȳ‖² = 1 − R², with its interval."""
    squares = np.square(np.asarray(outputs - y, float)).sum(axis=1)
    spread = np.square(_centred(y)).sum(axis=1)
    if not spread.sum() > 0:
        raise Skipped("all targets are the same, so no share of their variance is explained")
    return mean_ratio(squares, spread)


def _centred(y: Array) -> np.ndarray:
    values = np.asarray(y, float)
    return values - values.mean(axis=0, keepdims=True)


def _class_margins(subject: Subject) -> np.ndarray:
    if not has_classes(subject.loss, subject.y):
        raise Skipped("the targets are values, not classes")
    margins = margins_of(*subject.seen)
    if not np.isfinite(margins).all():
        raise Skipped("outputs are not finite")
    return margins


def _input_rows(subject: Subject) -> np.ndarray:
    """The length of every input."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(subject.x)]
    if any(leaf.dtype.kind != "f" for leaf in leaves):
        raise Skipped("inputs are whole numbers, and the bound takes them as vectors")
    n = num_inputs(subject.x)
    squares = [np.square(leaf.astype(float)).reshape(n, -1).sum(axis=1) for leaf in leaves]
    return np.sqrt(np.sum(squares, axis=0))


MEASURES = (
    Measure(
        name="fit",
        group="generalization",
        title="fit of the given inputs",
        read=_fit,
        source=Source("arora", "erm-core", "§1"),
        experiment="generalization/concentration",
    ),
    Measure(
        name="test_gap",
        group="generalization",
        title="held-out error − training error",
        read=_test_gap,
        source=Source("arora", "erm-core", "§1"),
        experiment="generalization/tangent_complexity",
        needs=("x_test", "y_test"),
    ),
    Measure(
        name="margins",
        group="generalization",
        title="margin f_y − max f_j",
        read=_margins,
        source=Source("shi", "margins", "Defs 4.2–4.6"),
        experiment="features/fourier/maximum_margin",
        draw=_draw_margins,
    ),
    Measure(
        name="spectral_margin",
        group="generalization",
        title="margin over spectral norms γ/∏‖W‖₂‖x‖",
        read=_spectral_margin,
        source=Source("arora", "spectral-margin-bound", "Thm 5.5.6"),
        experiment="features/fourier/margin_limit",
    ),
    FLATNESS,
    Measure(
        name="tangent_bound",
        group="generalization",
        title="tangent-kernel bound √(2yᵀK⁻¹y tr K)/n",
        read=_tangent_bound,
        source=Source("arora", "ntk-generalization", "Eq. 9.11"),
        experiment="generalization/tangent_complexity",
    ),
    PREDICTABILITY,
    CONNECTIVITY,
)
