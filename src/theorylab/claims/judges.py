"""The judges: measured numbers ─► a finding.

    one number, no noise     at_most, at_least, between, identity, holds
    one number per seed      median_*, mean_between, exponent_between, ordered, trend
    so many of so many       probability_*

A judge makes an interval for the truth and compares it with what is demanded: *supported* if it
lies inside, *refuted* if outside. If something is not finite, or there are too few seeds, the
finding is *inconclusive*. Seeds are independent; each judge over seeds is wrong at most 5 % of the
time, in either direction, whatever the law of the noise (`mean_between`: see there).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Array, ArrayLike, Int, Real

from theorylab.numerics import (
    Interval,
    clopper_pearson,
    hall,
    ordered_share,
    power_law_exponents,
    sign_coverage,
    sign_interval,
)

from .claim import Demand, Finding, Verdict, verdict

Measured = Array | np.ndarray
Number = Real[ArrayLike, ""]
Seeds = Real[Measured, " seeds"]

FEWEST_FOR_A_MEDIAN = 6  # 5 seeds are on one side of the median with probability 2/2⁵ > 5 %
FEWEST_FOR_A_MEAN = 30


def at_most(value: Number, bound: Number) -> Finding:
    """Judge value <= bound, for a number without noise.

    Example:
        >>> str(at_most(1.0, 2.0).verdict), str(at_most(float("nan"), 2.0).verdict)
        ('supported', 'inconclusive')
    """
    return between(value, -math.inf, bound)


def at_least(value: Number, bound: Number) -> Finding:
    """Judge value >= bound, for a number without noise."""
    return between(value, bound, math.inf)


def between(value: Number, low: Number, high: Number) -> Finding:
    """Judge low <= value <= high, for a number without noise."""
    return _extreme(value, np.max, low, high)


@np.errstate(over="ignore", invalid="ignore")
def identity(
    measured: Real[ArrayLike, "..."], expected: Real[ArrayLike, "..."], tolerance: Number
) -> Finding:
    """Judge measured = expected to rounding: max|a - b| / max|b| <= tolerance.

    The error is absolute where the expected numbers are all 0.

    Example:
        >>> finding = identity(np.array([1.0, 2.0]), np.array([1.0, 2.5]), 1e-12)
        >>> finding.measured, str(finding.verdict)
        (0.2, 'refuted')
    """
    a, b = np.asarray(measured, dtype=float), np.asarray(expected, dtype=float)
    if a.shape != b.shape:
        raise ValueError(f"an identity needs two equal shapes, got {a.shape} and {b.shape}.")
    scale = np.abs(b).max(initial=0.0)
    errors = np.abs(a - b) / (1.0 if scale == 0 else scale)
    return _extreme(errors, np.max, -math.inf, tolerance)


def holds(margins: Real[ArrayLike, "..."], rounding: Number = 0.0) -> Finding:
    """Judge that an inequality is never violated: every margin is at least -rounding.

    Example:
        >>> str(holds(np.array([0.5, 0.0, 2.0])).verdict)
        'supported'
    """
    return _extreme(margins, np.min, 0.0 - float(np.asarray(rounding)), math.inf)


def median_at_most(samples: Seeds, bound: Number) -> Finding:
    """Judge that the median over seeds is at most the bound, by the exact sign interval.

    Example:
        >>> finding = median_at_most(np.arange(10.0), 9.0)
        >>> str(finding.verdict), finding.method
        ('supported', 'sign interval over 10 seeds, 97.9 %')
    """
    return _median(samples, -math.inf, bound)


def median_at_least(samples: Seeds, bound: Number) -> Finding:
    """Judge that the median over seeds is at least the bound, by the exact sign interval."""
    return _median(samples, bound, math.inf)


def median_between(samples: Seeds, low: Number, high: Number) -> Finding:
    """Judge that the median over seeds lies in [low, high], by the exact sign interval."""
    return _median(samples, low, high)


def mean_between(samples: Seeds, low: Number, high: Number) -> Finding:
    """Judge that the mean over seeds lies in [low, high], by Hall's interval at 99 %.

    Hall's interval is Student's, corrected for skewness; 30 seeds are needed. No interval of a mean
    is right for every law, because a rare and huge value may be missing among the seeds. At 99 %
    this one misses the mean at most 5 % of the time up to a lognormal of σ = 1.5, where Student's
    misses it in 15 % of the experiments (in 6 % at σ = 1). Prefer the median.
    """
    return _judge(
        samples,
        (low, high),
        lambda values: hall(values, 0.99),
        f"Hall over {len(samples)} seeds, 99 %",
        fewest=FEWEST_FOR_A_MEAN,
    )


def exponent_between(
    x: Real[Measured, " points"] | Sequence[int] | Sequence[float],
    y: Real[Measured, "seeds points"],
    low: Number,
    high: Number,
) -> Finding:
    """Judge that y ∝ xᵖ with p in [low, high]: the median over seeds of the log–log slopes.

    A curve that is not positive and finite everywhere leaves it inconclusive.
    """
    return _median(power_law_exponents(np.asarray(x), y), low, high, "log–log slopes, ")


def ordered(smaller: Seeds, larger: Seeds) -> Finding:
    """Judge that, seed by seed, one is smaller than the other: median(larger - smaller) > 0.

    Example:
        >>> zeros, ones = np.zeros(8), np.ones(8)
        >>> str(ordered(zeros, ones).verdict), str(ordered(ones, ones).verdict)
        ('supported', 'inconclusive')
    """
    one, other = np.asarray(smaller, dtype=float), np.asarray(larger, dtype=float)
    if one.shape != other.shape:
        raise ValueError(f"paired seeds need equal shapes, got {one.shape} and {other.shape}.")
    with np.errstate(over="ignore", invalid="ignore"):
        return _median(other - one, 0.0, math.inf, "paired differences, ", closed=False)


def trend(groups: Real[Measured, "levels seeds"], increasing: bool = True) -> Finding:
    """Judge that the numbers grow (or fall) with the level, by Jonckheere's test at 99.5 %.

    What is measured is the share of pairs, from two levels each, that are in the claimed order;
    without a trend it is ½. The test takes the noise to have one law at all levels. Noise that
    widens from level to level can make the share's variance 1.5 (2k - 1)/(k + 1) times as large at
    k levels; at 99.5 % the judge is then still wrong at most 5 % of the time, up to 20 levels.

    Args:
        groups: One row per level, in the order of the levels; the columns are seeds.
        increasing: Whether growth is claimed, or fall.
    """
    levels, seeds = groups.shape
    if levels < 2:
        raise ValueError(f"a trend needs at least 2 levels, got {levels}.")
    return _judge(
        groups if increasing else groups[::-1],
        (0.5, math.inf),
        lambda values: ordered_share(values, 0.995),
        f"Jonckheere over {levels} levels of {seeds} seeds, 99.5 %",
        fewest=_fewest_for_a_trend(levels),
    )


def probability_at_most(
    successes: Int[ArrayLike, ""], trials: Int[ArrayLike, ""], bound: Number
) -> Finding:
    """Judge that a probability is at most the bound, by Clopper and Pearson's interval at 95 %.

    Example:
        >>> str(probability_at_most(0, 100, 0.05).verdict)
        'supported'
    """
    return _probability(successes, trials, -math.inf, bound)


def probability_at_least(
    successes: Int[ArrayLike, ""], trials: Int[ArrayLike, ""], bound: Number
) -> Finding:
    """Judge that a probability is at least the bound, by Clopper and Pearson's interval at 95 %."""
    return _probability(successes, trials, bound, math.inf)


