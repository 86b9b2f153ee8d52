"""PAC-Bayes bounds for a Gaussian cloud of networks around the trained one.

    Q = N(w, diag s²), P = N(w₀, diag s²):  KL(Q‖P) = Σᵢ (wᵢ − w₀ᵢ)²/2sᵢ²

With probability 1 − δ over n samples, for all Q at once and a loss in [0, 1],

    risk(Q) − empirical risk(Q) ≤ √((KL + ln(2√n/δ))/2n)             Maurer (2004)
                                ≤ √((KL + ln(2n/δ))/2(n − 1))        McAllester, as the book has it

The bound is about a network drawn from Q, not about w. P must not depend on the samples: w₀ is
where training began, or 0. Deviations sₗ of arrays l that are chosen after training must come from
a list made before: powers of two, 2ʲ with weight ⅔/((|j| + 1)(|j| + 2)), which sum to 1, add
Σₗ ln(3/2 · (|jₗ| + 1)(|jₗ| + 2)) to KL (`choice_penalty`). The mean error of Q is estimated by
drawing networks; `chernoff_upper` bounds it with a confidence of its own.

Source: arora · pac-bayes · Thm 5.6.1, Ex. 5.6.2–5.6.4; Maurer (2004), arXiv:cs/0411099; Langford
and Caruana (2001), (Not) bounding the true error.
"""

import math
from collections.abc import Iterable

import jax
import jax.numpy as jnp

from theorylab.typing import Params


def gaussian_divergence(params: Params, initial_params: Params, deviations: Params) -> float:
    """KL(N(w, s²)‖N(w₀, s²)) = Σ (w − w₀)²/2s²; entries with w = w₀ count 0 even where s = 0.

    Args:
        params: w, a tree of arrays.
        initial_params: w₀, a tree of the same shapes.
        deviations: s, a tree with a number for every array.

    Example:
        >>> gaussian_divergence([jnp.array([3.0, 4.0])], [jnp.zeros(2)], [0.5])
        50.0
    """
    total = 0.0
    for w, start, s in zip(
        *map(jax.tree.leaves, (params, initial_params, deviations)), strict=True
    ):
        moved = float(jnp.sum((jnp.asarray(w) - jnp.asarray(start)) ** 2))
        if moved > 0:
            total += math.inf if s == 0 else moved / (2 * float(s) ** 2)
    return total


def choice_penalty(exponents: Iterable[int]) -> float:
    """Σₗ ln(3/2 · (|jₗ| + 1)(|jₗ| + 2)): what choosing deviations 2ʲ after training adds to KL.

    Args:
        exponents: jₗ, one an array.

    Example:
        >>> round(choice_penalty([0, -3]), 4)  # ln 3 + ln 30
        4.4998
    """
    return sum(math.log(1.5 * (abs(j) + 1) * (abs(j) + 2)) for j in exponents)


def pac_bayes_gap(divergence: float, num_samples: int, delta: float) -> float:
    """√((KL + ln(2√n/δ))/2n): bounds risk − empirical risk of Q.

    Args:
        divergence: KL(Q‖P).
        num_samples: n.
        delta: δ.

    Example:
        >>> round(pac_bayes_gap(divergence=10.0, num_samples=1000, delta=0.05), 4)
        0.0926
    """
    _check(num_samples, delta)
    level = divergence + math.log(2 * math.sqrt(num_samples) / delta)
    return math.sqrt(level / (2 * num_samples))


def mcallester_gap(divergence: float, num_samples: int, delta: float) -> float:
    """√((KL + ln(2n/δ))/2(n − 1)): the same as the book has it, a little larger.

    Args:
        divergence: KL(Q‖P).
        num_samples: n.
        delta: δ.

    Example:
        >>> round(mcallester_gap(divergence=10.0, num_samples=1000, delta=0.05), 4)
        0.1015
    """
    _check(num_samples, delta)
    level = divergence + math.log(2 * num_samples / delta)
    return math.sqrt(level / (2 * (num_samples - 1)))


def chernoff_upper(mean: float, num_samples: int, delta: float) -> float:
    """Bound E X of independent X in [0, 1]: the largest q with kl(mean‖q) ≤ ln(1/δ)/n.

    Args:
        mean: The mean of n of them.
        num_samples: n.
        delta: The probability δ that E X is larger.

    Example: never seen in 100, 1 − δ^(1/100).
        >>> round(chernoff_upper(0.0, 100, delta=0.05), 4)
        0.0295
    """
    _check(num_samples + 1, delta)
    if not 0 <= mean <= 1:
        raise ValueError(f"mean must be in [0, 1], got {mean}.")
    level = math.log(1 / delta) / num_samples
    low, high = mean, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _binary_divergence(mean, middle) <= level else (low, middle)
    return high


def _binary_divergence(p: float, q: float) -> float:
    first = 0.0 if p == 0 else p * math.log(p / q)
    second = 0.0 if p == 1 else math.inf if q == 1 else (1 - p) * math.log((1 - p) / (1 - q))
    return first + second


def _check(num_samples: int, delta: float) -> None:
    if num_samples < 2:
        raise ValueError(f"num_samples must be at least 2, got {num_samples}.")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}.")
