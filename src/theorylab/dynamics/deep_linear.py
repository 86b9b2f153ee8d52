"""Deep linear networks from a small start: one mode grows, at a time that is known beforehand.

On whitened data (X̃X̃ᵀ = mI) the loss ‖Y − W_L⋯W₁X̃‖²/2m is ½‖A − W_L⋯W₁‖² and a constant, with
A = YX̃ᵀ/m. If all layers are aligned with its top mode, of size s, they have the same norm u:

    du/dt = u^(L−1) (s − u^L),  u(0) = β
    L = 2:  u²(t) = s / (1 + (s/β² − 1) e^(−2st))

u^L reaches αs at the time

    L = 2:  t = ln[α(s − β²) / ((1 − α)β²)] / 2s
    L ≥ 3:  t = [β^(2−L) F(β^L/s) − (αs)^(2/L−1) F(α)] / s(L − 2)

with F(z) = ₂F₁(1, 2/L − 1; 2/L; z). It grows like β^(2−L), so weights are integrated in units of
β and time in units of β^(2−L).

Source: golikov · deep-linear-modes · 6.5.3, D.4.2, Eqs 6.12–6.15, D.55–D.57 (6.14 prints u for u²).
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma
from jaxtyping import Array, Float

from theorylab.typing import RandomKey, Scalar

LayerWeights = list[Float[Array, "_ _"]]  # from the first layer to the last
_State = tuple[LayerWeights, Float[Array, ""]]  # Ŵ and t̂
_STEP = 0.05  # of the clock: the fastest rate on it is about L, so one step errs by some 1e-8
_NUM_TERMS = 60  # of series in z ≤ ½: 2⁻⁶⁰ is below rounding


class Growth(NamedTuple):
    """A network on its way, at the readings of a clock that runs with its growth."""

    times: Float[Array, "*t"]  # in units of β^(2−L)
    overlaps: Float[Array, "*t"]  # pᵀW_L⋯W₁q, with the top mode pqᵀ
    norms: Float[Array, "*t depth"]  # Frobenius norms of the layers


def mode_speed(size: Scalar, strength: Scalar, depth: int) -> Scalar:
    """Give du/dt = u^(L−1) (s − u^L).

    Args:
        size: The norm u of every layer.
        strength: The size s of the mode in the data.
        depth: The number of layers L.

    Example:
        >>> mode_speed(0.5, strength=1.0, depth=2)  # ½ (1 − ¼)
        0.375
        >>> mode_speed(1.0, strength=1.0, depth=2)  # at rest, where u² = s
        0.0
    """
    return size ** (depth - 1) * (strength - size**depth)


def squared_mode(times: Float[Array, " t"], strength: Scalar, scale: Scalar) -> Float[Array, " t"]:
    """Give u²(t) = s / (1 + (s/β² − 1) e^(−2st)), the mode of a network of two layers.

    Args:
        times: The times t.
        strength: The size s of the mode in the data.
        scale: The initial norm β of both layers.

    Example:
        >>> [round(float(u), 3) for u in squared_mode(jnp.array([0.0, 10.0]), 1.0, 0.1)]
        [0.01, 1.0]
    """
    s, beta = strength, scale
    return s / (1 + (s / beta**2 - 1) * jnp.exp(-2 * s * times))


def learning_time(share: Scalar, strength: Scalar, scale: Scalar, depth: int) -> Scalar:
    """Give the time at which the mode of an aligned network has grown to u^L = αs.

    Args:
        share: α, in (0, 1).
        strength: The size s of the mode in the data.
        scale: The initial norm β of all layers, with β^L < s.
        depth: The number of layers L, at least 2.

    Example:
        >>> round(float(learning_time(0.5, 1.0, 0.1, depth=2)), 4)
        2.2976
    """
    _check_depth(depth)
    a, s, beta, n = share, strength, scale, depth
    if n == 2:
        return jnp.log(a * (s - beta**2) / ((1 - a) * beta**2)) / (2 * s)
    start = beta ** (2 - n) * hypergeometric(2 / n - 1, jnp.asarray(beta**n / s))
    end = (a * s) ** (2 / n - 1) * hypergeometric(2 / n - 1, jnp.asarray(a))
    return (start - end) / (s * (n - 2))


def early_time(growth: Scalar, strength: Scalar, scale: Scalar, depth: int) -> Scalar:
    """Give β^(2−L) (1 − r^(2/L−1)) / s(L − 2), when u^L has grown r-fold and is still small; L ≥ 3.

    Args:
        growth: The factor r.
        strength: The size s of the mode in the data.
        scale: The initial norm β of all layers.
        depth: The number of layers L, at least 3.

    Example:
        >>> early_time(8.0, strength=1.0, scale=0.1, depth=3)  # 10 (1 − 8^(−1/3))
        5.0
    """
    if depth < 3:
        raise ValueError(f"depth must be at least 3, got {depth}.")
    n = depth
    return scale ** (2 - n) * (1 - growth ** (2 / n - 1)) / (strength * (n - 2))


def hypergeometric(b: float, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Compute ₂F₁(1, b; b + 1; z) = b Σₖ zᵏ/(b + k), for 0 ≤ z < 1 and any b but 0, −1, −2, ….

    The series converges like zᵏ, so beyond z = ½ the one around z = 1 is summed:
    b Σₖ (b)ₖ/k! wᵏ [ψ(k + 1) − ψ(b + k) − ln w], with w = 1 − z.

    Example:
        >>> round(float(hypergeometric(1.0, jnp.array(0.5))), 6)  # −ln(1 − z)/z
        1.386294
    """
    if b <= 0 and b == round(b):
        raise ValueError(f"b must not be 0 or a negative integer, got {b}.")
    k = np.arange(_NUM_TERMS)
    below = jnp.polyval(jnp.asarray((b / (b + k))[::-1], z.dtype), jnp.minimum(z, 0.5))
    # (b)ₖ/k! and ψ(k + 1) − ψ(b + k), from one k to the next.
    ratios = np.cumprod(np.append(1.0, (b + k[:-1]) / (k[:-1] + 1)))
    differences = np.cumsum(np.append(0.0, 1 / (k[:-1] + 1) - 1 / (b + k[:-1])))
    first = digamma(jnp.asarray(1.0, z.dtype)) - digamma(jnp.asarray(b, z.dtype))
    w = jnp.where(z > 0.5, 1 - z, 0.5)
    smooth = jnp.polyval(jnp.asarray((ratios * differences)[::-1], z.dtype), w)
    above = b * (smooth + (first - jnp.log(w)) * (1 - w) ** -b)
    return jnp.where(z > 0.5, above, below)


