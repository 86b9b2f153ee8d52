"""The ratio of two means, R = E a / E b, of numbers that come in pairs, with its interval.

    R̂ = ā/b̄,    log R̂ ± t s/(√n ā),    s² the variance of a − R̂b

The error of a ratio is that of the residuals a − Rb (the delta method); it is taken on the scale of
log R, so that the interval is positive, and the same for R and 1/R. Half of it is that of √R, a
ratio of two norms.
"""

import math

import numpy as np
from jaxtyping import Real
from scipy import special

from .intervals import HostArray, Interval

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
    error = (a - ratio * b).std(ddof=1) / math.sqrt(len(a)) / a.mean()
    margin = math.exp(min(float(special.stdtrit(len(a) - 1, (1 + confidence) / 2)) * error, 700))
    return Interval(ratio, ratio / margin, ratio * margin)


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
