"""A number, or an array of numbers, that was estimated from random draws: with its error.

    mean    x̄ = (1/M) Σ xᵢ
    error   √(Σ (xᵢ − x̄)² / (M (M − 1))), the standard error of the mean

Draws can be added one after the other (Welford): memory does not grow with their number.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.typing import Scalar


class Estimate(Answer, errors={"mean": "error"}):
    """A mean over random draws and its standard error; infinite if there was one draw only.

    Example:
        >>> found = Estimate(mean=jnp.asarray(3.0), error=jnp.asarray(0.5))
        >>> [float(end) for end in found.interval(factor=2.0)]
        [2.0, 4.0]
    """

    mean: Float[Array, "..."]
    error: Float[Array, "..."]

    def interval(self, factor: float = 2.0) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Give mean ± factor · error; two errors cover about 95 % of normal estimates.

        Example:
            >>> low, high = Estimate(jnp.asarray(3.0), jnp.asarray(0.5)).interval()
            >>> float(low), float(high)
            (2.0, 4.0)
        """
        return self.mean - factor * self.error, self.mean + factor * self.error


class RunningMean(NamedTuple):
    """What is kept of draws: how many, their mean, and the sum of squared deviations from it.

    Example:
        >>> draws = with_draw(no_draws(jnp.zeros(())), jnp.asarray(3.0))
        >>> float(draws.count), float(draws.mean), float(draws.deviations)
        (1.0, 3.0, 0.0)
    """

    count: Float[Array, ""]
    mean: Float[Array, "..."]
    deviations: Float[Array, "..."]


def no_draws(like: Float[Array, "..."]) -> RunningMean:
    """Begin.

    Example:
        >>> draws = no_draws(jnp.zeros(3))
        >>> float(draws.count), draws.mean.tolist()
        (0.0, [0.0, 0.0, 0.0])
    """
    return RunningMean(jnp.zeros((), like.dtype), jnp.zeros_like(like), jnp.zeros_like(like))


def with_draw(draws: RunningMean, new: Float[Array, "..."]) -> RunningMean:
    """Add a draw: x̄ ← x̄ + (x − x̄)/M, and the squared deviations by (x − x̄)(x − x̄′).

    Example:
        >>> one, three = jnp.asarray(1.0), jnp.asarray(3.0)
        >>> draws = with_draw(with_draw(no_draws(one), one), three)
        >>> float(draws.count), float(draws.mean), float(draws.deviations)
        (2.0, 2.0, 2.0)
    """
    count = draws.count + 1
    difference = new - draws.mean
    mean = draws.mean + difference / count
    return RunningMean(count, mean, draws.deviations + difference * (new - mean))


def estimate(draws: RunningMean) -> Estimate:
    """The mean and its standard error.

    Example:
        >>> one, three = jnp.asarray(1.0), jnp.asarray(3.0)
        >>> draws = with_draw(with_draw(no_draws(one), one), three)
        >>> float(estimate(draws).mean), round(float(estimate(draws).error), 5)
        (2.0, 1.0)
    """
    return Estimate(draws.mean, _standard_error(draws.count, draws.deviations))


def mean_of(samples: Float[Array, "m ..."]) -> Estimate:
    """The mean over the first axis and its standard error.

    Example:
        >>> found = mean_of(jnp.array([1.0, 2.0, 3.0]))
        >>> float(found.mean), round(float(found.error), 6)
        (2.0, 0.57735)
    """
    mean = jnp.mean(samples, axis=0)
    deviations = jnp.sum((samples - mean[None]) ** 2, axis=0)
    return Estimate(mean, _standard_error(len(samples), deviations))


def _standard_error(count: Scalar, deviations: Float[Array, "..."]) -> Float[Array, "..."]:
    several = jnp.asarray(count) > 1
    freedom = jnp.where(several, jnp.asarray(count, deviations.dtype) - 1, 1)
    error = jnp.sqrt(deviations / (jnp.asarray(count, deviations.dtype) * freedom))
    return jnp.where(several, error, jnp.inf)
