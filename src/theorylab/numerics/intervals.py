"""Confidence intervals: between which numbers a mean, a median or a probability lies.

    Student         x̄ ± t s/√n                    the mean; exact for Gaussian samples
    Hall            the same for T + γT²/3 + …     the mean; corrected for the skewness γ
    bootstrap       quantiles of resampled θ̂       any statistic; percentile, or BCa (Efron 1987)
    sign            [x₍ₖ₎, x₍ₙ₊₁₋ₖ₎]               the median; at least the confidence for every law
    Clopper–Pearson quantiles of Beta laws         a probability; at least the confidence

Here x₍ᵢ₎ is the i-th smallest of n samples. All of this runs on the host. If a sample is not
finite, all numbers of the interval are NaN, and every comparison with them is false.
"""

import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import scipy  # whose statistics are loaded when they are used: they take half a second
from jaxtyping import Array, Real
from scipy import special

from theorylab.typing import RandomKey

HostArray = Array | np.ndarray  # measured numbers, where they are kept does not matter
Samples = Real[HostArray, " samples"]


class Interval(NamedTuple):
    """An estimate and the interval [low, high] that covers the truth with the asked confidence.

    Example:
        >>> interval = student(np.array([1.0, 1.1, 0.9, 1.0]))
        >>> interval.low < 1 < interval.high
        True
    """

    estimate: float
    low: float
    high: float


@np.errstate(over="ignore", invalid="ignore")
def student(samples: Samples, confidence: float = 0.95) -> Interval:
    """Bound the mean: x̄ ± t s/√n, with t the quantile of Student's law with n - 1 degrees.

    Example:
        >>> student(np.array([1.0, 2.0, 3.0]))
        Interval(estimate=2.0, low=-0.484..., high=4.484...)
    """
    values = _checked(samples, confidence)
    n = len(values)
    if not np.isfinite(values).all():
        return _UNKNOWN
    mean = float(values.mean())
    if n == 1:
        return Interval(mean, -math.inf, math.inf)
    t = special.stdtrit(n - 1, (1 + confidence) / 2)
    margin = float(t * values.std(ddof=1) / math.sqrt(n))
    return Interval(mean, mean - margin, mean + margin)


@np.errstate(over="ignore", invalid="ignore")
def hall(samples: Samples, confidence: float = 0.95) -> Interval:
    """Bound the mean of skewed samples (Hall 1992, Removal of skewness by transformation).

    With u = (x̄ - μ)/s and the sample skewness γ, the transformed

        √n (u + γu²/3 + γ²u³/27 + γ/6n)

    is closer to Student's law than √n u is; the interval holds the μ where it is at most t. Equal
    samples do not bound a mean, because a rare value may be missing: it is the whole line then.

    Example:
        >>> hall(np.array([0.0, 0.0, 0.0, 1.0]))
        Interval(estimate=0.25, low=-0.339..., high=3.451...)
    """
    values = _checked(samples, confidence)
    n = len(values)
    if not np.isfinite(values).all():
        return _UNKNOWN
    mean = float(values.mean())
    if np.ptp(values) == 0:
        return Interval(mean, -math.inf, math.inf)
    deviation = float(values.std(ddof=1))
    skewness = float((((values - mean) / deviation) ** 3).mean())
    t = float(special.stdtrit(n - 1, (1 + confidence) / 2))
    low, high = hall_ends(mean, deviation, skewness, t, n)
    return Interval(mean, float(low), float(high))


def hall_ends(
    mean: Any, deviation: Any, skewness: Any, quantile: float, num_samples: int, root: Any = np.cbrt
) -> tuple[Any, Any]:
    """The ends of Hall's interval from three moments; with `jnp.cbrt` it can be traced.

    The transformed is ±t where (1 + γu/3)³ = 1 + γv; the fraction below is its solution, also at
    γ = 0.

    Example:
        >>> low, high = hall_ends(1.0, 2.0, skewness=0.0, quantile=2.0, num_samples=16)
        >>> round(float(low), 6), round(float(high), 6)  # without skewness: mean ± t s/√n
        (0.0, 2.0)
    """
    ends = []
    for t in (quantile, -quantile):
        v = t / math.sqrt(num_samples) - skewness / (6 * num_samples)
        r = root(1 + skewness * v)
        ends.append(mean - deviation * 3 * v / (1 + r + r**2))
    return ends[0], ends[1]


@np.errstate(over="ignore")
def sign_interval(samples: Samples, confidence: float = 0.95) -> Interval:
    """Bound the median by two order statistics, whatever the law of the samples.

    [x₍ₖ₎, x₍ₙ₊₁₋ₖ₎] misses the median with probability at most 2 P(Binomial(n, ½) < k); k is the
    largest for which this is at most 1 - confidence. With too few samples (n < 6 at 95 %) there is
    none, and the interval is the whole line.

    Example:
        >>> sign_interval(np.arange(10.0))
        Interval(estimate=4.5, low=1.0, high=8.0)
    """
    values = np.sort(_checked(samples, confidence))
    if not np.isfinite(values).all():
        return _UNKNOWN
    k = sign_rank(len(values), confidence)
    median = float(np.median(values))
    if k == 0:
        return Interval(median, -math.inf, math.inf)
    return Interval(median, float(values[k - 1]), float(values[-k]))


