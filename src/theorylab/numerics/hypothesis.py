"""Tests of a hypothesis: is one thing larger than another, is there a trend?

    sign_test          paired; the median difference is 0       counts the signs
    permutation_test   paired; differences are symmetric        flips the signs
    jonckheere         groups in an order; all have one law     counts the pairs that are in order

Each gives the statistic and its p-value under the hypothesis that there is no effect.
"""

import math
from functools import lru_cache
from itertools import accumulate
from typing import Literal, NamedTuple

import numpy as np
import scipy  # whose statistics are loaded when they are used: they take half a second
from jaxtyping import Real
from scipy import special

from theorylab.typing import RandomKey

from .intervals import HostArray, Interval, Samples, generator

Alternative = Literal["two-sided", "less", "greater"]


class HypothesisTest(NamedTuple):
    """A statistic and how improbable one at least as extreme is if there is no effect.

    Example:
        >>> sign_test(np.zeros(9), np.ones(9)).p_value < 0.05
        True
    """

    statistic: float
    p_value: float


def sign_test(
    first: Samples, second: Samples, alternative: Alternative = "two-sided"
) -> HypothesisTest:
    """Count the pairs with second > first among those that differ: Binomial(n, ½) without effect.

    Args:
        first: One measurement per pair.
        second: The other measurement of the same pairs.
        alternative: "greater" asks whether `second` is the larger one.

    Example:
        >>> sign_test(np.zeros(5), np.ones(5), "greater")
        HypothesisTest(statistic=5.0, p_value=0.03125)
    """
    differences = _differences(first, second)
    if not np.isfinite(differences).all():
        return HypothesisTest(math.nan, math.nan)
    wins, pairs = int((differences > 0).sum()), int((differences != 0).sum())
    if pairs == 0:
        return HypothesisTest(0.0, 1.0)
    return HypothesisTest(
        float(wins), float(scipy.stats.binomtest(wins, pairs, 0.5, alternative).pvalue)
    )


def permutation_test(
    first: Samples,
    second: Samples,
    key: RandomKey,
    alternative: Alternative = "two-sided",
    num_resamples: int = 9999,
) -> HypothesisTest:
    """Compare the mean of second - first with its values when every pair may be swapped.

    All 2ⁿ swaps are used if they are at most `num_resamples`; then the p-value is exact.

    Example:
        >>> import jax
        >>> first, second = np.zeros(5), np.arange(1.0, 6.0)
        >>> permutation_test(first, second, jax.random.key(0), "greater")  # 1 of 2⁵ swaps
        HypothesisTest(statistic=3.0, p_value=0.03125)
    """
    differences = _differences(first, second)
    if not np.isfinite(differences).all():
        return HypothesisTest(math.nan, math.nan)
    outcome = scipy.stats.permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        alternative=alternative,
        n_resamples=num_resamples,
        rng=generator(key),
    )
    return HypothesisTest(float(outcome.statistic), float(outcome.pvalue))


def jonckheere(
    groups: Real[HostArray, "levels seeds"], alternative: Alternative = "greater"
) -> HypothesisTest:
    """Test for a trend across ordered groups of equal size (Jonckheere 1954, Terpstra 1952).

    J = Σ_{a<b} #{(i, j): x_ai < x_bj}, ties counting ½. Its law without a trend is exact if there
    are no ties and at most 2,000 pairs; otherwise it is Gaussian, with the variance that ties
    leave (Hollander and Wolfe, Nonparametric Statistical Methods, §6.2).

    Args:
        groups: One row per level, in the order of the levels.
        alternative: "greater" asks whether the numbers grow with the level.

    Example:
        >>> jonckheere(np.array([[1.0, 2.0], [3.0, 4.0]]))
        HypothesisTest(statistic=4.0, p_value=0.16666666666666666)
    """
    values = _checked_groups(groups)
    if not np.isfinite(values).all():
        return HypothesisTest(math.nan, math.nan)
    count, pairs = _ordered_pairs(values), _num_pairs(*values.shape)
    greater, less = _tail(values, count), _tail(values, pairs - count)
    p_value = {"greater": greater, "less": less, "two-sided": min(1.0, 2 * min(greater, less))}
    return HypothesisTest(count, p_value[alternative])


