"""Sparse parity on fair signs: the first gradient by the Fourier coefficients of majority.

For x uniform on {−1, 1}ᵈ with d odd, y = ∏_{l ∈ A} x_l with |A| = k even, signs w and a bias
|b| < 1, a neuron is active where the majority of the w_l x_l is positive, and

    G(w, b)ⱼ = ½ ξ_{k−1} ∏_{l ∈ A∖j} w_l   for j ∈ A
    G(w, b)ⱼ = ½ ξ_{k+1} ∏_{l ∈ A∪j} w_l   for j ∉ A

    ξ_k = (−1)^{(k−1)/2} C((d−1)/2, (k−1)/2)/C(d−1, k−1) · 2^{−(d−1)} C(d−1, (d−1)/2)

with ξ_k the coefficient of k signs in the majority of d, and ξ_{k+1}/ξ_{k−1} = −(k−1)/(d−k). On A
the gradient is parallel to w, so a neuron finds D = Σ_A e_l/√k if its k relevant signs agree, with
probability 2^{−(k−1)}; then

    cos(G, D) = √(k/(k + (k−1)²/(d−k))),   ‖G/‖G‖ − (±D)‖_∞ ≤ √k/(d−k),
    ‖G‖ = ½ √(kξ_{k−1}² + (d−k)ξ_{k+1}²),  which falls like d^{−(k−1)/2}

A mean over n samples has independent errors of variance (½ − Gⱼ²)/n in the limit, so n ~ d^{k−1}
samples give the right signs to all of A.

(The source leaves out the ½, has ξ_{k−1} in both lines, C((d−1)/2, (d−1)/2) in ξ_k, does not say
that d is odd, and prints ‖G‖ = d^{Θ(k)}.)

Source: shi · case-uniform-parity · B.5.5–B.5.6, Algorithm 6; Barak et al. (2022), arXiv:2207.08799.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # whose functions are loaded when they are used
from jaxtyping import Array, Bool, Float

from theorylab.data import SparseParity
from theorylab.typing import RandomKey, Scalar

from .network import ReluNetwork, symmetrized


def majority_coefficient(dimension: int, degree: int) -> float:
    """ξ_k = E[Maj(x) x₁⋯x_k] of d fair signs; 0 for even k.

    Args:
        dimension: d, odd.
        degree: k, from 0 to d.

    Example:
        >>> [majority_coefficient(3, degree) for degree in range(4)]
        [0.0, 0.5, 0.0, -0.5]
    """
    d, k = dimension, degree
    if d < 1 or d % 2 == 0:
        raise ValueError(f"dimension must be odd, or there are ties, got {d}.")
    if not 0 <= k <= d:
        raise ValueError(f"degree must be in [0, {d}], got {k}.")
    if k % 2 == 0:
        return 0.0
    half, place = (d - 1) // 2, (k - 1) // 2
    # Whole numbers, so that nothing overflows.
    size = math.comb(half, place) * math.comb(d - 1, half)
    return (-1) ** place * size / (math.comb(d - 1, k - 1) * 2 ** (d - 1))


def parity_gradients(weights: Float[Array, "m d"], num_bits: int) -> Float[Array, "m d"]:
    """G(w, b) for signs w and any |b| < 1, in closed form.

    Args:
        weights: w, ±1, one row for each neuron; the relevant coordinates come first.
        num_bits: k, even.

    Example:
        >>> parity_gradients(jnp.ones((1, 5)), num_bits=2).tolist()
        [[0.1875, 0.1875, -0.0625, -0.0625, -0.0625]]
    """
    law = _law(weights.shape[1], num_bits)
    inside, outside = _sizes(law)
    product = weights[:, :num_bits].prod(axis=1, keepdims=True)
    # Signs: leaving out w_j is multiplying by it.
    return product * weights * jnp.where(law.direction > 0, inside, outside)[None, :]


def aligned(weights: Float[Array, "m d"], num_bits: int) -> Bool[Array, " m"]:
    """Which neurons find D: those whose k relevant signs are all equal.

    Example:
        >>> aligned(jnp.array([[1.0, 1.0, -1.0], [1.0, -1.0, 1.0]]), num_bits=2).tolist()
        [True, False]
    """
    return jnp.abs(weights[:, :num_bits].sum(axis=1)) == num_bits


def aligned_cosine(dimension: int, num_bits: int) -> float:
    """|cos(G, D)| of a neuron that finds D: √(k/(k + (k−1)²/(d−k))).

    Example:
        >>> round(aligned_cosine(13, 4), 4)
        0.8944
    """
    _law(dimension, num_bits)
    return math.sqrt(num_bits / (num_bits + (num_bits - 1) ** 2 / (dimension - num_bits)))


def gradient_length(dimension: int, num_bits: int) -> float:
    """‖G‖ = ½ √(kξ_{k−1}² + (d−k)ξ_{k+1}²), of every neuron.

    Args:
        dimension: d.
        num_bits: k.

    Example:
        >>> round(gradient_length(33, num_bits=4), 5)
        0.00469
    """
    inside, outside = _sizes(_law(dimension, num_bits))
    return math.hypot(math.sqrt(num_bits) * inside, math.sqrt(dimension - num_bits) * outside)


def limit_samples(dimension: int, num_bits: int, probability: float) -> float:
    """The n that gives the right signs to all of A with a probability q, in the Gaussian limit.

        Φ(|Gⱼ|√n/√(½ − Gⱼ²))ᵏ = q

    Args:
        dimension: d.
        num_bits: k.
        probability: q.

    Example:
        >>> [round(limit_samples(d, num_bits=2, probability=0.9)) for d in (33, 65)]
        [269, 537]
    """
    if not 2**-num_bits < probability < 1:
        raise ValueError(f"probability must be in ({2**-num_bits}, 1), got {probability}.")
    inside, _ = _sizes(_law(dimension, num_bits))
    height = scipy.stats.norm.ppf(probability ** (1 / num_bits))
    return float(height**2 * (0.5 / inside**2 - 1))


def needed_samples(
    key: RandomKey, dimension: int, num_bits: int, probability: float = 0.9, num_trials: int = 400
) -> float:
    """The n that gives the right signs to all of A with a probability q, from trials with samples.

    The sums over n samples depend on how often each of the 2ᵏ patterns of A came with an active
    neuron. These counts are drawn by their exact law, at some n around the limit's; n is read off
    where the share of successes passes q.

    Args:
        key: Draws the counts.
        dimension: d.
        num_bits: k.
        probability: q.
        num_trials: Trials at each n.

    Example:
        >>> bool(10 < needed_samples(jax.random.key(0), 33, num_bits=2) < 1000)
        True
    """
    centre = limit_samples(dimension, num_bits, probability)
    sizes = np.unique(np.round(centre * np.geomspace(0.35, 3.0, 13)).astype(int))
    seed = np.asarray(jax.random.key_data(key)).astype(np.uint32)
    random = np.random.default_rng(seed)
    contributions, chances = _contributions(dimension, num_bits)
    shares = []
    for size in sizes:
        counts = random.multinomial(size, [*chances, 1 - chances.sum()], size=num_trials)
        sums = counts[:, :-1] @ contributions
        shares.append((sums * (chances @ contributions)[None, :] > 0).all(axis=1).mean())
    return float(np.exp(_crossing(np.log(sizes), shares, probability)))


def parity_start(key: RandomKey, width: int, dimension: int, num_bits: int) -> ReluNetwork:
    """Algorithm 6's start with 4m neurons: signs a and w, biases from {−1 + 1/k, …, 1 − 1/k}.

    Symmetrised like `symmetric_network`, so that the output is zero everywhere.

    Args:
        key: Draws the first m neurons.
        width: m.
        dimension: d.
        num_bits: k.

    Example:
        >>> start = parity_start(jax.random.key(0), width=2, dimension=5, num_bits=2)
        >>> start.weights.shape, bool(jnp.abs(start(jnp.ones((1, 5)))).max() < 1e-9)
        ((8, 5), True)
    """
    if width < 1:
        raise ValueError(f"width must be at least 1, got {width}.")
    _law(dimension, num_bits)
    output_key, weight_key, bias_key = jax.random.split(key, 3)
    a = jax.random.rademacher(output_key, (width,)).astype(float)
    w = jax.random.rademacher(weight_key, (width, dimension)).astype(float)
    b = jax.random.randint(bias_key, (width,), 1 - num_bits, num_bits) / num_bits
    return symmetrized(ReluNetwork(a, w, b))


def parity_step(start: ReluNetwork, num_bits: int, learning_rate: Scalar) -> ReluNetwork:
    """The first step on the exact risk of the hinge: w⁽¹⁾ = η⁽¹⁾ a⁽⁰⁾ G(w⁽⁰⁾, b), w⁽⁰⁾ forgotten.

    Args:
        start: From `parity_start`.
        num_bits: k.
        learning_rate: η⁽¹⁾, such as `parity_rate(…)`.

    Example:
        >>> start = parity_start(jax.random.key(0), width=2, dimension=5, num_bits=2)
        >>> moved = parity_step(start, 2, parity_rate(5, 2))
        >>> [round(abs(weight), 4) for weight in moved.weights[0].tolist()]
        [0.5, 0.5, 0.1667, 0.1667, 0.1667]
    """
    gradients = parity_gradients(start.weights, num_bits)
    return start._replace(weights=learning_rate * start.outputs[:, None] * gradients)


def parity_rate(dimension: int, num_bits: int) -> float:
    """η⁽¹⁾ = 2/(k|ξ_{k−1}|), which makes the weights on A ±1/k.

    So ⟨w, x⟩ runs from −1 to 1 on A, as the biases do. (Without the ½ the source needs no 2.)

    Args:
        dimension: d.
        num_bits: k.

    Example:
        >>> round(parity_rate(33, num_bits=2), 3)
        7.145
    """
    _law(dimension, num_bits)
    return 2 / (num_bits * abs(majority_coefficient(dimension, num_bits - 1)))


def _contributions(dimension: int, num_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Y x_A of all patterns (2ᵏ, k), and the chances that each comes and the neuron w = 1 fires."""
    x, y = map(np.asarray, SparseParity(num_bits, num_bits).points())
    rest = dimension - num_bits
    # Active if more than half of all signs are +1.
    missing = (dimension - 1) // 2 - (x > 0).sum(axis=1)
    chances = scipy.stats.binom.sf(missing, rest, 0.5) / len(y)
    return y[:, None] * x, chances


def _crossing(places: np.ndarray, shares: Sequence[float], level: float) -> float:
    """Where the shares pass the level, on a monotone curve through them; NaN if they do not."""
    grown = np.maximum.accumulate(np.asarray(shares))
    if not grown[0] < level <= grown[-1]:
        return math.nan
    after = int(np.argmax(grown >= level))
    part = (level - grown[after - 1]) / (grown[after] - grown[after - 1])
    return float(places[after - 1] + part * (places[after] - places[after - 1]))


def _sizes(law: SparseParity) -> tuple[float, float]:
    """½ ξ_{k−1} and ½ ξ_{k+1}."""
    d, k = law.dimension, law.num_bits
    return majority_coefficient(d, k - 1) / 2, majority_coefficient(d, k + 1) / 2


def _law(dimension: int, num_bits: int) -> SparseParity:
    """The parity, if it has even k and odd d > k."""
    if num_bits < 2 or num_bits % 2:
        raise ValueError(f"num_bits must be even and at least 2, got {num_bits}.")
    if dimension % 2 == 0 or dimension <= num_bits:
        raise ValueError(f"dimension must be odd and above {num_bits}, got {dimension}.")
    return SparseParity(dimension, num_bits)