@lru_cache
def sign_rank(num_samples: int, confidence: float = 0.95) -> int:
    """Largest k with 2 P(Binomial(n, ½) < k) <= 1 - confidence; 0 if there is none.

    Example:
        >>> sign_rank(5), sign_rank(6), sign_rank(10)
        (0, 1, 2)
    """
    ranks = np.arange(1, num_samples // 2 + 1)
    missed = 2 * scipy.stats.binom.cdf(ranks - 1, num_samples, 0.5)
    return int(np.count_nonzero(missed <= 1 - confidence))


@lru_cache
def sign_coverage(num_samples: int, confidence: float = 0.95) -> float:
    """Coverage that `sign_interval` attains, at least the confidence if it is bounded.

    Example:
        >>> sign_coverage(6)
        0.96875
    """
    rank = sign_rank(num_samples, confidence)
    return float(1 - 2 * scipy.stats.binom.cdf(rank - 1, num_samples, 0.5))


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Bound a probability after so many successes in independent trials; exact at every count.

    The ends solve P(Binomial(n, low) >= s) = α/2 and P(Binomial(n, high) <= s) = α/2.

    Example:
        >>> clopper_pearson(0, 10)
        Interval(estimate=0.0, low=0.0, high=0.308...)
    """
    _check_confidence(confidence)
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(
            f"successes must be between 0 and trials >= 1, got {successes} of {trials}."
        )
    s, n, tail = successes, trials, (1 - confidence) / 2
    low = 0.0 if s == 0 else float(special.betaincinv(s, n - s + 1, tail))
    high = 1.0 if s == n else float(special.betaincinv(s + 1, n - s, 1 - tail))
    return Interval(s / n, low, high)


def bootstrap_percentile(
    samples: Samples,
    statistic: Callable[..., Any],
    key: RandomKey,
    confidence: float = 0.95,
    num_resamples: int = 9999,
) -> Interval:
    """Bound a statistic by the quantiles of its values on resampled samples.

    Args:
        samples: Independent measurements.
        statistic: What is bounded, such as `np.mean`; fast if it takes `axis`.
        key: The randomness of the resampling.
        confidence: The coverage asked for.
        num_resamples: How many times the samples are drawn again.

    Example:
        >>> interval = bootstrap_percentile(np.arange(20.0), np.mean, jax.random.key(0))
        >>> interval.estimate, bool(6 < interval.low < 8), bool(11 < interval.high < 13)
        (9.5, True, True)
    """
    return _bootstrap(samples, statistic, key, confidence, num_resamples, "percentile")


def bootstrap_bca(
    samples: Samples,
    statistic: Callable[..., Any],
    key: RandomKey,
    confidence: float = 0.95,
    num_resamples: int = 9999,
) -> Interval:
    """Bound a statistic by bootstrap quantiles corrected for bias and skewness (Efron's BCa).

    The arguments are those of `bootstrap_percentile`. Where the correction is not defined, because
    leaving one sample out changes nothing, the ends are NaN.

    Example:
        >>> interval = bootstrap_bca(np.arange(20.0), np.median, jax.random.key(0))
        >>> bool(interval.low < 9.5 < interval.high)
        True
    """
    return _bootstrap(samples, statistic, key, confidence, num_resamples, "BCa")


_UNKNOWN = Interval(math.nan, math.nan, math.nan)


def _bootstrap(
    samples: Samples,
    statistic: Callable[..., Any],
    key: RandomKey,
    confidence: float,
    num_resamples: int,
    method: Literal["percentile", "BCa"],
) -> Interval:
    values = _checked(samples, confidence)
    if len(values) < 2:
        raise ValueError(f"a bootstrap needs at least 2 samples, got {len(values)}.")
    if not np.isfinite(values).all():
        return _UNKNOWN
    estimate = float(statistic(values))
    if np.ptp(values) == 0:
        return Interval(estimate, estimate, estimate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.DegenerateDataWarning)
        low, high = scipy.stats.bootstrap(
            (values,),
            statistic,
            n_resamples=num_resamples,
            confidence_level=confidence,
            method=method,
            rng=generator(key),
        ).confidence_interval
    return Interval(estimate, float(low), float(high))


def generator(key: RandomKey) -> np.random.Generator:
    """Turn a JAX key into a generator for numpy and scipy: same key, same numbers.

    Example:
        >>> key = jax.random.key(0)
        >>> bool(generator(key).random() == generator(key).random())
        True
    """
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def _checked(samples: Samples, confidence: float) -> np.ndarray:
    _check_confidence(confidence)
    values = np.asarray(samples, dtype=float)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"samples must be one axis of at least 1 number, got {values.shape}.")
    return values


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}.")
