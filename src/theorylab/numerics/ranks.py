"""Rank correlation: do two quantities grow together, however bent the curve between them?

    ρ_S = the correlation of rank(x) with rank(y),   equal values sharing the mean of their ranks

Spearman's ρ_S is 1 where y grows with x throughout and −1 where it falls. One pair of curves has an
interval, as wide as the law of ρ_S when the order of y says nothing about that of x; of one pair of
curves per seed, `rank_correlations` gives ρ_S for each, to be judged over the seeds.
"""

import itertools
import math

import numpy as np
import scipy  # whose statistics are loaded when they are used: they take half a second
from jaxtyping import Float, Real
from scipy import special

from .intervals import HostArray, Interval, Samples

MOST_FOR_ALL_ORDERS = 8  # 8! = 40,320 orders are compared with one another


def spearman(x: Samples, y: Samples, confidence: float = 0.95) -> Interval:
    """Bound Spearman's rank correlation of two curves.

    The interval is as wide as the law of ρ_S without association: it leaves 0 out just where the
    two-sided permutation test rejects that there is none. That law is enumerated for up to 8
    points; beyond, ρ_S √((n − 2)/(1 − ρ_S²)) is taken for Student's with n − 2 degrees of freedom.
    If a number is not finite, or one curve is constant, every number is NaN.

    Example:
        >>> spearman(np.arange(12.0), np.arange(12.0) ** 3)
        Interval(estimate=1.0, low=0.424..., high=1.0)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}.")
    one, other = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if one.shape != other.shape or one.ndim != 1 or len(one) < 3:
        raise ValueError(
            f"a rank correlation needs two equal axes of 3 points, got {one.shape}, {other.shape}."
        )
    if not np.isfinite([one, other]).all() or np.ptp(one) == 0 or np.ptp(other) == 0:
        return Interval(math.nan, math.nan, math.nan)
    first, second = _standard_ranks(one), _standard_ranks(other)
    estimate = round(float(first @ second), 12)  # equal orders have 1, not 1 up to rounding
    margin = _critical_distance(first, second, 1 - confidence)
    return Interval(estimate, max(-1.0, estimate - margin), min(1.0, estimate + margin))


def rank_correlations(
    x: Real[HostArray, "seeds points"], y: Real[HostArray, "seeds points"]
) -> Float[np.ndarray, " seeds"]:
    """Spearman's ρ_S of each seed's pair of curves; NaN where one is constant or not finite.

    Example:
        >>> rank_correlations(np.array([[1.0, 2.0, 3.0]]), np.array([[3.0, 1.0, 0.0]]))
        array([-1.])
    """
    if np.shape(x) != np.shape(y) or np.ndim(x) != 2:
        raise ValueError(f"curves must be two (seeds, points), got {np.shape(x)}, {np.shape(y)}.")
    pairs = zip(np.asarray(x), np.asarray(y), strict=True)
    return np.array([spearman(one, other).estimate for one, other in pairs])


def _standard_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks with mean 0 and length 1, so that a correlation is an inner product."""
    ranks = scipy.stats.rankdata(values)
    centred = ranks - ranks.mean()
    return centred / np.linalg.norm(centred)


def _critical_distance(first: np.ndarray, second: np.ndarray, tail: float) -> float:
    """A c with P(|ρ_S| > c) ≤ tail without association, the smallest; 2 if there is none."""
    n = len(first)
    if n > MOST_FOR_ALL_ORDERS:
        t = float(special.stdtrit(n - 2, 1 - tail / 2))
        return t / math.sqrt(n - 2 + t**2)
    orders = np.array(list(itertools.permutations(range(n))))
    # Rounding must not tell equal correlations apart.
    law = np.sort(np.abs(second[orders] @ first).round(12))
    num_beyond = math.floor(tail * len(law) + 1e-9)
    too_often = law[len(law) - num_beyond - 1]
    beyond = law[law > too_often]
    return float(too_often + beyond[0]) / 2 if len(beyond) else 2.0  # nothing lies between
