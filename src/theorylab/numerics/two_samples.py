"""Confidence intervals for the difference of two samples.

    Newcombe    p₁ − p₂ of two probabilities: with Wilson's interval [lᵢ, uᵢ] of each,
                from (p₁ − p₂) − √((p₁ − l₁)² + (u₂ − p₂)²)
                  to (p₁ − p₂) + √((u₁ − p₁)² + (p₂ − l₂)²)
    Welch       μ₁ − μ₂ of two means: (x̄₁ − x̄₂) ± t √(s₁²/n₁ + s₂²/n₂)

Wilson's interval solves (p − p̂)² ≤ z² p(1 − p)/n. Source: Newcombe (1998), Interval estimation for
the difference between independent proportions, method 10.
"""

import math

import numpy as np
from jaxtyping import Real
from scipy import special

from .intervals import HostArray, Interval, Samples

OtherSamples = Real[HostArray, " others"]


def wilson(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Bound a probability by Wilson's interval: about the confidence, also near 0 and 1.

    Example:
        >>> interval = wilson(0, 10)
        >>> round(interval.low, 4), round(interval.high, 4)
        (0.0, 0.2775)
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(
            f"successes must be between 0 and trials >= 1, got {successes} of {trials}."
        )
    share, z = successes / trials, float(special.ndtri((1 + confidence) / 2))
    centre = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    spread /= 1 + z**2 / trials
    return Interval(share, max(0.0, centre - spread), min(1.0, centre + spread))


def newcombe(first: tuple[int, int], second: tuple[int, int], confidence: float = 0.95) -> Interval:
    """Bound the difference of two probabilities, each given as (successes, trials).

    Example: Newcombe's own, 56/70 − 48/80.
        >>> interval = newcombe((56, 70), (48, 80))
        >>> [round(end, 4) for end in interval]
        [0.2, 0.0524, 0.3339]
    """
    one, two = wilson(*first, confidence), wilson(*second, confidence)
    difference = one.estimate - two.estimate
    down = math.hypot(one.estimate - one.low, two.high - two.estimate)
    up = math.hypot(one.high - one.estimate, two.estimate - two.low)
    return Interval(difference, difference - down, difference + up)


def welch(first: Samples, second: OtherSamples, confidence: float = 0.95) -> Interval:
    """Bound the difference of two means, with Welch's degrees of freedom.

    Example:
        >>> interval = welch(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0]))
        >>> interval.estimate, round(interval.low, 3), round(interval.high, 3)
        (1.0, -1.267, 3.267)
    """
    samples = [np.asarray(each, float) for each in (first, second)]
    if min(map(len, samples)) < 2:
        raise ValueError(f"both samples must have at least 2 numbers, got {[*map(len, samples)]}.")
    difference = float(samples[0].mean() - samples[1].mean())
    parts = [float(each.var(ddof=1)) / len(each) for each in samples]
    if sum(parts) == 0 or not math.isfinite(sum(parts)):
        return Interval(difference, difference, difference)
    weights = [part**2 / (len(each) - 1) for part, each in zip(parts, samples, strict=True)]
    t = float(special.stdtrit(sum(parts) ** 2 / sum(weights), (1 + confidence) / 2))
    spread = t * math.sqrt(sum(parts))
    return Interval(difference, difference - spread, difference + spread)
