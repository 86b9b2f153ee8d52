"""Flatness: how much Gaussian noise the weights take before the loss rises.

    r(σ) = E L(w + σ s ∘ ε) − L(w)     ε ~ N(0, I),  s = ‖Wₗ‖_F/√pₗ in the array l of pₗ weights
    σ*   = the noise with r(σ*) = rise

The noise in an array is a share σ of its norm, ‖noise‖_F ≈ σ‖Wₗ‖_F, so σ* does not depend on how
the layers of a homogeneous network are scaled against each other; an array of zeros gets no noise.
For small σ, r = ½ σ² Σᵢ sᵢ² Hᵢᵢ with the Hessian H. Noise comes in pairs ±ε, without the term of
the gradient, and the same ε serve all σ, so that r is smooth; its interval is one for the mean over
pairs (wide, because r is skewed), carried over to σ by the slope of log r. This is what PAC-Bayes
bounds call a flat minimum.

Source: arora · pac-bayes · §5.6; the measure: Neyshabur et al. (2017), arXiv:1706.08947.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from scipy import special

from theorylab.answers import Answer
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.numerics import Interval, hall
from theorylab.training import Loss, zero_one
from theorylab.typing import Apply, Inputs, Params, RandomKey

SMALLEST, LARGEST = 2.0**-12, 2.0**3  # noise between which the threshold is looked for
START, MOST = 0.1, 10  # the first noise, and how many are tried at most
NEAR = 0.2  # of log r to that of the rise: from there a power law takes it
PROBES = 12  # pairs ±ε


class Flatness(Answer, labels={"rises": "rise of the loss"}, axes=("noise",)):
    """How much noise the weights take.

    Args:
        rises: r at the noise that was tried, ascending.
        noises: σ that was tried.
        noise: σ*; NaN if the loss rises at the least σ that is tried, infinite if at none.
        low: Where the interval of σ* for the random ε begins.
        high: Where it ends.
        errors: The share of inputs misclassified, at the noise that was tried.

    Example:
        >>> numbers = map(jnp.array, (0.2, 0.1, 0.3))
        >>> Flatness(jnp.ones(2), jnp.ones(2), *numbers, jnp.zeros(2)).noise.item()
        0.2
    """

    rises: Float[Array, " tried"]
    noises: Float[Array, " tried"]
    noise: Float[Array, ""]
    low: Float[Array, ""]
    high: Float[Array, ""]
    errors: Float[Array, " tried"]


class _Tried(NamedTuple):
    noise: float
    rises: np.ndarray  # of all pairs
    error: float

    @property
    def mean(self) -> float:
        """r, infinite where a loss is not a number."""
        mean = float(np.mean(self.rises))
        return mean if math.isfinite(mean) else math.inf


def flatness(
    apply: Apply,
    loss: Loss,
    params: Params,
    x: Inputs,
    y: Float[Array, "n k"],
    key: RandomKey,
    rise: float = 0.1,
    num_probes: int = PROBES,
) -> Flatness:
    """The largest relative noise σ* in the weights for which the mean loss rises by `rise`.

    One compiled program serves all σ, and other parameters of the same network.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        loss: The loss.
        params: Its parameters.
        x: Inputs.
        y: Targets.
        key: Draws the noise.
        rise: By how much the loss may rise.
        num_probes: How many pairs ±ε.

    Example: L = w² at w = 2 rises by σ²w² on average: 0.1 at σ = 0.158.
        >>> from theorylab.training import squared
        >>> x, y = jnp.ones((1, 1)), jnp.zeros((1, 1))
        >>> line = lambda w, x: w * x
        >>> found = flatness(line, squared("mean"), jnp.array(2.0), x, y, jax.random.key(0), 0.1)
        >>> bool(found.low < 0.158 < found.high)
        True
    """
    if num_probes < 2 or not rise > 0:
        raise ValueError(
            f"rise must be positive and num_probes at least 2, got {rise} and {num_probes}."
        )
    keys, sizes = jax.random.split(key, num_probes), relative_deviations(params)

    def tried(noise: float) -> _Tried:
        deviations = jax.tree.map(lambda size: noise * size, sizes)
        start, losses, errors = _around(apply, loss, params, deviations, keys, x, y)
        rises = np.asarray(losses, float).mean(axis=1) - float(start)
        return _Tried(noise, rises, float(np.mean(errors)))

    return _found(tried, rise)


def relative_deviations(params: Params) -> Params:
    """S = ‖Wₗ‖_F/√pₗ for every array: the deviation of noise as large as the weights.

    Args:
        params: Arrays W.

    Example:
        >>> float(relative_deviations(jnp.array([3.0, 4.0, 0.0, 0.0])))
        2.5
    """
    return jax.tree.map(lambda leaf: jnp.sqrt(jnp.mean(jnp.asarray(leaf) ** 2)), params)


def noisy_losses(
    apply: Apply,
    loss: Loss,
    params: Params,
    deviations: Params,
    keys: Array,
    x: Inputs,
    y: Float[Array, "n k"],
) -> tuple[Float[Array, "probes 2"], Float[Array, "probes 2"]]:
    """Losses, and shares of inputs misclassified, of pairs of networks with noise ±ε in them.

    Args:
        apply: The network.
        loss: The loss.
        params: Its parameters.
        deviations: Standard deviation of the noise in every array, a tree of numbers.
        keys: Random keys, one a pair.
        x: Inputs.
        y: Targets.

    Example: without noise all are the same.
        >>> from theorylab.training import squared
        >>> x, y, keys = jnp.ones((1, 1)), jnp.zeros((1, 1)), jax.random.split(jax.random.key(0), 2)
        >>> line = lambda w, x: w * x
        >>> noisy_losses(line, squared("mean"), jnp.array(2.0), 0.0, keys, x, y)[0].tolist()
        [[4.0, 4.0], [4.0, 4.0]]
    """
    return _around(apply, loss, params, deviations, keys, x, y)[1:]


@partial(jax.jit, static_argnums=(0, 1))
def _around(
    apply: Apply, loss: Loss, params: Params, deviations: Params, keys: Array, x: Inputs, y: Array
) -> tuple[Float[Array, ""], Float[Array, "probes 2"], Float[Array, "probes 2"]]:
    """The loss without noise; losses and errors with it."""
    flat, unravel = ravel_pytree(params)  # one draw for all arrays: a program for each takes long

    def at(given: tuple[Array, Array]) -> tuple[Array, Array]:
        key, sign = given
        noise = unravel(jax.random.normal(key, flat.shape, flat.dtype))
        noisy = jax.tree.map(
            lambda w, size, e: w + jnp.asarray(sign * size, e.dtype) * e, params, deviations, noise
        )
        outputs = apply(noisy, x)
        return loss(outputs, y), zero_one("mean")(outputs, y)

    signs = jnp.concatenate([jnp.zeros(1), jnp.tile(jnp.array([1.0, -1.0]), len(keys))])
    pairs = (jnp.concatenate([keys[:1], jnp.repeat(keys, 2)]), signs)
    losses, errors = jax.lax.map(lambda each: fast_convolutions(at)(each), pairs)
    return losses[0], losses[1:].reshape(-1, 2), errors[1:].reshape(-1, 2)


def _found(tried: Callable[[float], _Tried], rise: float) -> Flatness:
    """Follow the power law r ~ σ^p from one σ to the next, between bounds that close in."""
    below, above = SMALLEST / 2, 2 * LARGEST
    seen, power = [tried(START)], 2.0
    while abs(math.log(max(seen[-1].mean, 1e-9 * rise) / rise)) > NEAR and len(seen) < MOST:
        last = seen[-1]
        below, above = (below, last.noise) if last.mean > rise else (last.noise, above)
        if above <= SMALLEST or below >= LARGEST:
            value = math.nan if above <= SMALLEST else math.inf
            return _flatness(seen, value, value, value)
        power = _power(seen, power)
        noise = last.noise * math.exp(_log_step(last.mean, rise, power))
        noise = min(max(noise, SMALLEST), LARGEST)
        seen.append(tried(noise if below < noise < above else math.sqrt(below * above)))
    last, power = seen[-1], _power(seen, power)
    mean = _mean(last.rises)
    value, low, high = (
        last.noise * math.exp(_log_step(r, rise, power))
        for r in (mean.estimate, mean.high, mean.low)
    )
    return _flatness(seen, value, low, high)


def _mean(rises: np.ndarray) -> Interval:
    """The mean with the wider of Hall's interval and one for its logarithm.

    Rises are quadratic forms, so skewed and positive; with few pairs each falls short of 95 %.
    """
    mean, n = hall(rises), len(rises)
    if not mean.estimate > 0:
        return mean
    spread = float(rises.std(ddof=1)) / mean.estimate / math.sqrt(n)
    factor = math.exp(float(special.stdtrit(n - 1, 0.975)) * math.sqrt(math.log1p(spread**2)))
    low, high = mean.estimate / factor, mean.estimate * factor
    return Interval(mean.estimate, min(mean.low, low), max(mean.high, high))


def _log_step(mean: float, rise: float, power: float) -> float:
    """The logarithm of the factor for σ that takes r from its mean to the rise, at most 8."""
    step = math.log(rise / max(mean, 1e-12 * rise)) / power
    return min(max(step, -math.log(8.0)), math.log(8.0))


def _power(seen: list[_Tried], power: float) -> float:
    """The slope of log r in log σ between the last two σ, if it is a sensible one."""
    one, two = (seen[-2], seen[-1]) if len(seen) > 1 else (seen[-1], seen[-1])
    if (
        one.noise == two.noise
        or min(one.mean, two.mean) <= 0
        or not math.isfinite(one.mean + two.mean)
    ):
        return power
    slope = math.log(two.mean / one.mean) / math.log(two.noise / one.noise)
    return min(max(slope, 0.5), 8.0)


def _flatness(seen: list[_Tried], value: float, low: float, high: float) -> Flatness:
    seen = sorted(seen, key=lambda each: each.noise)
    return Flatness(
        rises=jnp.array([each.mean for each in seen]),
        noises=jnp.array([each.noise for each in seen]),
        noise=jnp.array(value),
        low=jnp.array(low),
        high=jnp.array(high),
        errors=jnp.array([each.error for each in seen]),
    )