def probability_between(
    successes: Int[ArrayLike, ""], trials: Int[ArrayLike, ""], low: Number, high: Number
) -> Finding:
    """Judge that a probability is in [low, high], by Clopper and Pearson's interval at 95 %.

    Example:
        >>> str(probability_between(941, 1000, 0.93, 0.97).verdict)
        'inconclusive'
    """
    return _probability(successes, trials, low, high)


def _extreme(
    values: Real[ArrayLike, "..."],
    worst: Callable[[np.ndarray], np.floating],
    low: Number,
    high: Number,
) -> Finding:
    """Judge numbers without noise by the worst of them."""
    return _judge(
        np.ravel(np.asarray(values)),
        (low, high),
        lambda x: Interval(*[float(worst(x))] * 3),
        "exact",
    )


def _median(
    samples: Measured, low: Number, high: Number, what: str = "", closed: bool = True
) -> Finding:
    seeds = len(samples)
    method = f"{what}sign interval over {seeds} seeds, {100 * sign_coverage(seeds):.1f} %"
    fewest = FEWEST_FOR_A_MEDIAN
    return _judge(samples, (low, high), sign_interval, method, fewest, closed)


def _probability(
    successes: Int[ArrayLike, ""], trials: Int[ArrayLike, ""], low: Number, high: Number
) -> Finding:
    count = int(np.asarray(trials))
    if count == 0:
        return _unknown(Demand(float(np.asarray(low)), float(np.asarray(high))), "no trials")
    interval = clopper_pearson(int(np.asarray(successes)), count)
    method = f"Clopper–Pearson over {count} trials, 95 %"
    return _judge(np.array([interval.estimate]), (low, high), lambda _: interval, method)


def _judge(
    measured: Measured,
    demanded: tuple[Number, Number],
    interval: Callable[[np.ndarray], Interval],
    method: str,
    fewest: int = 1,
    closed: bool = True,
) -> Finding:
    """Compare the interval with what is demanded, unless something is not finite or too little.

    An interval that touches an end of what is demanded lies inside only if the end is `closed`.
    """
    values, (low, high) = np.asarray(measured, dtype=float), map(float, map(np.asarray, demanded))
    if math.isnan(low) or math.isnan(high) or (math.isinf(low) and math.isinf(high)):
        return _unknown(Demand(), "what is demanded is not finite")
    demand, broken = Demand(low, high), int(np.count_nonzero(~np.isfinite(values)))
    if broken:
        return _unknown(demand, f"{broken} of {values.size} numbers are not finite")
    if values.size == 0:
        return _unknown(demand, "nothing was measured")
    found = interval(values)
    seeds = values.shape[-1]
    if seeds < fewest:
        found = Interval(found.estimate, -math.inf, math.inf)
        method = f"{seeds} seeds, at least {fewest} are needed"
    touching = not closed and (found.low == low or found.high == high)
    judged = Verdict.INCONCLUSIVE if touching else verdict(found.low, found.high, demand)
    return Finding(*found, demand, judged, method)


def _fewest_for_a_trend(levels: int) -> int:
    """Fewest seeds n for which chance orders all levels in at most 1 of 400 cases: n!ᵏ/(kn)!."""
    fewest = 1
    while math.factorial(levels * fewest) < 400 * math.factorial(fewest) ** levels:
        fewest += 1
    return fewest


def _unknown(demand: Demand, why: str) -> Finding:
    return Finding(math.nan, math.nan, math.nan, demand, Verdict.INCONCLUSIVE, why)
