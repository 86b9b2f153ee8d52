"""Exact tails, in logarithms: what the bounds bound.

    binomial      P(X ≥ k), P(X ≤ k) for X ~ Binomial(m, p)
    Rademacher    P(|Σ εᵢ| ≥ t), εᵢ = ±1 with equal probability: Σ εᵢ = 2X − m, X ~ Binomial(m, ½)
    normal        P(|X| ≤ t) for X ~ N(0, σ²)

An atom counts: "at least t" includes t itself. Tails are summed in logarithms, so that they are
right far below the smallest number of floating point.

Source: arora · concentration-lab · §1.1.1.
"""

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special, stats

Numbers = Float[np.ndarray, "..."] | float | int
Tail = Any  # as many numbers as came in: a float or an array of them

# A threshold that is a whole number on paper may be a hair off in floating point.
_ROUNDING = 1e-9


def log_binomial_above(trials: int, probability: float, threshold: Numbers) -> Tail:
    """Compute log P(X ≥ threshold).

    Example:
        >>> round(float(np.exp(log_binomial_above(10, 0.5, 9))), 6)  # 11/1024
        0.010742
    """
    least = np.ceil(np.asarray(threshold) - _ROUNDING).astype(int)
    tails = np.logaddexp.accumulate(_log_atoms(trials, probability)[::-1])[::-1]
    return np.append(tails, -np.inf)[np.clip(least, 0, trials + 1)]


def log_binomial_below(trials: int, probability: float, threshold: Numbers) -> Tail:
    """Compute log P(X ≤ threshold).

    Example:
        >>> round(float(np.exp(log_binomial_below(10, 0.5, 1))), 6)  # 11/1024
        0.010742
    """
    most = np.floor(np.asarray(threshold) + _ROUNDING).astype(int)
    tails = np.logaddexp.accumulate(_log_atoms(trials, probability))
    return np.append(tails, -np.inf)[np.clip(most, -1, trials)]


def log_signs_above(num_signs: int, threshold: Numbers) -> Tail:
    """Compute log P(Σ εᵢ ≥ threshold) for a sum of random signs.

    Example:
        >>> round(float(np.exp(log_signs_above(4, 2))), 6)  # at most one of four is −1: 5/16
        0.3125
    """
    return log_binomial_above(num_signs, 0.5, (np.asarray(threshold) + num_signs) / 2)


def log_signs_beyond(num_signs: int, threshold: Numbers) -> Tail:
    """Compute log P(|Σ εᵢ| ≥ threshold) for a threshold above 0, by symmetry.

    Example:
        >>> round(float(np.exp(log_signs_beyond(4, 2))), 6)  # 10/16
        0.625
    """
    if not np.min(threshold) > 0:
        raise ValueError(f"threshold must be positive, got {np.min(threshold)}.")
    return np.log(2) + log_signs_above(num_signs, threshold)


def normal_within(deviation: Numbers, t: Numbers) -> Tail:
    """Compute P(|X| ≤ t) = erf(t/σ√2) for X ~ N(0, σ²).

    Example: one and two standard deviations.
        >>> normal_within(1.0, np.array([1.0, 2.0])).round(4).tolist()
        [0.6827, 0.9545]
    """
    return special.erf(np.divide(t, deviation) / np.sqrt(2))


def distance_from_normal(num_signs: int) -> float:
    """Compute sup |F(x) − Φ(x)| of Σ εᵢ/√m; it is attained at an atom, on one of its sides.

    Example: it falls as 1/√m.
        >>> [round(distance_from_normal(m), 3) for m in (1, 4, 16)]
        [0.341, 0.188, 0.098]
    """
    k = np.arange(num_signs + 1.0)
    normal = special.ndtr((2 * k - num_signs) / np.sqrt(num_signs))
    below = np.exp(log_binomial_below(num_signs, 0.5, k))
    before = np.append(0.0, below[:-1])
    return float(np.maximum(np.abs(below - normal), np.abs(before - normal)).max())


def _log_atoms(trials: int, probability: float) -> Float[np.ndarray, " atoms"]:
    if trials < 1 or not 0 < probability < 1:
        raise ValueError(
            "a binomial sum needs at least 1 trial and a probability in (0, 1), "
            f"got {trials} and {probability}."
        )
    return stats.binom.logpmf(np.arange(trials + 1), trials, probability)
