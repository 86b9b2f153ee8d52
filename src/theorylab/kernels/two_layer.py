"""The two-layer network of which only the first layer learns, and its tangent kernel.

    f(x) = m^(−1/2) Σᵣ aᵣ σ(wᵣᵀx),    wᵣ ~ N(0, I),   aᵣ = ±1 fixed,   r = 1 … m

Its tangent kernel and the limit at infinite width m are

    H(x, x′)  = xᵀx′ (1/m) Σᵣ σ′(wᵣᵀx) σ′(wᵣᵀx′)
    H*(x, x′) = xᵀx′ E σ′(wᵀx) σ′(wᵀx′),   for ReLU  xᵀx′ (π − arccos ρ)/2π,   ρ = cos∠(x, x′)

(the source prints the last without xᵀx′). For ReLU and ‖x‖ = 1, with K = XXᵀ and powers by entry,

    H* = K/4 + (1/2π) Σ_{l≥1} (2l−3)!!/((2l−2)!! (2l−1)) K^{∘2l}.

In training by ½ Σᵢ (uᵢ − yᵢ)², with ‖xᵢ‖ ≤ 1, |σ′| ≤ 1 and u(0) = f − f₀ = 0, on n samples,

    |H(0) − H*|ᵢⱼ ≤ 4√(log(n/δ)/m)               with probability 1 − δ, all entries at once
    ‖wᵣ(t) − wᵣ(0)‖ ≤ tn/√m                      if |yᵢ| ≤ 1
    ‖H(t) − H(0)‖ ≤ 2tn²/√m                      if |yᵢ| ≤ 1 and |σ″| ≤ 1, as of softplus
    ‖wᵣ(t) − wᵣ(0)‖ ≤ 2√n ‖y‖/(λ₀√m)             while H ≥ λ₀/2, with λ₀ = λ_min(H*)
    ‖W(∞) − W(0)‖_F → √(yᵀH*⁻¹y)                 as m → ∞

and ‖u − y‖² falls at least as e^(−λ₀t) while H ≥ λ₀/2.

Source: arora · ntk-2layer · §9.2, Lemmas 9.2.2–9.2.3, Ex. 9.6.1–9.6.3; golikov ·
ntk-global-convergence · 2.6.3, Thms 2.6.1–2.6.2, Eqs 2.126–2.127.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from theorylab.models import ACTIVATIONS
from theorylab.typing import RandomKey, Scalar

from .dual import dual

Numbers = float | int | Float[Array, "..."] | Float[np.ndarray, "..."]
Bound = Any  # as many numbers as came in


class Network(NamedTuple):
    """The learning weights of the first layer and the fixed signs of the second.

    Example: two neurons with opposite signs and equal weights cancel.
        >>> network = Network(weights=jnp.ones((2, 3)), signs=jnp.array([1.0, -1.0]))
        >>> outputs(network, jnp.ones((1, 3))).tolist()
        [0.0]
    """

    weights: Float[Array, "m d"]  # w, one row for each neuron
    signs: Float[Array, " m"]  # a, ±1; 0 for a neuron that is switched off


class FirstLayerTraining(NamedTuple):
    """What gradient descent did to a network; axes: t recorded times, n samples, m neurons.

    Example: one record at the beginning, and one after each of two steps.
        >>> network = Network(weights=jnp.ones((1, 1)), signs=jnp.ones(1))
        >>> run = descend(network, jnp.ones((1, 1)), jnp.ones(1), 0.5, 2, 1)
        >>> run.times.tolist(), run.outputs[:, 0].tolist()
        ([0.0, 0.5, 1.0], [0.0, 0.5, 0.75])
    """

    network: Network  # at the end
    times: Float[Array, " t"]  # step size times the number of steps
    outputs: Float[Array, "t n"]  # u, what the network adds to its initial outputs
    row_movement: Float[Array, " t"]  # the largest ‖wᵣ(t) − wᵣ(0)‖ so far
    kernel_movement: Float[Array, " t"]  # ‖H(t) − H(0)‖, spectral
    smallest_eigenvalue: Float[Array, " t"]  # λ_min(H(t))


def init(key: RandomKey, width: int, dimension: int) -> Network:
    """Draw wᵣ ~ N(0, I) and aᵣ = ±1 with equal probability.

    Example:
        >>> network = init(jax.random.key(0), width=100, dimension=3)
        >>> network.weights.shape, sorted(set(network.signs.tolist()))
        ((100, 3), [-1.0, 1.0])
    """
    for name, size in (("width", width), ("dimension", dimension)):
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}.")
    for_weights, for_signs = jax.random.split(key)
    weights = jax.random.normal(for_weights, (width, dimension))
    return Network(weights, jax.random.rademacher(for_signs, (width,), weights.dtype))


def doubled(network: Network) -> Network:
    """Put a copy with opposite signs beside the network: f = 0 everywhere, and the same H.

    Example:
        >>> network, x = doubled(init(jax.random.key(0), width=5, dimension=3)), jnp.ones((2, 3))
        >>> len(network.signs), bool(jnp.allclose(outputs(network, x), 0.0))
        (10, True)
    """
    weights, signs = network
    return Network(jnp.concatenate([weights, weights]), jnp.concatenate([signs, -signs]))


def narrowed(network: Network, width: Scalar | Int[Array, ""]) -> Network:
    """Switch off all but the first neurons: the network of that width, in arrays of the old shape.

    The signs of the others are multiplied by √(m/width), which turns m^(−1/2) into width^(−1/2).
    So one compiled program serves networks of every width.

    Example: the network of the first neuron alone.
        >>> weights, x = jnp.array([[1.0], [5.0]]), jnp.array([[3.0]])
        >>> network = narrowed(Network(weights, signs=jnp.ones(2)), width=1)
        >>> [round(float(output), 6) for output in outputs(network, x)]
        [3.0]
    """
    first = jnp.arange(len(network.signs)) < width
    scale = jnp.sqrt(len(network.signs) / width)
    return network._replace(signs=jnp.where(first, scale * network.signs, 0.0))


def outputs(
    network: Network, x: Float[Array, "n d"], activation: str = "relu"
) -> Float[Array, " n"]:
    """f(x) = m^(−1/2) Σᵣ aᵣ σ(wᵣᵀx).

    Example: four equal neurons, 4^(−1/2) · 4 · 3.
        >>> network = Network(weights=jnp.ones((4, 1)), signs=jnp.ones(4))
        >>> outputs(network, jnp.array([[3.0], [-3.0]])).tolist()
        [6.0, 0.0]
    """
    sigma = ACTIVATIONS[_checked(activation)]
    return sigma(x @ network.weights.T) @ network.signs / math.sqrt(len(network.signs))


def slopes(
    network: Network, x: Float[Array, "n d"], activation: str = "relu"
) -> Float[Array, "n m"]:
    """σ′(wᵣᵀx): for ReLU the activation pattern, 1 where a neuron is open and 0 where not.

    Example: the neuron (1, 0) is open where x₁ > 0, the neuron (0, 1) where x₂ > 0.
        >>> network = Network(weights=jnp.eye(2), signs=jnp.ones(2))
        >>> slopes(network, jnp.array([[2.0, -1.0], [1.0, 1.0]])).tolist()
        [[1.0, 0.0], [1.0, 1.0]]
    """
    sigma = ACTIVATIONS[_checked(activation)]
    z = x @ network.weights.T
    return jax.jvp(sigma, (z,), (jnp.ones_like(z),))[1]


def tangent_kernel(
    network: Network,
    x1: Float[Array, "n d"],
    x2: Float[Array, "n2 d"] | None = None,
    activation: str = "relu",
) -> Float[Array, "n n2"]:
    """H(x, x′) = xᵀx′ (1/m) Σᵣ aᵣ² σ′(wᵣᵀx) σ′(wᵣᵀx′), of the current weights.

    Example: x and x′ share one of two neurons, and xᵀx′ = 1.
        >>> network = Network(weights=jnp.eye(2), signs=jnp.ones(2))
        >>> tangent_kernel(network, jnp.array([[2.0, -1.0], [1.0, 1.0]]))[0, 1].tolist()
        0.5
    """
    first = slopes(network, x1, activation)
    second = first if x2 is None else slopes(network, x2, activation)
    inner = x1 @ (x1 if x2 is None else x2).T
    return inner * ((first * network.signs[None, :] ** 2) @ second.T) / len(network.signs)


def limit_kernel(
    x1: Float[Array, "n d"], x2: Float[Array, "n2 d"] | None = None, activation: str = "relu"
) -> Float[Array, "n n2"]:
    """H*(x, x′) = xᵀx′ E σ′(wᵀx) σ′(wᵀx′), at infinite width.

    Args:
        x1: Inputs x, of any length.
        x2: Inputs x′; the same as x if left out.
        activation: The name of σ, one of `theorylab.models.ACTIVATIONS`.

    Example:
        >>> limit_kernel(jnp.eye(2)).tolist()
        [[0.5, 0.0], [0.0, 0.5]]
    """
    x2 = x1 if x2 is None else x2
    inner = x1 @ x2.T
    squares1, squares2 = jnp.sum(x1**2, axis=1)[:, None], jnp.sum(x2**2, axis=1)[None, :]
    return inner * dual(_checked(activation), squares1, squares2, inner).derivative


def limit_series(cosines: Float[Array, "..."], num_terms: int) -> Float[Array, "..."]:
    """K/4 + (1/2π) Σ_{l≥1} (2l−3)!!/((2l−2)!! (2l−1)) K^{2l}: H* of ReLU as a function of K = xᵀx′.

    Every coefficient is positive, so H* ≥ K/4 and H* ≥ c_l K^{∘2l} as quadratic forms. Away from
    ±1 the terms fall as K^{2l}; there, as l^(−3/2).

    Args:
        cosines: K, inner products of unit vectors.
        num_terms: How many l.

    Example: at K = ½ it is `limit_kernel`'s K (π − arccos K)/2π = ⅙.
        >>> round(float(limit_series(jnp.array(0.5), num_terms=20)), 6)
        0.166667
    """
    total = cosines / 4
    squares = cosines**2

    def add(state: tuple[Array, Array, Array], term: Array) -> tuple[tuple, None]:
        total, power, ratio = state  # power = K^{2l}, ratio = (2l−3)!!/(2l−2)!!
        total = total + ratio / (2 * term - 1) * power / (2 * math.pi)
        return (total, power * squares, ratio * (2 * term - 1) / (2 * term)), None

    if num_terms < 1:
        raise ValueError(f"num_terms must be at least 1, got {num_terms}.")
    start = (total, squares, jnp.ones((), cosines.dtype))
    terms = jnp.arange(1, num_terms + 1, dtype=cosines.dtype)  # l
    return jax.lax.scan(add, start, terms)[0][0]


def series_coefficient(power: int) -> float:
    """The coefficient of K^power in `limit_series`: positive for 1 and the even powers, else 0.

    Example:
        >>> series_coefficient(1), series_coefficient(3)
        (0.25, 0.0)
    """
    if power < 1:
        raise ValueError(f"power must be at least 1, got {power}.")
    if power % 2:
        return 0.25 if power == 1 else 0.0
    # (2l−3)!!/(2l−2)!! = (2l−2 choose l−1)/4^(l−1)
    half = power // 2
    return math.comb(2 * half - 2, half - 1) / 4 ** (half - 1) / (2 * half - 1) / (2 * math.pi)


def flipped(before: Network, after: Network, x: Float[Array, "n d"]) -> Float[Array, ""]:
    """The share of activation patterns 1[wᵣᵀx > 0] that differ, among neurons that are on.

    Example: one of two neurons changes its sign.
        >>> before = Network(weights=jnp.ones((2, 1)), signs=jnp.ones(2))
        >>> after = before._replace(weights=jnp.array([[1.0], [-1.0]]))
        >>> float(flipped(before, after, jnp.ones((1, 1))))
        0.5
    """
    one, other = (network.weights @ x.T > 0 for network in (before, after))
    num_on = jnp.sum(before.signs != 0)
    return jnp.sum(jnp.where(one != other, 1.0, 0.0)) / (num_on * len(x))


def descend(
    network: Network,
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    learning_rate: Scalar,
    num_records: int,
    steps_per_record: int,
    activation: str = "relu",
) -> FirstLayerTraining:
    """Train the first layer by w ← w − η ∇ ½‖u − y‖², where u = f − f₀ begins at 0.

    Args:
        network: The initial weights.
        x: Inputs.
        y: Targets of what the network adds to its initial outputs.
        learning_rate: η, below 2/λ_max(H) to converge.
        num_records: How often to measure, after the beginning.
        steps_per_record: Steps between two measurements.
        activation: The name of σ.

    Example: one neuron has H = 1, so every step halves what is left.
        >>> network = Network(weights=jnp.ones((1, 1)), signs=jnp.ones(1))
        >>> x, y = jnp.ones((1, 1)), jnp.ones(1)
        >>> descend(network, x, y, 0.5, num_records=3, steps_per_record=1).outputs[:, 0].tolist()
        [0.0, 0.5, 0.75, 0.875]
    """
    for name, count in (("num_records", num_records), ("steps_per_record", steps_per_record)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}.")
    initial_outputs = outputs(network, x, activation)
    initial_kernel = tangent_kernel(network, x, activation=activation)

    def loss(weights: Array) -> Array:
        u = outputs(network._replace(weights=weights), x, activation) - initial_outputs
        return 0.5 * jnp.sum((u - y) ** 2)

    def step(_: Array, weights: Array) -> Array:
        return weights - learning_rate * jax.grad(loss)(weights)

    def record(state: tuple[Array, Array], number: Array) -> tuple[tuple[Array, Array], tuple]:
        weights, farthest = state
        num_steps = jnp.where(number == 0, 0, steps_per_record)  # the beginning is measured too
        weights = jax.lax.fori_loop(0, num_steps, step, weights)
        now = network._replace(weights=weights)
        kernel = tangent_kernel(now, x, activation=activation)
        farthest = jnp.maximum(farthest, _row_lengths(weights - network.weights).max())
        spectral = jnp.abs(jnp.linalg.eigvalsh(kernel - initial_kernel)).max()
        u = outputs(now, x, activation) - initial_outputs
        return (weights, farthest), (u, farthest, spectral, jnp.linalg.eigvalsh(kernel)[0])

    numbers = jnp.arange(num_records + 1)
    start = (network.weights, jnp.zeros((), x.dtype))
    (weights, _), records = jax.lax.scan(record, start, numbers)
    times = learning_rate * steps_per_record * numbers.astype(x.dtype)
    return FirstLayerTraining(network._replace(weights=weights), times, *records)


def movement_limit(kernel: Float[Array, "n n"], y: Float[Array, " n"]) -> Float[Array, ""]:
    """√(yᵀH⁻¹y): how far W travels in Frobenius norm until the frozen kernel H has fitted y.

    Example: √(3²/1 + 8²/4).
        >>> round(float(movement_limit(jnp.diag(jnp.array([1.0, 4.0])), jnp.array([3.0, 8.0]))), 6)
        5.0
    """
    factor = jax.scipy.linalg.cho_factor(kernel, lower=True)
    return jnp.sqrt(y @ jax.scipy.linalg.cho_solve(factor, y))


def entrywise_bound(width: Numbers, num_samples: int, delta: float) -> Bound:
    """4√(log(n/δ)/m): all |H(0) − H*|ᵢⱼ are below it with probability 1 − δ.

    Example:
        >>> round(entrywise_bound(25600, num_samples=50, delta=0.1), 4)
        0.0623
    """
    _check_delta(delta)
    return 4 * (math.log(num_samples / delta) / width) ** 0.5


def sufficient_width(tolerance: float, num_samples: int, delta: float) -> float:
    """16 n² log(n/δ)/ε²: from this width on all entries are within ε/n, so ‖H(0) − H*‖ ≤ ε.

    Example: half the tolerance needs four times the width.
        >>> wide, narrow = (sufficient_width(e, num_samples=10, delta=0.1) for e in (0.05, 0.1))
        >>> round(wide / narrow, 6)
        4.0
    """
    _check_delta(delta)
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, got {tolerance}.")
    return 16 * num_samples**2 * math.log(num_samples / delta) / tolerance**2


def row_movement_bound(time: Numbers, num_samples: int, width: Numbers) -> Bound:
    """tn/√m, for |σ′|, |yᵢ|, ‖xᵢ‖ ≤ 1: no neuron moves further until time t.

    Example:
        >>> row_movement_bound(time=2.0, num_samples=10, width=400)
        1.0
    """
    return time * num_samples / width**0.5


def kernel_movement_bound(time: Numbers, num_samples: int, width: Numbers) -> Bound:
    """2tn²/√m, for |σ″| ≤ 1 too: ‖H(t) − H(0)‖ is at most this (the source's O(tn³/√m)).

    Example:
        >>> kernel_movement_bound(time=2.0, num_samples=10, width=400)
        20.0
    """
    return 2 * time * num_samples**2 / width**0.5


def eventual_movement_bound(
    residual: Numbers, smallest_eigenvalue: Numbers, num_samples: int, width: Numbers
) -> Bound:
    """2√n ‖y − u(0)‖/(λ₀√m): no neuron ever moves further if H stays ≥ λ₀/2 and ‖xᵢ‖ ≤ 1.

    Example:
        >>> eventual_movement_bound(3.0, smallest_eigenvalue=0.5, num_samples=4, width=576)
        1.0
    """
    return 2 * num_samples**0.5 * residual / (smallest_eigenvalue * width**0.5)


def theorem_widths(
    num_samples: int, smallest_eigenvalue: Numbers, delta: float
) -> tuple[Bound, Bound]:
    """The widths that suffice for H(t) ≥ λ₀/2 at all times, up to a constant.

    Theorem 2.6.1: max(n⁶/(λ₀⁴δ³), n²/λ₀² log(2n/δ)); Theorem 2.6.2: n⁴/λ₀⁴ log³(n/δ).

    Example: two samples with λ₀ = 1; the first is 2⁶/0.1³.
        >>> [round(float(width)) for width in theorem_widths(2, 1.0, delta=0.1)]
        [64000, 430]
    """
    _check_delta(delta)
    n, eigenvalue = num_samples, smallest_eigenvalue
    initially = n**2 / eigenvalue**2 * math.log(2 * n / delta)
    first = np.maximum(n**6 / (eigenvalue**4 * delta**3), initially)
    return first, n**4 / eigenvalue**4 * math.log(n / delta) ** 3


def _row_lengths(weights: Array) -> Array:
    return jnp.sqrt(jnp.sum(weights**2, axis=1))


def _checked(activation: str) -> str:
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {activation!r}.")
    return activation


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}.")
