"""The largest margin that a polynomial network can have, and a network that has it.

    γ* = max_{‖θ‖≤1} h(θ) = 2 k! / ((2k + 2)^{(k+1)/2} (p - 1) p^{(k-1)/2})

One neuron has at most this average margin E g′, and has it just if its k + 1 vectors are cosines of
one frequency and one length with phases that add up:

    uⱼ(a) = A cos(φⱼ + 2πζa/p),   w(c) = A cos(Σⱼφⱼ + 2πζc/p),   A = √(2/((k + 1)p)).

(For k = 1 mixtures of frequencies do as well.) A network of such neurons at all frequencies
ζ = 1 … (p - 1)/2 has the least margin γ*: cos(Σⱼxⱼ - y) is a sum of 2ᵏ products of cosines and
sines, and each product of k numbers is a sum of 2ᵏ⁻¹ powers,

    2ᵏ⁻¹ k! z₁⋯z_k = Σ_{ε ∈ {±1}ᵏ, ε₁=1} ε₁⋯ε_k (ε₁z₁ + … + ε_kz_k)ᵏ,

so 2²ᵏ⁻¹(p - 1)/2 neurons are enough; the source asks for no fewer. Their output is k! 2ᵏ⁻¹ Σ_ζ
cos(2πζ(Σa - c)/p): k! 2ᵏ⁻¹ (p - 1)/2 at the right sum, and -k! 2ᵏ⁻² at every other one, where the
source has 0. The modulus must be odd, but it need not be prime.

Source: shi · max-margin-value · Theorem 4.9, Lemmas C.10–C.15; shi · max-margin-net · C.16–C.20.
"""

import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from theorylab.typing import RandomKey

from .margins import average_margin
from .polynomial import PolynomialNeurons, group_norm, initial_neurons, scaled


def maximum_margin(num_terms: int, modulus: int) -> float:
    """γ*, in closed form.

    Args:
        num_terms: The number of terms k.
        modulus: p.

    Example:
        >>> 1 / maximum_margin(num_terms=3, modulus=5)  # 16/3 p(p - 1)
        106.66666666666667
    """
    _check(num_terms, modulus)
    k, p = num_terms, modulus
    return 2 * math.factorial(k) / ((2 * k + 2) ** ((k + 1) / 2) * (p - 1) * p ** ((k - 1) / 2))


def least_penalized_loss(num_terms: int, modulus: int, penalty: float) -> float:
    """min_θ (mean cross-entropy + λ‖θ‖), in closed form up to a search in one dimension.

    Cross-entropy is convex in the differences of outputs, so by Jensen's inequality, first over
    the wrong outputs and then over the examples, it is at least log(1 + (p - 1)e^{-E g′}), and

        L(θ) ≥ min_r  log(1 + (p - 1) exp(-γ* rᵏ⁺¹)) + λr.

    The cosine network of norm r attains it: all its wrong outputs, and all its margins, are equal.
    So with this penalty the best network has the maximum margin at every λ, not only as λ → 0; if λ
    is so large that r = 0 is best, the value is log p.

    Args:
        num_terms: The number of terms k.
        modulus: p.
        penalty: λ.

    Example:
        >>> round(least_penalized_loss(num_terms=2, modulus=5, penalty=100.0), 4)  # log 5
        1.6094
    """
    if not penalty > 0:
        raise ValueError(f"penalty must be positive, got {penalty}.")
    best = maximum_margin(num_terms, modulus)

    def losses(norms: np.ndarray) -> np.ndarray:
        return np.log1p((modulus - 1) * np.exp(-best * norms ** (num_terms + 1))) + penalty * norms

    low, high = 0.0, math.log(modulus) / penalty  # further out, λr alone is more than log p
    norms = np.linspace(low, high, 2001)
    for _ in range(5):  # the loss may have two minima: a grid, then finer ones around the best
        place, width = norms[losses(norms).argmin()], norms[1] - norms[0]
        norms = np.linspace(max(0.0, place - width), place + width, 2001)
    return float(losses(norms).min())


def num_cosine_neurons(num_terms: int, modulus: int) -> int:
    """2²ᵏ⁻¹(p - 1)/2, the width that is enough for the maximum margin.

    Example:
        >>> num_cosine_neurons(num_terms=3, modulus=7)
        96
    """
    _check(num_terms, modulus)
    return 2 ** (2 * num_terms - 1) * (modulus - 1) // 2


