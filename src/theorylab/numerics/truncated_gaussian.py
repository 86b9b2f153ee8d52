"""A Gaussian beyond a threshold: Mills' ratio, conditional moments, what exceeds it, maxima.

For z ~ N(0, 1), with density φ and tail Φᶜ, and Mills' ratio m(a) = Φᶜ(a)/φ(a),

    E[z | z ≥ a]   = 1/m                     E(z − a)₊  = φ (1 − a m)
    E[z² | z ≥ a]  = 1 + a/m                 E(z − a)₊² = φ ((1 + a²) m − a)
    Var[z | z ≥ a] = 1 + a/m − 1/m²
    2/(√(a² + 4) + a) ≤ m(a) ≤ 2/(√(a² + 2) + a),   a ≥ 0,

and the largest of n such numbers exceeds 2√log n with probability 1/n at most. A sum of n random
signs ξᵢaᵢ with |aᵢ| ≥ 1 lies in an open interval of length 2s with the probability of the s
middle outcomes of n coins at most (Erdős), which is about s√(2/(πn)).

Source: karp · lsa-pop · (B.1)–(B.6), Lemmas B.1, B.2; karp · lsa-cntk · Lemma B.10.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, Float

from theorylab.typing import Scalar

Numbers = Scalar | Float[Array, "..."]
_LOG_ROOT = 0.5 * math.log(2 * math.pi)


class ConditionalMoments(NamedTuple):
    """Moments of z given z ≥ a."""

    mean: Float[Array, "..."]
    square: Float[Array, "..."]
    variance: Float[Array, "..."]


class ExcessMoments(NamedTuple):
    """What exceeds the threshold: P[z ≥ a], E(z − a)₊ and E(z − a)₊²."""

    probability: Float[Array, "..."]
    mean: Float[Array, "..."]
    square: Float[Array, "..."]


def mills_ratio(threshold: Numbers) -> Float[Array, "..."]:
    """m(a) = Φᶜ(a)/φ(a).

    Example:
        >>> round(float(mills_ratio(0.0)), 5)
        1.25331
    """
    a = jnp.asarray(threshold, float)
    return jnp.exp(log_ndtr(-a) + a**2 / 2 + _LOG_ROOT)


def mills_bounds(threshold: Numbers) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """2/(√(a² + 4) + a) and 2/(√(a² + 2) + a), between which m(a) lies if a ≥ 0.

    Example:
        >>> [float(bound) for bound in mills_bounds(1.0)]
        [0.618..., 0.732...]
    """
    a = jnp.asarray(threshold, float)
    return 2 / (jnp.sqrt(a**2 + 4) + a), 2 / (jnp.sqrt(a**2 + 2) + a)


def conditional_moments(threshold: Numbers) -> ConditionalMoments:
    """Mean, mean square and variance of z given z ≥ a.

    Example:
        >>> round(float(conditional_moments(0.0).variance), 4)  # 1 − 2/π
        0.3634
    """
    a = jnp.asarray(threshold, float)
    mean = 1 / mills_ratio(a)
    return ConditionalMoments(mean=mean, square=1 + a * mean, variance=1 + a * mean - mean**2)


def excess_moments(threshold: Numbers) -> ExcessMoments:
    """P[z ≥ a], E(z − a)₊ and E(z − a)₊²: twice as much for what a soft threshold leaves.

    Example:
        >>> [round(float(moment), 4) for moment in excess_moments(0.0)]
        [0.5, 0.3989, 0.5]
    """
    a = jnp.asarray(threshold, float)
    ratio, density = mills_ratio(a), jnp.exp(-(a**2) / 2 - _LOG_ROOT)
    return ExcessMoments(
        probability=ndtr(-a),
        mean=density * (1 - a * ratio),
        square=density * ((1 + a**2) * ratio - a),
    )


def maximum_tail(num_terms: int, absolute: bool = False) -> float:
    """P[maxⱼ zⱼ ≥ 2√log n] of n independent zⱼ; of |zⱼ| if `absolute`. At most 1/n, or 2/n.

    Args:
        num_terms: n.
        absolute: Whether the largest absolute value is meant.

    Example:
        >>> maximum_tail(100) < 1 / 100
        True
    """
    if num_terms < 1:
        raise ValueError(f"num_terms must be at least 1, got {num_terms}.")
    tail = 0.5 * math.erfc(math.sqrt(2 * math.log(num_terms)))
    one = 2 * tail if absolute else tail
    return 1.0 if one == 1 else -math.expm1(num_terms * math.log1p(-one))


def small_ball_bound(num_terms: int, num_outcomes: int) -> float:
    """The most that Σ ξᵢaᵢ, |aᵢ| ≥ 1, can have of its probability in an open interval of length 2s.

    Args:
        num_terms: How many random signs, n.
        num_outcomes: s, at most n + 1.

    Example:
        >>> small_ball_bound(num_terms=4, num_outcomes=1)
        0.375
    """
    if not 1 <= num_outcomes <= num_terms + 1:
        raise ValueError(f"num_outcomes must be in [1, {num_terms + 1}], got {num_outcomes}.")
    if num_terms > 10**6:
        raise ValueError(f"num_terms must be at most 10⁶, got {num_terms}.")
    first = (num_terms + 1 - num_outcomes) // 2
    log_whole = math.lgamma(num_terms + 1) - num_terms * math.log(2)
    return sum(
        math.exp(log_whole - math.lgamma(j + 1) - math.lgamma(num_terms - j + 1))
        for j in range(first, first + num_outcomes)
    )
