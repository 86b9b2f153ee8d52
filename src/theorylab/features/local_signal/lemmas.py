"""What the proof that one filter learns says at every step, as numbers that can be checked.

With s = ‖w‖σ the size of the noise that the threshold sees and α = |b|/s for b ≤ 0, one noise patch
leaves S₁ = φ_b(Z), of which

    P[S₁ ≠ 0] = 2Φᶜ(α),    E|S₁| = 2s E(z − α)₊,    Var S₁ = 2s² E(z − α)₊².

The lemmas have constants that the source does not name, so each is a ratio that must stay away from
0, or from infinity, while the error is at least 0.01:

    B.5   α ≤ 2√log k;  conversely the error is at most 2k e^{−α²/2}, if the signal passes: c > |b|
    B.6   k Var S₁/(c + b)² ≥ β
    B.7   c ≤ C, from a loss of at most 1: that is at least E(−f)₊ = c E(−f₁)₊, f₁ at c = 1. Without
          an error of at least 0.01, on which B.6 rests, E(−f₁)₊ can be as small as one likes
    B.8   P[|S| < c + b + 10] ≥ 4/5
    B.9   P[S₁ ≠ 0] ≥ C₅ k^{−3/4},   E|S₁| ≥ C₁ √(Var S₁/k^{3/4})
    3.1   ∂L/∂c ≤ −A while |c| ≤ H/log⁴k       3.2   0 ≤ ∂L/∂v = O(v log³k)
    3.3   ∂L/∂b ≥ C from c ≥ C₂/log⁴k on, while the error is at least 0.01 (a condition that the
          statement lacks, and its proof uses)

The noise pulls c back by at most k |c| (σ² + (3/2)σ²α/m(α)) P[Z ≥ |b|], with Mills' ratio m.

The proof's schedule: T₁ steps until c = 2C₂/log⁴k, at a rate of ηA, then T₂ until the bias, which
had risen by η_b C₂/(η log⁴k) at most, is at −4C₃ log^{3/2}k/√k, at a rate of η_b C:

    T₁ = (2C₂/log⁴k + δ)/(ηA),      T₂ = (4C₃ log^{3/2}k/√k + η_b C₂/(η log⁴k))/(η_b C).

B.5 in the other direction ends the proof: b falls until α > 2√log k, and then the error is small.
But a threshold of 2s√log k is below the signal only if 2 log^{3/2}k < √k, that is from k ≈ 1600 on.

Source: karp · lsa-pop · 3.4, B.1, Lemmas 3.1–3.3, B.5–B.9; karp · lsa-thm31 · B.1.3.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import optimize

from theorylab.data.patches import PatchLaw
from theorylab.numerics import conditional_moments, excess_moments
from theorylab.typing import Scalar

from .accuracy import error_rate, lower_tail, mean_shortfall
from .network import FilterRates
from .projected import FilterState


class Kept(NamedTuple):
    """What a threshold leaves of one noise patch."""

    probability: Float[Array, "..."]  # P[S₁ ≠ 0]
    absolute: Float[Array, "..."]  # E|S₁|
    variance: Float[Array, "..."]  # Var S₁


class ScheduleConstants(NamedTuple):
    """What the source leaves open in the schedule of its proof."""

    growth: float  # A, the least −∂L/∂c in the first phase
    fall: float  # C, the least ∂L/∂b in the second
    reached: float  # C₂, with c = 2C₂/log⁴k between the two
    length: float  # C₃, half of the largest ‖w‖


def relative_threshold(state: FilterState, law: PatchLaw) -> Float[Array, "..."]:
    """α = |b|/s, 0 while b > 0.

    Example:
        >>> law = PatchLaw(num_patches=9, dimension=4, noise=0.5)
        >>> state = FilterState(jnp.array(1.0), jnp.array(0.0), jnp.array(-0.5))
        >>> float(relative_threshold(state, law))
        1.0
    """
    return jnp.maximum(-state.bias, 0.0) / (jnp.hypot(state.signal, state.rest) * law.noise)


def largest_threshold(num_patches: int) -> float:
    """2√log k, beyond which α does not come while the error is at least 0.01 (B.5).

    Example:
        >>> round(largest_threshold(num_patches=1000), 3)
        5.257
    """
    if num_patches < 2:
        raise ValueError(f"num_patches must be at least 2, got {num_patches}.")
    return 2 * math.sqrt(math.log(num_patches))


def union_bound(threshold: Scalar | Float[Array, "..."], num_patches: int) -> Float[Array, "..."]:
    """2k e^{−α²/2}, at least the probability that any noise passes.

    Example:
        >>> round(float(union_bound(3.0, num_patches=10)), 4)
        0.2222
    """
    return 2 * num_patches * jnp.exp(-(jnp.asarray(threshold, float) ** 2) / 2)


def first_sound_size() -> float:
    """The k from which on 2 log^{3/2}k < √k, so that a threshold of 2√log k spares the signal.

    Example:
        >>> 1600 < first_sound_size() < 1650
        True
    """
    low, high = math.log(100.0), math.log(10000.0)  # log k; 2x^{3/2} − e^{x/2} changes sign once
    for _ in range(60):
        middle = (low + high) / 2
        if 2 * middle**1.5 > math.exp(middle / 2):
            low = middle
        else:
            high = middle
    return math.exp(high)


def kept_noise(state: FilterState, law: PatchLaw) -> Kept:
    """P[S₁ ≠ 0], E|S₁| and Var S₁, for b ≤ 0; NaN for b > 0, where they are others.

    Example:
        >>> law = PatchLaw(num_patches=9, dimension=4, noise=0.5)
        >>> linear = FilterState(jnp.array(1.0), jnp.array(0.0), jnp.array(0.0))
        >>> kept = kept_noise(linear, law)
        >>> round(float(kept.probability), 4), round(float(kept.variance), 4)
        (1.0, 0.25)
    """
    scale = jnp.hypot(state.signal, state.rest) * law.noise
    excess = excess_moments(relative_threshold(state, law))
    kept = Kept(2 * excess.probability, 2 * scale * excess.mean, 2 * scale**2 * excess.square)
    return Kept(*(jnp.where(state.bias > 0, jnp.nan, part) for part in kept))


def variance_ratio(state: FilterState, law: PatchLaw) -> Float[Array, "..."]:
    """The ratio k Var S₁/(c + b)², at least some β (B.6).

    Example:
        >>> law = PatchLaw(num_patches=8, dimension=4, noise=0.5)
        >>> linear = FilterState(jnp.array(1.0), jnp.array(0.0), jnp.array(0.0))
        >>> round(float(variance_ratio(linear, law)), 4)
        2.0
    """
    signal = state.signal + state.bias
    return law.num_patches * kept_noise(state, law).variance / signal**2


def probability_ratio(state: FilterState, law: PatchLaw) -> Float[Array, "..."]:
    """P[S₁ ≠ 0] k^{3/4}, at least some C₅ (B.9).

    Example:
        >>> law = PatchLaw(num_patches=16, dimension=4, noise=0.5)
        >>> linear = FilterState(jnp.array(1.0), jnp.array(0.0), jnp.array(0.0))
        >>> round(float(probability_ratio(linear, law)), 4)
        8.0
    """
    return kept_noise(state, law).probability * law.num_patches**0.75


def absolute_ratio(state: FilterState, law: PatchLaw) -> Float[Array, "..."]:
    """E|S₁|/√(Var S₁/k^{3/4}), at least some C₁ (B.9).

    Example:
        >>> law = PatchLaw(num_patches=16, dimension=4, noise=0.5)
        >>> linear = FilterState(jnp.array(1.0), jnp.array(0.0), jnp.array(0.0))
        >>> round(float(absolute_ratio(linear, law)), 4)  # √(2/π) k^⅜
        2.2568
    """
    kept = kept_noise(state, law)
    return kept.absolute / jnp.sqrt(kept.variance / law.num_patches**0.75)


def noise_bound(state: FilterState, law: PatchLaw) -> Float[Array, "..."]:
    """The bound k |c| (σ² + (3/2)σ²α/m(α)) P[Z ≥ |b|] on the noise's part of ∂L/∂c.

    Example:
        >>> law = PatchLaw(num_patches=8, dimension=4, noise=0.5)
        >>> linear = FilterState(jnp.array(1.0), jnp.array(0.0), jnp.array(0.0))
        >>> round(float(noise_bound(linear, law)), 4)
        1.0
    """
    alpha = relative_threshold(state, law)
    factor = 1 + 1.5 * alpha * conditional_moments(alpha).mean
    passing = kept_noise(state, law).probability / 2
    return law.num_patches * jnp.abs(state.signal) * law.noise**2 * factor * passing


def largest_signal(ratio: float, law: PatchLaw) -> float:
    """The c beyond which the loss is above 1, at most: 1/E(−f₁)₊ with b = −r c, w along w* (B.7).

    Args:
        ratio: r = |b|/c, in [0, 1).
        law: k and σ.

    Example:
        >>> from theorylab.data import patch_law
        >>> round(largest_signal(0.0, patch_law(1000, 2)), 2)
        0.44
    """
    if not 0 <= ratio < 1:
        raise ValueError(f"ratio must be in [0, 1), got {ratio}.")
    shortfall = mean_shortfall(1 - ratio, law.noise, -ratio, law.num_patches)
    return 1 / shortfall if shortfall > 0 else math.inf


def ratio_with_error(error: float, law: PatchLaw) -> float:
    """The least r = |b|/c at which a filter along w* has that error; NaN if none up to 0.99 has.

    Args:
        error: Such as 0.01.
        law: k and σ.

    Example:
        >>> from theorylab.data import patch_law
        >>> bool(0 < ratio_with_error(0.01, patch_law(1000, 10)) < 1)
        True
    """

    def excess(ratio: float) -> float:
        state = FilterState(jnp.array(1.0), jnp.array(0.0), jnp.array(-ratio))
        return error_rate(state, law, 2**13) - error

    tried = np.linspace(0.0, 0.99, 34)
    low = next((i for i, r in enumerate(tried[1:]) if excess(r) <= 0), None)
    if low is None:
        return math.nan
    return float(optimize.root_scalar(excess, bracket=tried[low : low + 2].tolist()).root)


def schedule(
    law: PatchLaw, rates: FilterRates, known: ScheduleConstants, start: float
) -> tuple[float, float]:
    """T₁ and T₂: after so many steps the proof has an error of at most 2/k.

    Args:
        law: k.
        rates: η and η_b.
        known: A, C, C₂ and C₃.
        start: δ, c at the start.

    Example:
        >>> law, rates = PatchLaw(num_patches=1000, dimension=10, noise=0.1), FilterRates(0.1, 0.01)
        >>> first, second = schedule(law, rates, ScheduleConstants(1.0, 1.0, 1.0, 1.0), start=1e-6)
        >>> first > 0, second > 0
        (True, True)
    """
    k, (eta, eta_bias) = law.num_patches, map(float, rates)
    reached = known.reached / math.log(k) ** 4
    fallen = 4 * known.length * math.log(k) ** 1.5 / math.sqrt(k)
    first = (2 * reached + start) / (eta * known.growth)
    return first, (fallen + eta_bias / eta * reached) / (eta_bias * known.fall)


def within(states: FilterState, law: PatchLaw, slack: float = 10.0) -> Float[np.ndarray, "..."]:
    """P[|S| < c + b + 10], at least 4/5 (B.8), for every filter.

    Example:
        >>> from theorylab.data import patch_law
        >>> filters = FilterState(jnp.ones(1), jnp.zeros(1), jnp.zeros(1))
        >>> bool(within(filters, patch_law(100, 10))[0] > 0.8)
        True
    """
    signal, rest, bias = (np.asarray(part, dtype=float) for part in states)
    scales = np.hypot(signal, rest) * law.noise
    each = zip(np.ravel(signal + bias + slack), np.ravel(scales), np.ravel(bias), strict=True)
    tails = [lower_tail(level, scale, b, law.num_patches) for level, scale, b in each]
    return 1 - 2 * np.reshape(tails, signal.shape)
