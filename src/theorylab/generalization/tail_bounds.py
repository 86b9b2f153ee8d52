"""Tail bounds: how unlikely a sum is to be far from its mean, in logarithms.

    Markov             P(X ≥ t) ≤ E X/t                                  X ≥ 0
    Chebyshev          P(|X − E X| ≥ t) ≤ Var X/t²                       any X
    Chernoff, above    P(X ≥ (1 + δ)μ) ≤ exp(−δ²μ/3)                     0 < δ ≤ 1
                       P(X ≥ (1 + δ)μ) ≤ exp(−μ((1 + δ)log(1 + δ) − δ))  δ > 0
    Chernoff, below    P(X ≤ (1 − δ)μ) ≤ exp(−δ²μ/2)                     0 < δ < 1
    Hoeffding          P(|X − E X| ≥ t) ≤ 2 exp(−2t²/Σ(bᵢ − aᵢ)²)        aᵢ ≤ Xᵢ ≤ bᵢ
    Bernstein          P(Σ Xᵢ > t) ≤ exp(−(t²/2)/(Σ E Xᵢ² + Mt/3))       E Xᵢ = 0, |Xᵢ| ≤ M
    anti-concentration 2t/3σ < P(|X| ≤ t) < 4t/5σ                        X ~ N(0, σ²), 0 < t ≤ σ
    matrix Bernstein   E‖Z‖ ≤ √(2v log(n₁ + n₂)) + M log(n₁ + n₂)/3
                       P(‖Z‖ ≥ t) ≤ (n₁ + n₂) exp(−(t²/2)/(v + Mt/3))

Chernoff's X is a sum of independent 0/1 variables with mean μ; Hoeffding's and Bernstein's a sum of
independent Xᵢ; Z a sum of independent centred n₁ × n₂ matrices Xᵢ with ‖Xᵢ‖ ≤ M and
v = max(‖Σ E XᵢXᵢᵀ‖, ‖Σ E XᵢᵀXᵢ‖). Every function gives the logarithm of its bound, except the two
that bound a length. (The source prints Chernoff's first bound for all δ > 0 and anti-concentration
for all t, where they are false, and asks X ≥ 0 of Chebyshev, which needs nothing.) NumPy on the
host, always in double precision.

Source: arora · concentration-lab · §1.1.1.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

Numbers = Float[np.ndarray, "..."] | float | int
Bound = Any  # as many numbers as came in: a float or an array of them


def log_markov(mean: Numbers, t: Numbers) -> Bound:
    """Bound log P(X ≥ t) for X ≥ 0.

    Example:
        >>> float(np.exp(log_markov(1.0, 4.0)))
        0.25
    """
    _positive(mean=mean, t=t)
    return np.log(mean) - np.log(t)


def log_chebyshev(variance: Numbers, t: Numbers) -> Bound:
    """Bound log P(|X − E X| ≥ t) for any X of that variance.

    Example: beyond two standard deviations.
        >>> float(np.exp(log_chebyshev(variance=1.0, t=2.0)))
        0.25
    """
    _positive(variance=variance, t=t)
    return np.log(variance) - 2 * np.log(t)


def log_chernoff_above(mean: Numbers, delta: Numbers) -> Bound:
    """Bound log P(X ≥ (1 + δ)μ) by −δ²μ/3, for 0 < δ ≤ 1.

    Example:
        >>> float(log_chernoff_above(mean=12.0, delta=0.5))
        -1.0
    """
    _positive(mean=mean, delta=delta)
    if np.max(delta) > 1:
        raise ValueError(f"delta must be at most 1, got {np.max(delta)}: see log_chernoff_far.")
    return chernoff_shorthand(mean, delta)


def chernoff_shorthand(mean: Numbers, delta: Numbers) -> Bound:
    """The expression −δ²μ/3 at any δ, as it is printed; a bound only where δ ≤ 1.

    Example:
        >>> float(chernoff_shorthand(mean=12.0, delta=2.0))
        -16.0
    """
    return -np.square(delta) * mean / 3


def log_chernoff_far(mean: Numbers, delta: Numbers) -> Bound:
    """Bound log P(X ≥ (1 + δ)μ) by −μ((1 + δ)log(1 + δ) − δ), for every δ > 0.

    Example:
        >>> round(float(log_chernoff_far(mean=12.0, delta=2.0)), 3)
        -15.55
    """
    _positive(mean=mean, delta=delta)
    return -mean * ((1 + delta) * np.log1p(delta) - delta)


def log_chernoff_below(mean: Numbers, delta: Numbers) -> Bound:
    """Bound log P(X ≤ (1 − δ)μ) by −δ²μ/2, for 0 < δ < 1.

    Example:
        >>> float(log_chernoff_below(mean=12.0, delta=0.5))
        -1.5
    """
    _positive(mean=mean, delta=delta)
    if np.max(delta) >= 1:
        raise ValueError(f"delta must be below 1, got {np.max(delta)}.")
    return -np.square(delta) * mean / 2


def log_hoeffding(squared_ranges: Numbers, t: Numbers) -> Bound:
    """Bound log P(|X − E X| ≥ t), with Σ(bᵢ − aᵢ)² of the independent summands.

    Example:
        >>> float(log_hoeffding(4.0 * 100, 10.0) - np.log(2))
        -0.5
    """
    _positive(squared_ranges=squared_ranges, t=t)
    return np.log(2) - 2 * np.square(t) / squared_ranges


def log_bernstein(variance: Numbers, largest: Numbers, t: Numbers) -> Bound:
    """Bound log P(Σ Xᵢ > t) for centred |Xᵢ| ≤ M with Σ E Xᵢ² = variance.

    Example:
        >>> float(log_bernstein(variance=7.0, largest=1.0, t=3.0))
        -0.5625
    """
    _positive(variance=variance, largest=largest, t=t)
    return -(np.square(t) / 2) / (variance + largest * t / 3)


def anti_concentration(deviation: Numbers, t: Numbers) -> tuple[Bound, Bound]:
    """Bound P(|X| ≤ t) from below by 2t/3σ and from above by 4t/5σ, for X ~ N(0, σ²), 0 < t ≤ σ.

    Example:
        >>> low, high = anti_concentration(deviation=1.0, t=0.75)
        >>> round(float(low), 6), round(float(high), 6)
        (0.5, 0.6)
    """
    _positive(deviation=deviation, t=t)
    if np.max(np.divide(t, deviation)) > 1:
        worst = np.max(np.divide(t, deviation))
        raise ValueError(f"t must be at most the standard deviation, got {worst} times as much.")
    return anti_concentration_shorthand(deviation, t)


def anti_concentration_shorthand(deviation: Numbers, t: Numbers) -> tuple[Bound, Bound]:
    """The expressions 2t/3σ and 4t/5σ at any t, as they are printed; bounds only where t ≤ σ.

    Example: at t = 3σ the lower expression is above 1.
        >>> [round(float(side), 6) for side in anti_concentration_shorthand(deviation=1.0, t=3.0)]
        [2.0, 2.4]
    """
    ratio = np.divide(t, deviation)
    return 2 * ratio / 3, 4 * ratio / 5


def matrix_bernstein_mean(variance: Numbers, largest: Numbers, shape: tuple[int, int]) -> Bound:
    """Bound E‖Z‖, the mean spectral norm of a sum of centred random matrices.

    Example:
        >>> round(float(matrix_bernstein_mean(variance=1.0, largest=0.1, shape=(50, 50))), 3)
        3.188
    """
    _positive(variance=variance, largest=largest)
    logarithm = np.log(_both_sides(shape))
    return np.sqrt(2 * variance * logarithm) + largest * logarithm / 3


def log_matrix_bernstein(
    variance: Numbers, largest: Numbers, shape: tuple[int, int], t: Numbers
) -> Bound:
    """Bound log P(‖Z‖ ≥ t).

    Example: n₁ + n₂ times the bound for numbers.
        >>> bound = log_matrix_bernstein(variance=7.0, largest=1.0, shape=(5, 5), t=3.0)
        >>> round(float(np.exp(bound - log_bernstein(7.0, 1.0, 3.0))), 6)
        10.0
    """
    return np.log(_both_sides(shape)) + log_bernstein(variance, largest, t)


def _both_sides(shape: tuple[int, int]) -> int:
    if min(shape) < 1:
        raise ValueError(f"a matrix must have at least one row and one column, got {shape}.")
    return sum(shape)


def _positive(**numbers: Numbers) -> None:
    for name, value in numbers.items():
        if not np.min(value) > 0:
            raise ValueError(f"{name} must be positive, got {np.min(value)}.")
