"""Spikes of a loss by a stated rule, and how well "η > η_crit" foretells them.

    spike            L′ > ratio · L  and  L′ − L > rise         (1.5 and 0.1)
    match rate       P(η > η_crit | up)       base rate   P(η > η_crit)
    lift             match rate / base rate

Without a rule every second step of SGD is "up" by a little; with a relative rule alone there are
spikes at L ≈ 10⁻³ that nobody would see. A match rate says something only beside its base rate: if
η is above η_crit at 70 % of all steps, 70 % of anything matches. Fisher's exact test asks whether
"up" and "above" are independent.

A catapult is counted in two ways: the source counts the steps with η > η_crit (thousands in a run),
the other way counts spikes, of which several in a row are one.

Source: zhu · sgd-match-rate · Table 4.2; zhu · sgd-heavy-sample · Fig. 4.5.
"""

import math

import numpy as np
from jaxtyping import Array, Bool, Float, Real
from scipy import stats

from theorylab.answers import Answer
from theorylab.typing import Scalar

Flags = Bool[Array | np.ndarray, "..."]  # one for every step; time is the last axis


def spikes(
    loss: Real[Array | np.ndarray, "*runs times"], ratio: float = 1.5, rise: float = 0.1
) -> Bool[np.ndarray, "*runs times-1"]:
    """Tell which steps spike: L(t+1) > ratio · L(t) and L(t+1) − L(t) > rise.

    A step to a loss that is not finite is none: it is a divergence.

    This is a rule for single steps. Where η is raised now and then, another one counts losses that
    are 1.5 times that at the raise, at any step before the next raise: it sees slow catapults of a
    small loss, which no single step shows; this one sees spikes that no raise has caused.

    Args:
        loss: The loss before every step, and after the last; time is the last axis.
        ratio: How many times as large the loss must become, at least 1.
        rise: By how much it must rise, at least 0. With ratio 1 and rise 0, any step up is told.

    Example:
        >>> spikes(np.array([1.0, 1.2, 2.0, 0.1, 0.19])).tolist()
        [False, True, False, False]
    """
    if not ratio >= 1:
        raise ValueError(f"ratio must be at least 1, got {ratio}.")
    if not rise >= 0:
        raise ValueError(f"rise must be at least 0, got {rise}.")
    before, after = np.asarray(loss)[..., :-1], np.asarray(loss)[..., 1:]
    with np.errstate(invalid="ignore", over="ignore"):
        return (after > ratio * before) & (after - before > rise) & np.isfinite(after)


class Match(Answer):
    """How "η above η_crit" and "the loss goes up" go together, over all steps.

    Args:
        num_up: The number of steps up (or spikes).
        num_steps: The number of steps.
        match_rate: P(above | up), NaN if no step is up.
        base_rate: P(above).
        lift: match_rate / base_rate.
        up_above: P(up | above).
        up_below: P(up | not above).
        p_value: Of Fisher's exact test, one-sided: do they go together more often than by chance?

    Example:
        >>> up = np.array([True, True, False, False])
        >>> found = spike_match(up, up)
        >>> isinstance(found, Match), found.match_rate, found.lift
        (True, 1.0, 2.0)
    """

    num_up: int
    num_steps: int
    match_rate: float
    base_rate: float
    lift: float
    up_above: float
    up_below: float
    p_value: float


def spike_match(up: Flags, above: Flags) -> Match:
    """Compare the steps that go up with those that were above the critical learning rate.

    Args:
        up: Which steps raise the loss, by `spikes` with any rule.
        above: Which steps had η > η_crit(batch), measured before the step on the batch of the step.

    Example:
        >>> up = np.array([True, True, False, False])
        >>> found = spike_match(up, np.array([True, False, True, False]))
        >>> found.match_rate, found.base_rate, found.lift
        (0.5, 0.5, 1.0)
    """
    up, above = np.asarray(up), np.asarray(above)
    if up.shape != above.shape:
        raise ValueError(f"up and above must have one shape, got {up.shape} and {above.shape}.")
    if up.size == 0:
        raise ValueError("up and above must have at least one step, got none.")
    both, only_up = int((up & above).sum()), int((up & ~above).sum())
    only_above, neither = int((~up & above).sum()), int((~up & ~above).sum())
    rate = _share(both, both + only_up)
    base = _share(both + only_above, up.size)
    table = [[both, only_up], [only_above, neither]]
    _, p_value = map(float, stats.fisher_exact(table, alternative="greater"))
    return Match(
        num_up=both + only_up,
        num_steps=up.size,
        match_rate=rate,
        base_rate=base,
        lift=rate / base if base > 0 else math.nan,
        up_above=_share(both, both + only_above),
        up_below=_share(only_up, only_up + neither),
        p_value=p_value,
    )


def num_supercritical(
    learning_rate: Scalar | Float[np.ndarray, "*#runs t"],
    critical: Float[Array | np.ndarray, "*runs t"],
) -> np.ndarray:
    """Count the steps with η − η_crit > 10⁻⁸: what the source calls the number of catapults.

    Args:
        learning_rate: η, one for all steps or one for each.
        critical: η_crit of the batch of every step; time is the last axis.

    Example:
        >>> int(num_supercritical(0.5, np.array([0.4, 0.6, 0.3])))
        2
    """
    above = np.asarray(learning_rate) - np.asarray(critical) > 1e-8
    return np.asarray(above.sum(axis=-1))


def num_catapults(spiking: Flags) -> np.ndarray:
    """Count the spikes, of which several steps in a row are one.

    Args:
        spiking: Which steps spike, by `spikes`; time is the last axis.

    Example:
        >>> int(num_catapults(np.array([True, True, False, True])))
        2
    """
    spiking = np.asarray(spiking)
    begins = spiking.copy()
    begins[..., 1:] &= ~spiking[..., :-1]
    return np.asarray(begins.sum(axis=-1))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
