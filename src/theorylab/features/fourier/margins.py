"""Margins of a polynomial network on all pᵏ sums, and what bounds them from above.

    g(θ, a) = f[c] - max_{c′≠c} f[c′]                  margin of one example, c the right sum
    h(θ) = min_a g(θ, a),   h(θ)/‖θ‖ᵏ⁺¹                least margin, and normalised
    g′(θ, a) = f[c] - Σ_{c′≠c} f[c′]/(p - 1) ≥ g       margin against the average of the others

The mean of g′ over all examples needs no examples. With the discrete Fourier transform
û(j) = Σ_a u(a) e^{-2πi ja/p},

    E g′ = k!/((p - 1)pᵏ) Σᵢ Σ_{j≠0} ŵᵢ(-j) ∏ₗ ûᵢₗ(j),

where p/(p - 1) is 1 + 1/(p - 1) (the source's proof prints 1 - 1/(p - 1)). Since

    h ≤ E g ≤ E g′ ≤ γ*‖θ‖ᵏ⁺¹,

E g′ is a certificate: no network has a larger least margin, and where the ends meet, all examples
have one margin. In a stationary pair the network maximises E_q g and the law q minimises it (the
source prints arg min for both).

Source: shi · margins · Defs 4.2–4.6, Lemmas C.5, C.6; shi · max-margin-value · Lemma C.10.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Int

from theorylab.data.modular import num_sums, numbered_sums

from .polynomial import PolynomialNeurons, group_norm, polynomial_network

_CHUNK = 4096  # examples that are looked at together


def margin(outputs: Float[Array, "n p"], total: Int[Array, " n"]) -> Float[Array, " n"]:
    """g, how far the right output is above the best of the others, by example.

    Example:
        >>> margin(jnp.array([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0]]), jnp.array([0, 1])).tolist()
        [1.0, -2.0]
    """
    right, others = _apart(outputs, total)
    return right - jnp.where(others, outputs, -jnp.inf).max(axis=1)


def weighted_margin(outputs: Float[Array, "n p"], total: Int[Array, " n"]) -> Float[Array, " n"]:
    """g′, how far the right output is above the average of the others, by example.

    Example:
        >>> weighted_margin(jnp.array([[3.0, 1.0, 2.0]]), jnp.array([0])).tolist()
        [1.5]
    """
    right, others = _apart(outputs, total)
    return right - jnp.where(others, outputs, 0.0).sum(axis=1) / (outputs.shape[1] - 1)


def least_margin(params: PolynomialNeurons) -> Float[Array, ""]:
    """h(θ), over all pᵏ examples, some thousands at a time.

    Example:
        >>> from theorylab.features.fourier import maximum_margin_network
        >>> bool(least_margin(maximum_margin_network(num_terms=2, modulus=3)) > 0)
        True
    """
    num_terms, modulus, _ = params.inputs.shape
    count = num_sums(num_terms, modulus)
    size = min(count, _CHUNK)

    def least(first: Int[Array, ""]) -> Float[Array, ""]:
        sums = numbered_sums(first + jnp.arange(size), num_terms, modulus)
        return margin(polynomial_network(params, sums.terms), sums.total).min()

    # The last chunk may overlap the one before.
    firsts = jnp.minimum(jnp.arange(0, count, size), count - size)
    return jax.lax.map(least, firsts).min()


def normalized_margin(params: PolynomialNeurons) -> Float[Array, ""]:
    """h(θ)/‖θ‖ᵏ⁺¹, the least margin of the network scaled to norm 1.

    Example:
        >>> from theorylab.features.fourier import maximum_margin, maximum_margin_network
        >>> found = normalized_margin(maximum_margin_network(num_terms=2, modulus=3))
        >>> round(float(found) / maximum_margin(2, 3), 6)
        1.0
    """
    return least_margin(params) / group_norm(params) ** (params.inputs.shape[0] + 1)


def average_margin(params: PolynomialNeurons) -> Float[Array, ""]:
    """E g′ over all pᵏ examples, by Fourier transforms of the weights.

    Example:
        >>> from theorylab.features.fourier import cosine_neuron, maximum_margin
        >>> neuron = cosine_neuron(5, frequency=1, phases=(0.3, 0.7))
        >>> round(float(average_margin(neuron)) / maximum_margin(2, 5), 6)
        1.0
    """
    num_terms, modulus, _ = params.inputs.shape
    return diagonal_spectrum(params).real.sum() / ((modulus - 1) * modulus**num_terms)


def diagonal_spectrum(params: PolynomialNeurons) -> Complex[Array, " f"]:
    """f̂(j, …, j, -j) for j = 1 … p - 1: k! Σᵢ ŵᵢ(-j) ∏ₗ ûᵢₗ(j), with no other part of (Σₗ uᵢₗ)ᵏ.

    Where all outputs but the right one are equal, λ below it, each is λpᵏ: every frequency is used.

    Source: shi · max-margin-net · Lemma C.20.

    Example:
        >>> from theorylab.features.fourier import maximum_margin_network
        >>> found = diagonal_spectrum(maximum_margin_network(num_terms=2, modulus=5))
        >>> bool(jnp.allclose(found, found[0]))
        True
    """
    by_term = jnp.fft.fft(params.inputs, axis=1).prod(axis=0)
    # The transform of real weights at -j is the conjugate of that at j.
    products = by_term * jnp.fft.fft(params.output, axis=0).conj()
    return math.factorial(params.inputs.shape[0]) * products[1:].sum(axis=1)


def function_spectrum(params: PolynomialNeurons) -> Complex[Array, "..."]:
    """f̂(j₁, …, j_k, j) of f(a₁, …, a_k)[c] as a function of k + 1 numbers; pᵏ⁺¹ entries.

    Example:
        >>> from theorylab.features.fourier import cosine_neuron
        >>> function_spectrum(cosine_neuron(5, frequency=1, phases=(0.3, 0.7))).shape
        (5, 5, 5)
    """
    num_terms, modulus, _ = params.inputs.shape
    numbers = jnp.arange(num_sums(num_terms, modulus))
    outputs = polynomial_network(params, numbered_sums(numbers, num_terms, modulus).terms)
    # One axis after the other: XLA transforms at most three at once.
    values = outputs.reshape((modulus,) * (num_terms + 1)).astype(complex)
    for axis in range(num_terms + 1):
        values = jnp.fft.fft(values, axis=axis)
    return values


def _apart(outputs: Array, total: Array) -> tuple[Array, Array]:
    """The right outputs, and where the others are."""
    right = jnp.take_along_axis(outputs, total[:, None], axis=1)[:, 0]
    others = jnp.arange(outputs.shape[1])[None, :] != total[:, None]
    return right, others