def ordered_share(groups: Real[HostArray, "levels seeds"], confidence: float = 0.95) -> Interval:
    """Bound Jonckheere's share of ordered pairs, J / #pairs; it is ½ where there is no trend.

    The interval is as wide as the share's law without a trend: it leaves ½ out just where
    `jonckheere`, two-sided, rejects that there is no trend.

    Example:
        >>> ordered_share(np.arange(12.0).reshape(3, 4))
        Interval(estimate=1.0, low=0.71875, high=1.0)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}.")
    values = _checked_groups(groups)
    if not np.isfinite(values).all():
        return Interval(math.nan, math.nan, math.nan)
    pairs = _num_pairs(*values.shape)
    share = _ordered_pairs(values) / pairs
    margin = _critical_distance(values, (1 - confidence) / 2) / pairs
    return Interval(share, max(0.0, share - margin), min(1.0, share + margin))


def _num_pairs(levels: int, seeds: int) -> int:
    return levels * (levels - 1) // 2 * seeds**2


def _ordered_pairs(values: np.ndarray) -> float:
    """Jonckheere's J, by comparing every level with the next ones."""
    count = 0.0
    for level in range(len(values) - 1):
        here, later = values[level][:, None], values[level + 1 :].reshape(1, -1)
        count += (here < later).sum() + 0.5 * (here == later).sum()
    return float(count)


def _tail(values: np.ndarray, count: float) -> float:
    """Probability of at least so many ordered pairs if there is no trend."""
    if _is_exact(values):
        return float(_exact_tail(*values.shape)[math.ceil(count)])
    deviation = _deviation(values)
    if deviation == 0:
        return 1.0
    half = _num_pairs(*values.shape) / 2
    return float(special.ndtr(-(count - half) / deviation))


def _critical_distance(values: np.ndarray, tail: float) -> float:
    """Distance of J from its middle beyond which each tail has at most so much probability."""
    half = _num_pairs(*values.shape) / 2
    if _is_exact(values):
        critical = int(np.argmax(np.append(_exact_tail(*values.shape), 0.0) <= tail))
        return critical - 0.5 - half  # J is an integer, so nothing lies between
    deviation = _deviation(values)
    return half + 1 if deviation == 0 else float(-special.ndtri(tail) * deviation)


def _is_exact(values: np.ndarray) -> bool:
    return _num_pairs(*values.shape) <= 2000 and len(np.unique(values)) == values.size


@lru_cache
def _exact_tail(levels: int, seeds: int) -> np.ndarray:
    """P(J >= j) for j = 0, 1, ... without ties.

    J is a sum of independent Mann–Whitney counts, each level against all earlier ones, and the
    law of the count of m against n has the Gaussian binomial ∏ᵢ (1 - qⁿ⁺ⁱ)/(1 - qⁱ) as its
    generating function; the product telescopes to a multinomial. It is expanded in integers, so
    that the division is exact.
    """
    size = _num_pairs(levels, seeds) + 1
    law = [1] + [0] * (size - 1)
    for level in range(1, levels):
        for i in range(1, seeds + 1):
            for power in range(size - 1, level * seeds + i - 1, -1):  # times 1 - q^(ms + i)
                law[power] -= law[power - level * seeds - i]
            for power in range(i, size):  # over 1 - q^i
                law[power] += law[power - i]
    total = sum(law)
    return np.array([above / total for above in accumulate(reversed(law))])[::-1]


def _deviation(values: np.ndarray) -> float:
    """Standard deviation of J without a trend, given how the pooled values are tied."""
    levels, n = values.shape
    size = levels * n
    _, ties = np.unique(values, return_counts=True)
    in_pairs, in_triples = size * (size - 1), size * (size - 1) * (size - 2)
    variance = in_pairs * (2 * size + 5) - levels * n * (n - 1) * (2 * n + 5)
    variance = (variance - float(np.sum(ties * (ties - 1) * (2 * ties + 5)))) / 72
    triples = levels * n * (n - 1) * (n - 2) * float(np.sum(ties * (ties - 1) * (ties - 2)))
    variance += triples / (36 * max(1, in_triples))
    variance += levels * n * (n - 1) * float(np.sum(ties * (ties - 1))) / (8 * in_pairs)
    return math.sqrt(max(0.0, variance))


def _differences(first: Samples, second: Samples) -> np.ndarray:
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if one.shape != other.shape or one.ndim != 1 or len(one) == 0:
        raise ValueError(f"pairs need two equal axes, got shapes {one.shape} and {other.shape}.")
    return other - one


def _checked_groups(groups: Real[HostArray, "levels seeds"]) -> np.ndarray:
    values = np.asarray(groups, dtype=float)
    if values.ndim != 2 or values.shape[0] < 2 or values.shape[1] < 1:
        raise ValueError(
            f"groups must be (levels, seeds) with at least 2 levels, got {values.shape}."
        )
    return values
