"""The ratio of two means, R = E a / E b, of numbers that come in pairs, with its interval.

    R̂ = ā/b̄,    vᵢ = n log R̂ − (n − 1) log R̂₍ᵢ₎        R̂₍ᵢ₎ without pair i (the jackknife)

The mean of the pseudo-values v estimates log R, so the interval is positive, and the same for R and
1/R upside down. Of Student's interval for that mean and Hall's, which minds their skewness, the
wider ends are taken: of squares of a few dozen samples each alone misses R too often. Half of it is
the interval of √R, a ratio of two norms.

Source: Efron (1982), The Jackknife, the Bootstrap and Other Resampling Plans, §3.
"""

import math

import numpy as np
from jaxtyping import Real

from .intervals import HostArray, Interval, hall, student

Numbers = Real[HostArray, " samples"]


def mean_ratio(above: Numbers, below: Numbers, confidence: float = 0.95) -> Interval:
    """Bound E a / E b, for a and b that are not negative.

    Args:
        above: a, one number for each sample.
        below: b, of the same samples, not all 0.
        confidence: Of the interval.

    Example:
        >>> mean_ratio(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
        Interval(estimate=2.0, low=2.0, high=2.0)
    """
    a, b = np.asarray(above, float), np.asarray(below, float)
    if a.ndim != 1 or a.shape != b.shape or len(a) < 2:
        raise ValueError(
            f"above and below must be (n,) with n at least 2, got {a.shape} and {b.shape}."
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return Interval(math.nan, math.nan, math.nan)
    if (a < 0).any() or (b < 0).any() or not b.any():
        raise ValueError("above and below must not be negative, and below not all 0.")
    ratio = float(a.mean() / b.mean())
    if ratio == 0:
        return Interval(0.0, 0.0, 0.0)
    values = _pseudo_values(a, b)
    if np.ptp(values) == 0:
        return Interval(ratio, ratio, ratio)
    logarithm = math.log(ratio)
    found = (student(values, confidence), hall(values, confidence))
    low, high = min(each.low for each in found), max(each.high for each in found)
    down, up = (min(max(side, 0.0), 700.0) for side in (logarithm - low, high - logarithm))
    return Interval(ratio, ratio * math.exp(-down), ratio * math.exp(up))


def _pseudo_values(above: Numbers, below: Numbers) -> Numbers:
    """What each pair adds to log R̂; to first order, where a pair has all there is."""
    n, rests = len(above), (above.sum() - above, below.sum() - below)
    ratio = above.sum() / below.sum()
    if min(rest.min() for rest in rests) <= 0:
        return math.log(ratio) + (above - ratio * below) / above.mean()
    return n * math.log(ratio) - (n - 1) * np.log(rests[0] / rests[1])


def norm_ratio(above: Numbers, below: Numbers, confidence: float = 0.95) -> Interval:
    """Bound √(E a / E b), the ratio of two norms whose squares are sums of a and b.

    Args:
        above: Squares, one for each sample.
        below: Squares of the same samples, not all 0.
        confidence: Of the interval.

    Example:
        >>> norm_ratio(np.array([4.0, 8.0]), np.array([1.0, 2.0])).estimate
        2.0
    """
    return Interval(*(math.sqrt(value) for value in mean_ratio(above, below, confidence)))