def aligned_weights(target: Float[Array, "k d"], width: int, depth: int) -> LayerWeights:
    """Make layers of norm 1 that all pass on the top mode of A = Σ sᵢpᵢqᵢᵀ, and nothing else.

    Args:
        target: A.
        width: The width of all hidden layers; the first neuron of each is used.
        depth: The number of layers L.

    Example:
        >>> target = jnp.diag(jnp.array([3.0, 1.0]))
        >>> first, second = aligned_weights(target, width=4, depth=2)
        >>> (second @ first).round(3).tolist()  # the top mode, with size 1
        [[1.0, 0.0], [0.0, 0.0]]
    """
    _check_depth(depth)
    left, _, right = jnp.linalg.svd(target, full_matrices=False)
    neuron = jnp.zeros(width).at[0].set(1.0)
    vectors = [right[0], *[neuron] * (depth - 1), left[:, 0]]
    return [jnp.outer(after, before) for before, after in pairwise(vectors)]


def random_weights(key: RandomKey, shape: tuple[int, int], width: int, depth: int) -> LayerWeights:
    """Draw Gaussian layers, and bring the largest singular value of each to 1.

    Args:
        key: The randomness.
        shape: Outputs and inputs of the network, (k, d).
        width: The width of all hidden layers.
        depth: The number of layers L.

    Example:
        >>> layers = random_weights(jax.random.key(0), (2, 3), width=4, depth=3)
        >>> [layer.shape for layer in layers]
        [(4, 3), (4, 4), (2, 4)]
        >>> [round(float(jnp.linalg.norm(layer, 2)), 3) for layer in layers]
        [1.0, 1.0, 1.0]
    """
    _check_depth(depth)
    sizes = [shape[1], *[width] * (depth - 1), shape[0]]
    shapes = [(after, before) for before, after in pairwise(sizes)]
    counts = [math.prod(each) for each in shapes]
    numbers = jnp.split(jax.random.normal(key, (sum(counts),)), np.cumsum(counts)[:-1])
    drawn = map(jnp.reshape, numbers, shapes)
    return [weights / jnp.linalg.norm(weights, 2) for weights in drawn]


def effective_scale(target: Float[Array, "k d"], weights: LayerWeights) -> Float[Array, ""]:
    """Give ½‖W₁q + W₂ᵀp‖, the part of a start of two layers that grows with the mode spqᵀ.

    Of W₁q and W₂ᵀp, small, the sum grows like e^(st) and the difference shrinks like e^(−st).

    Example:
        >>> target = jnp.diag(jnp.array([3.0, 1.0]))
        >>> aligned = aligned_weights(target, width=4, depth=2)
        >>> round(float(effective_scale(target, aligned)), 3)  # all of it grows
        1.0
        >>> round(float(effective_scale(target, [aligned[0], -aligned[1]])), 3)  # nothing does
        0.0
    """
    first, second = weights
    left, _, right = jnp.linalg.svd(target, full_matrices=False)
    return jnp.linalg.norm(first @ right[0] + second.T @ left[:, 0]) / 2


