"""Generalization of the lazy two-layer network: what its tangent kernel says before training.

All functions f_W linear in W − W(0) with ‖W − W(0)‖_F ≤ B, on n samples with tangent kernel H, have
the Rademacher complexity

    Rad = E_ε sup_W (1/n) Σᵢ εᵢ f_W(xᵢ) ≤ B √(tr H)/n,

and training travels B = √(yᵀH⁻¹y). (One source sets B = yᵀH⁻¹y, without the root.) With
probability 1 − δ over a width of m ReLU neurons, for inputs of length 1,

    tr H(0) ≤ n/2 + √(n² log(1/δ)/2m),    so that   Rad ≤ B/√n · √(½ + √(log(1/δ)/2m)).

A loss in [0, 1] with slope at most 1 then has, with probability 1 − δ over the samples,

    test loss − training loss ≤ 2 Rad + 3√(log(2/δ)/2n).

One source prints a bound of the zero–one risk instead, (1 + yᵀH⁻¹y)/√n · √(½ + √(log(1/δ)/2m)) +
√(log(1/δ)/2n); `network_risk_bound` has it, and fails for labels far below 1.

The complexity measure of the other source is √(2 yᵀH*⁻¹y · tr H*)/n, which is √(yᵀH*⁻¹y/n) for
‖x‖ = 1. It vanishes for teachers y = g(x) with √(yᵀH*⁻¹y) bounded in n:

    βᵀx                    ≤ 2‖β‖                       measure ≤ 2‖β‖/√n ≤ 2√2 ‖β‖/√n
    α(βᵀx)ᵖ, p even        ≤ 3p |α| ‖β‖ᵖ
    α(cos βᵀx − 1)         ≤ 3|α| ‖β‖ sinh ‖β‖

by the series of H*, whose coefficients are positive at 1 and at even powers. (The cosine is
printed as p|α|‖β‖ sinh(‖β‖²), with a power p that a cosine has not.) Odd powers from 3 on are not
there, and their √(yᵀH*⁻¹y) grows with n.

Source: arora · ntk-generalization · Eq. 9.11; arora · ntk-teachers · §9.3.1, Ex. 9.6.3; golikov ·
ntk-rademacher · 2.6.3, Eqs 2.129–2.143, Thm 2.6.3.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Array, Float
from scipy import linalg

Matrix = Float[np.ndarray, "n n"] | Float[Array, "n n"]
Labels = Float[np.ndarray, "n *tasks"] | Float[Array, "n *tasks"]
Numbers = float | int | Float[np.ndarray, "..."]
Bound = Any  # as many numbers as came in: a float or an array of them


def travelled_square(kernel: Matrix, y: Labels) -> Bound:
    """yᵀH⁻¹y = ‖W(∞) − W(0)‖²_F, by Cholesky in double precision.

    Args:
        kernel: H, positive definite.
        y: Labels; more than one set of them in columns.

    Example:
        >>> round(float(travelled_square(0.5 * np.eye(2), np.array([1.0, 1.0]))), 6)
        4.0
    """
    factor = linalg.cho_factor(np.asarray(kernel, float), lower=True)
    labels = np.asarray(y, float)
    return np.sum(labels * linalg.cho_solve(factor, labels), axis=0)


def complexity_measure(kernel: Matrix, y: Labels) -> Bound:
    """√(2 yᵀH⁻¹y · tr H)/n, the measure that goes with the test error (Eq. 9.11).

    Example:
        >>> round(float(complexity_measure(0.5 * np.eye(2), np.array([1.0, 1.0]))), 6)
        1.414214
    """
    trace = float(np.trace(np.asarray(kernel, float)))
    return np.sqrt(2 * travelled_square(kernel, y) * trace) / len(kernel)


def rademacher_bound(radius: Numbers, trace: Numbers, num_samples: int) -> Bound:
    """B √(tr H)/n: bounds Rad of the functions within distance B in weights.

    Example:
        >>> float(rademacher_bound(radius=2.0, trace=25.0, num_samples=50))
        0.2
    """
    return radius * np.sqrt(trace) / num_samples


def trace_bound(num_samples: int, width: Numbers, delta: float) -> Bound:
    """n/2 + √(n² log(1/δ)/2m): bounds tr H(0) with probability 1 − δ (Eq. 2.137).

    Example:
        >>> round(float(trace_bound(100, 200, delta=0.1)), 2)
        57.59
    """
    _check_delta(delta)
    return num_samples / 2 + num_samples * np.sqrt(math.log(1 / delta) / (2 * np.asarray(width)))


def gap_bound(rademacher: Numbers, num_samples: int, delta: float) -> Bound:
    """2 Rad + 3√(log(2/δ)/2n): bounds test loss − training loss, of a loss in [0, 1], slope ≤ 1.

    Example:
        >>> round(float(gap_bound(rademacher=0.05, num_samples=1000, delta=0.05)), 3)
        0.229
    """
    _check_delta(delta)
    return 2 * np.asarray(rademacher) + 3 * math.sqrt(math.log(2 / delta) / (2 * num_samples))


def network_risk_bound(travelled: Numbers, num_samples: int, width: Numbers, delta: float) -> Bound:
    """(1 + yᵀH⁻¹y)/√n · √(½ + √(log(1/δ)/2m)) + √(log(1/δ)/2n), as Eq. 2.143 prints it.

    Printed as a bound of the zero–one risk of a network of m neurons that fits n samples. It is
    none: labels can be scaled down without changing a risk.

    Args:
        travelled: yᵀH⁻¹y.
        num_samples: The number of samples n.
        width: The number of neurons m.
        delta: The probability δ to fail.

    Example:
        >>> round(float(network_risk_bound(0.0, num_samples=100, width=np.inf, delta=0.5)), 4)
        0.1296
    """
    _check_delta(delta)
    level = math.log(1 / delta)
    root = np.sqrt(0.5 + np.sqrt(level / (2 * np.asarray(width))))
    distance = (1 + np.asarray(travelled)) / math.sqrt(num_samples)
    return distance * root + math.sqrt(level / (2 * num_samples))


def guarantee_width(num_samples: int, least: float, delta: float, power: float = 1.0) -> float:
    """max(n⁷/(λ₀⁴δᵖ), n²/λ₀² · log(2n/δ)): the width that Eq. 2.142 demands, with constants 1.

    Args:
        num_samples: The number of samples n.
        least: λ₀, the least eigenvalue of the kernel.
        delta: The probability δ to fail.
        power: The exponent p, which the theorem leaves open.

    Example:
        >>> guarantee_width(10, least=0.5, delta=0.5)
        320000000.0
    """
    _check_delta(delta)
    fits = num_samples**2 / least**2 * math.log(2 * num_samples / delta)
    return max(num_samples**7 / (least**4 * delta**power), fits)


def linear_teacher_bound(length: Numbers) -> Bound:
    """2‖β‖: bounds √(yᵀH*⁻¹y) for y = βᵀx, because H* ≥ K/4.

    Example:
        >>> float(linear_teacher_bound(length=1.5))
        3.0
    """
    return 2 * np.asarray(length)


def power_teacher_bound(power: int, scale: Numbers, length: Numbers) -> Bound:
    """3p|α|‖β‖ᵖ: bounds √(yᵀH*⁻¹y) for y = α(βᵀx)ᵖ with p even.

    Example:
        >>> float(power_teacher_bound(power=2, scale=-1.0, length=2.0))
        24.0
    """
    if power < 2 or power % 2:
        raise ValueError(f"power must be even and at least 2, got {power}.")
    return 3 * power * np.abs(scale) * np.asarray(length, float) ** power


def cosine_teacher_bound(scale: Numbers, length: Numbers) -> Bound:
    """3|α|‖β‖ sinh‖β‖: bounds √(yᵀH*⁻¹y) for y = α(cos βᵀx − 1).

    It sums 3p‖β‖ᵖ/p! over the even powers p of the cosine.

    Example:
        >>> round(float(cosine_teacher_bound(scale=1.0, length=1.0)), 4)
        3.5256
    """
    return 3 * np.abs(scale) * np.asarray(length) * np.sinh(length)


def printed_cosine_bound(scale: Numbers, length: Numbers, power: int = 1) -> Bound:
    """3p|α|‖β‖ sinh(‖β‖²), as the cosine's bound is printed.

    As ‖β‖ → 0 it falls as ‖β‖³, but √(yᵀH*⁻¹y) only as ‖β‖²: no bound, whatever p and the constant.
    For long β it is far larger than `cosine_teacher_bound`.

    Example:
        >>> round(float(printed_cosine_bound(scale=1.0, length=2.0)), 2)
        163.74
        >>> round(float(cosine_teacher_bound(scale=1.0, length=2.0)), 2)
        21.76
    """
    return 3 * power * np.abs(scale) * np.asarray(length) * np.sinh(np.square(length))


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}.")