def cosine_neuron(modulus: int, frequency: int, phases: Sequence[float]) -> PolynomialNeurons:
    """A neuron of norm 1 with the average margin γ*.

    Args:
        modulus: p.
        frequency: ζ, from 1 to (p - 1)/2.
        phases: φ₁, …, φ_k of the terms.

    Example:
        >>> round(float(group_norm(cosine_neuron(5, frequency=1, phases=(0.3, 0.7)))), 6)
        1.0
    """
    num_terms = len(phases)
    _check(num_terms, modulus)
    if not 1 <= frequency <= (modulus - 1) // 2:
        raise ValueError(f"frequency must be in [1, {(modulus - 1) // 2}], got {frequency}.")
    every_phase = np.append(phases, np.sum(phases))
    angles = 2 * np.pi * frequency * np.arange(modulus) / modulus
    amplitude = math.sqrt(2 / ((num_terms + 1) * modulus))
    vectors = jnp.asarray(amplitude * np.cos(every_phase[:, None] + angles[None, :]))[:, :, None]
    return PolynomialNeurons(vectors[:-1], vectors[-1])


def maximum_margin_network(num_terms: int, modulus: int) -> PolynomialNeurons:
    """The network of 2²ᵏ⁻¹(p - 1)/2 cosine neurons whose normalised margin is γ*.

    All its weights are cosines and sines of amplitude 1.

    Args:
        num_terms: The number of terms k.
        modulus: p.

    Example:
        >>> maximum_margin_network(num_terms=2, modulus=5).output.shape
        (5, 16)
    """
    _check(num_terms, modulus)
    k, p = num_terms, modulus
    angles = 2 * np.pi * np.arange(p) / p
    neurons = []
    for frequency in range(1, (p - 1) // 2 + 1):
        waves = np.stack([np.cos(frequency * angles), np.sin(frequency * angles)])
        for kinds in itertools.product((0, 1), repeat=k + 1):  # 0: cosine, 1: sine
            if sum(kinds) % 2:
                continue  # an odd number of sines is the imaginary part of ∏ e^{ix}
            for signs in itertools.product((1,), *[(1, -1)] * (k - 1)):
                inputs = np.array(signs)[:, None] * waves[list(kinds[:k])]
                # The last factor is of -c, and sin(-c) = -sin(c).
                sign = (-1) ** (sum(kinds) // 2 + kinds[k]) * math.prod(signs)
                neurons.append(np.concatenate([inputs, sign * waves[[kinds[k]]]]))
    vectors = jnp.asarray(np.stack(neurons, axis=2))
    return PolynomialNeurons(vectors[:-1], vectors[-1])


def ascended_neuron(
    key: RandomKey, num_terms: int, modulus: int, num_steps: int = 1000
) -> PolynomialNeurons:
    """A neuron of norm 1 after ascent of its average margin, from a random one.

    Steps θ ← θ + ∇V(θ)/(k(k + 1)γ*), then back to norm 1, V = E g′. Near the maximum such a step
    brings phases to their place at once, and is stable for every k; a step k times as long would
    make them swing for ever from k = 4 on.

    Args:
        key: Draws the start.
        num_terms: The number of terms k.
        modulus: p.
        num_steps: The number of steps.

    Example:
        >>> neuron = ascended_neuron(jax.random.key(0), num_terms=2, modulus=5)
        >>> round(float(average_margin(neuron)) / maximum_margin(2, 5), 3)
        1.0
    """
    rate = 1 / (num_terms * (num_terms + 1) * maximum_margin(num_terms, modulus))

    def advance(_: Array, params: PolynomialNeurons) -> PolynomialNeurons:
        gradient = jax.grad(average_margin)(params)
        moved = jax.tree.map(lambda weight, slope: weight + rate * slope, params, gradient)
        return scaled(moved, 1 / group_norm(moved))

    start = initial_neurons(key, num_terms, modulus, width=1)
    start = scaled(start, 1 / group_norm(start))
    return jax.lax.fori_loop(0, num_steps, advance, start)


def _check(num_terms: int, modulus: int) -> None:
    if num_terms < 2:
        raise ValueError(f"num_terms must be at least 2 for a maximum margin, got {num_terms}.")
    if modulus < 3 or modulus % 2 == 0:
        raise ValueError(f"modulus must be odd and at least 3, got {modulus}.")
