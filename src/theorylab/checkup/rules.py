"""The verdict in words: sentences that follow from the rows by rules, at most five.

Each rule looks at readings, and gives a sentence or nothing; its docstring says when. They are
asked in the order in which they matter to whoever trains the network; the first five sentences are
the verdict. A row that is missing decides nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from theorylab.answers.digits import number

from .measure import Reading, Row

MOST = 5  # sentences of a verdict
LAZY = 0.1  # relative drift of the kernel, and error of the linear model, below which it is lazy
RICH = 0.5  # drift above which it has learned features
MOST_OF_THEM = 0.5  # a share of units that is worth a sentence
BEYOND = 4.0  # Tracy–Widom units: random weights go so far once in 10⁴ matrices
FAR_FROM_CHANCE = 0.5  # of the way from chance to 100 %, for "fits its labels"


class Sentence(NamedTuple):
    """A sentence of the verdict, and the rule from which it follows.

    Example:
        >>> Sentence("lazy", "The network is in the lazy regime.").rule
        'lazy'
    """

    rule: str
    words: str


Readings = Mapping[str, Reading]
Rule = Callable[[Readings], str | None]


def verdict_of(rows: Sequence[Row]) -> tuple[Sentence, ...]:
    """The sentences that follow from the rows.

    Args:
        rows: All rows of the card; only those that were measured are looked at.

    Example:
        >>> verdict_of([])
        ()
    """
    readings = {row.name: row.reading for row in rows if row.reading is not None}
    said = ((name, rule(readings)) for name, rule in RULES.items())
    return tuple(Sentence(name, words) for name, words in said if words)[:MOST]


def _divergent(readings: Readings) -> str | None:
    """`stability` is in the phase "divergent": above 4/λ_max."""
    if _phase(readings) != "divergent":
        return None
    over = number(readings["stability"].value, 3)
    return (
        f"The learning rate is {over} times the edge of stability 2/λ, beyond 4/λ: wide networks"
        " diverge here."
    )


def _catapult(readings: Readings) -> str | None:
    """`stability` is in the phase "catapult": between 2/λ_max and 4/λ_max, for gradient descent."""
    if _phase(readings) != "catapult":
        return None
    over = number(readings["stability"].value, 3)
    return (
        f"The learning rate is {over} times the edge of stability 2/λ and below 4/λ: the loss will"
        " rise, and a wide network comes back at a smaller λ (a catapult)."
    )


def _unstable(readings: Readings) -> str | None:
    """`stability` is in the phase "unstable": above the edge of an optimiser with memory."""
    if _phase(readings) != "unstable":
        return None
    over = number(readings["stability"].value, 3)
    return (
        f"The learning rate is {over} times the edge of stability of this optimizer: the steepest"
        " direction grows."
    )


def _edge(readings: Readings) -> str | None:
    """`stability` is in the phase "edge": the edge lies within its interval, or within 2 %."""
    if _phase(readings) != "edge":
        return None
    return "The learning rate is at the edge of stability: sharpness is held near 2/η."


def _initialisation(readings: Readings) -> str | None:
    """No matrix is 4 Tracy–Widom units beyond random ones, and accuracy at most twice chance."""
    spectra, fit = readings.get("weight_spectra"), readings.get("fit")
    if spectra is None or fit is None or np.nanmax(spectra.curves["distances"]) > BEYOND:
        return None
    chance = fit.details.get("chance")
    if isinstance(chance, float) and fit.low > 2 * chance:
        return None
    return "The network looks as it was drawn: its weights are noise, and it fits nothing yet."


def _missing_multiplier(readings: Readings) -> str | None:
    """`signal_scale` names a layer whose gain is far from 1, or `width_scaling` one that grows."""
    scale = readings.get("signal_scale")
    flagged = scale.details.get("flagged") if scale else None
    if scale is not None and flagged:
        return (
            f"Layer {flagged} multiplies its signal by {number(scale.value, 3)}: a factor such as"
            " 1/√n seems to be missing, and it cannot be widened as it is."
        )
    growth = readings.get("width_scaling")
    layer = growth.details.get("flagged") if growth else None
    if growth is None or not layer:
        return None
    return (
        f"With width n, updates of {layer} change its features as n^{number(growth.value, 2)}: the"
        " parametrization does not keep them, so learning rates do not transfer between widths."
    )


def _saturated(readings: Readings) -> str | None:
    """In some layer, the activations are saturated in more than half of all observations."""
    found = readings.get("saturated_units")
    if found is None or found.curves["flat"].max() <= MOST_OF_THEM:
        return None
    worst = int(found.curves["flat"].argmax())
    share = _percent(float(found.curves["flat"][worst]))
    layer = found.curves["layers"][worst]
    return f"Activation {layer} is saturated in {share} of all cases: gradients hardly pass it."


def _dead(readings: Readings) -> str | None:
    """More than half of the hidden units are dead."""
    found = readings.get("dead_units")
    if found is None or found.value <= MOST_OF_THEM:
        return None
    return f"{_percent(found.value)} of the hidden units are dead: no input moves them."


def _random_labels(readings: Readings) -> str | None:
    """Fitted labels that no kernel tells when left out, nor the network where `test_gap` is."""
    fit, others = readings.get("fit"), readings.get("label_predictability")
    if fit is None or others is None:
        return None
    chance, level = fit.details.get("chance"), others.details.get("chance")
    if not isinstance(chance, float) or not isinstance(level, float):
        return None
    fitted = fit.low > chance + FAR_FROM_CHANCE * (1 - chance)
    gap = readings.get("test_gap")
    holds_elsewhere = gap is not None and fit.value - gap.high > chance  # accuracy, held out
    if not fitted or others.low > level or holds_elsewhere:
        return None
    return (
        f"It fits {_percent(fit.value)} of its labels, which a kernel cannot predict"
        f" ({_percent(others.value)} when left out; chance {_percent(level)}): it has memorised"
        " labels at random, or their rule is one that kernels do not see."
    )


def _lazy(readings: Readings) -> str | None:
    """`kernel_drift` is below 0.1, and `linear_error`, if it is there, below 0.1."""
    drift, error = readings.get("kernel_drift"), readings.get("linear_error")
    if drift is None or drift.value >= LAZY or (error is not None and error.value >= LAZY):
        return None
    return (
        f"Training was lazy: the tangent kernel moved by {_percent(drift.value)}, so a linear model"
        " in the initial gradients describes it."
    )


def _rich(readings: Readings) -> str | None:
    """`kernel_drift` is above 0.5."""
    drift = readings.get("kernel_drift")
    if drift is None or drift.value <= RICH:
        return None
    return (
        f"Training was rich: the tangent kernel moved by {_percent(drift.value)}, so features were"
        " learned, and no kernel fixed at the start describes it."
    )


def _between(readings: Readings) -> str | None:
    """Neither lazy nor rich."""
    drift = readings.get("kernel_drift")
    if drift is None or _lazy(readings) or _rich(readings):
        return None
    return (
        f"Training was between lazy and rich: the tangent kernel moved by {_percent(drift.value)}."
    )


def _overfits(readings: Readings) -> str | None:
    """The interval of `test_gap` lies above 0.1 for classes."""
    gap = readings.get("test_gap")
    if gap is None or gap.details.get("kind") != "error" or gap.low <= 0.1:
        return None
    return f"It errs on {_percent(gap.value)} more of the held-out inputs than of its own."


def _noisy(readings: Readings) -> str | None:
    """The batch is smaller than the gradient-noise scale's interval."""
    noise = readings.get("gradient_noise")
    batch = noise.details.get("batch size") if noise else None
    if noise is None or not isinstance(batch, float) or batch >= noise.low:
        return None
    return (
        f"Batches of {number(batch, 4)} are below the gradient-noise scale"
        f" {number(noise.value, 2)}: noise, not curvature, limits the progress of a step."
    )


def _stable(readings: Readings) -> str | None:
    """`stability` is in the phase "stable"."""
    if _phase(readings) != "stable":
        return None
    share = _percent(readings["stability"].value)
    return f"The learning rate is stable: {share} of the edge of stability."


def _phase(readings: Readings) -> str | float | None:
    stability = readings.get("stability")
    return stability.details.get("phase") if stability else None


def _percent(share: float) -> str:
    return f"{number(100 * share, 3)} %"


RULES: dict[str, Rule] = {  # in the order in which they are asked
    "divergent": _divergent,
    "catapult": _catapult,
    "unstable": _unstable,
    "edge": _edge,
    "missing multiplier": _missing_multiplier,
    "saturated": _saturated,
    "dead": _dead,
    "initialisation": _initialisation,
    "random labels": _random_labels,
    "lazy": _lazy,
    "rich": _rich,
    "between": _between,
    "overfits": _overfits,
    "noisy": _noisy,
    "stable": _stable,
}