def velocity(target: Float[Array, "k d"], weights: LayerWeights, scale: Scalar) -> LayerWeights:
    """Give dŴ/dt̂ of the gradient flow of ½‖A − W_L⋯W₁‖², for W = βŴ and t = β^(2−L)t̂.

        dŴₗ/dt̂ = (Ŵ_L⋯Ŵ_{l+1})ᵀ (A − β^L Ŵ_L⋯Ŵ₁) (Ŵ_{l−1}⋯Ŵ₁)ᵀ

    Args:
        target: A.
        weights: Ŵ, from the first layer to the last.
        scale: β.

    Example:
        >>> one = jnp.ones((1, 1))
        >>> inner, outer = velocity(3 * one, [0.5 * one, 2 * one], scale=1.0)  # of ½(3 − ab)²
        >>> inner.tolist(), outer.tolist()  # (3 − ab)b and (3 − ab)a
        ([[4.0]], [[1.0]])
    """
    before = [jnp.eye(target.shape[1])]
    for layer in weights:
        before.append(layer @ before[-1])
    error = target - scale ** len(weights) * before[-1]
    speeds: LayerWeights = []
    for layer, inputs in zip(weights[::-1], before[-2::-1], strict=True):
        speeds.append(error @ inputs.T)
        error = layer.T @ error
    return speeds[::-1]


def grow(
    target: Float[Array, "k d"],
    weights: LayerWeights,
    scale: Scalar,
    horizon: float,
    num_readings: int,
) -> Growth:
    """Follow the gradient flow on a clock of its own: dτ = (1 + |dŴ/dt̂|/|Ŵ| + β^L|Ŵ|^(2L−2)) dt̂.

    From a small start a deep network rests long, jumps, and comes to rest in a narrow valley. The
    clock counts time, growth and the curvature of the valley, so that on it nothing is fast, and
    equal steps of Runge and Kutta's method of order four serve.

    Args:
        target: A, whose top mode is watched.
        weights: The first Ŵ, in units of β.
        scale: β.
        horizon: The last reading τ of the clock.
        num_readings: How often the network is measured, from τ = 0 on, in equal intervals.

    Example:
        >>> one = jnp.ones((1, 1))
        >>> path = grow(one, [one, one], scale=0.1, horizon=20.0, num_readings=5)
        >>> bool(jnp.allclose(path.overlaps, squared_mode(path.times, 1.0, 0.1), atol=1e-5))
        True
    """
    if not horizon > 0 or num_readings < 2:
        raise ValueError(
            "grow needs a positive horizon and at least 2 readings, "
            f"got {horizon} and {num_readings}."
        )
    left, _, right = jnp.linalg.svd(target, full_matrices=False)
    interval = horizon / (num_readings - 1)
    substeps = math.ceil(interval / _STEP)

    def measure(state: _State) -> Growth:
        layers, time = state
        signal = right[0]
        for layer in layers:
            signal = layer @ signal
        norms = jnp.stack([jnp.linalg.norm(layer) for layer in layers])
        return Growth(time, scale ** len(layers) * (left[:, 0] @ signal), scale * norms)

    def advance(state: _State, _: None) -> tuple[_State, Growth]:
        size = interval / substeps
        step = lambda _, now: _runge_kutta(partial(_paced, target, scale), now, size)  # noqa: E731
        return jax.lax.fori_loop(0, substeps, step, state), measure(state)

    return jax.lax.scan(advance, (weights, jnp.zeros(())), length=num_readings)[1]


def _paced(target: Float[Array, "k d"], scale: Scalar, state: _State) -> _State:
    """dŴ/dτ and dt̂/dτ."""
    layers, _ = state
    depth, size = len(layers), _norm(layers)
    speeds = velocity(target, layers, scale)
    curvature = scale**depth * (size**2 / depth) ** (depth - 1)
    pace = 1 / (1 + _norm(speeds) / size + curvature)
    return [pace * each for each in speeds], pace


def _runge_kutta(speed: Callable[[_State], _State], state: _State, size: float) -> _State:
    """One step of the classical method."""

    def moved(by: float, direction: _State) -> _State:
        return jax.tree.map(lambda here, slope: here + by * slope, state, direction)

    first = speed(state)
    second = speed(moved(size / 2, first))
    third = speed(moved(size / 2, second))
    fourth = speed(moved(size, third))
    mean = jax.tree.map(
        lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, first, second, third, fourth
    )
    return moved(size, mean)


def crossing(growth: Growth, level: Scalar) -> Float[Array, ""]:
    """Give the time when the overlap first passes a level, or NaN; log-linear between readings.

    Example:
        >>> path = Growth(jnp.array([0.0, 2.0]), jnp.array([1.0, 4.0]), jnp.ones((2, 1)))
        >>> round(float(crossing(path, 2.0)), 3)  # growth by e^(t ln 2) reaches 2 at t = 1
        1.0
    """
    passed = growth.overlaps >= level
    after = jnp.maximum(jnp.argmax(passed), 1)
    low, high = growth.overlaps[after - 1], growth.overlaps[after]
    share = jnp.where(low > 0, jnp.log(level / low) / jnp.log(high / low), 1.0)
    start, end = growth.times[after - 1], growth.times[after]
    return jnp.where(passed.any(), start + share * (end - start), jnp.nan)


def _norm(weights: LayerWeights) -> Float[Array, ""]:
    return jnp.sqrt(sum((jnp.sum(layer**2) for layer in weights), jnp.zeros(())))


def _check_depth(depth: int) -> None:
    if depth < 2:
        raise ValueError(f"depth must be at least 2, got {depth}.")
