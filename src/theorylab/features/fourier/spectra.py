"""Which frequencies trained weights have: of neurons, of attention, and how evenly they are used.

With û(j) = Σ_a u(a) e^{-2πi ja/p}, a vector of real weights has the powers |û(j)|² at the
frequencies j = 1 … (p - 1)/2; those at p - j are equal and are not counted again, and the mean
(j = 0) is left out and reported apart. So

    concentration = max_j |û(j)|² / Σ_j |û(j)|²

is 1 for a cosine, whatever is added to it as a constant. The phase of A cos(φ + 2πζa/p) is that of
û(ζ). A neuron is *live* if its norm is at least a tenth of the largest; dead ones have spectra too,
but say nothing.

Attention scores between p tokens are a matrix with frequencies (j₁, j₂). Both signs of each count
as one frequency, so that cos(2πj₁a/p + φ) cos(2πj₂b/p + ψ) has concentration 1, as has
cos(2π(j₁a + j₂b)/p + φ).

Source: shi · fourier-meters · §4.5.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy import special

from theorylab.numerics import HypothesisTest

from .polynomial import PolynomialNeurons, neuron_norms

LIVE = 0.1  # the least norm of a live neuron, as a part of the largest


class NeuronSpectra(NamedTuple):
    """What the k + 1 vectors of every neuron look like; the last vector is that of the output.

    Args:
        live: Whether a neuron's norm is at least a tenth of the largest.
        frequency: The neuron's frequency ζ, that of the largest power of all its vectors together.
        concentration: The part of each vector's power that is at its own strongest frequency.
        same: Whether the strongest frequency of every vector is ζ.
        phase: The phases at ζ.
        residual: |Σⱼφⱼ - φ_w| modulo 2π, from 0 to π: 0 for a neuron of maximum margin.
        mean_share: The part of each vector's squared length that is in its mean.
    """

    live: Bool[Array, " m"]
    frequency: Int[Array, " m"]
    concentration: Float[Array, "v m"]
    same: Bool[Array, " m"]
    phase: Float[Array, "v m"]
    residual: Float[Array, " m"]
    mean_share: Float[Array, "v m"]


def power(weights: Float[Array, "... p"]) -> Float[Array, "... f"]:
    """|û(j)|² for j = 1 … (p - 1)/2, of vectors along the last axis.

    Example:
        >>> jnp.round(power(jnp.cos(2 * jnp.pi * 2 * jnp.arange(5) / 5)), 4).tolist()
        [0.0, 6.25]
    """
    modulus = weights.shape[-1]
    if modulus < 3 or modulus % 2 == 0:
        raise ValueError(f"modulus must be odd and at least 3, got {modulus}.")
    return jnp.abs(jnp.fft.fft(weights, axis=-1)[..., 1 : (modulus + 1) // 2]) ** 2


def concentration(weights: Float[Array, "... p"]) -> Float[Array, "..."]:
    """The part of the power, without the mean's, that is at the strongest frequency.

    Example:
        >>> round(float(concentration(jnp.cos(2 * jnp.pi * jnp.arange(5) / 5))), 4)
        1.0
    """
    powers = power(weights)
    return powers.max(axis=-1) / powers.sum(axis=-1)


def neuron_spectra(params: PolynomialNeurons) -> NeuronSpectra:
    """The frequencies and phases of all neurons.

    Example:
        >>> from theorylab.features.fourier import cosine_neuron
        >>> spectra = neuron_spectra(cosine_neuron(7, frequency=2, phases=(0.3, 0.7)))
        >>> spectra.frequency.tolist(), spectra.same.tolist()
        ([2], [True])
    """
    vectors = jnp.concatenate([params.inputs, params.output[None]]).transpose(0, 2, 1)
    powers = power(vectors)
    transforms = jnp.fft.fft(vectors, axis=-1)
    frequency = powers.sum(axis=0).argmax(axis=-1) + 1
    phase = jnp.angle(jnp.take_along_axis(transforms, frequency[None, :, None], axis=-1)[..., 0])
    turned = phase[:-1].sum(axis=0) - phase[-1]
    norms = neuron_norms(params)
    return NeuronSpectra(
        live=norms >= LIVE * norms.max(),
        frequency=frequency,
        concentration=powers.max(axis=-1) / powers.sum(axis=-1),
        same=(powers.argmax(axis=-1) + 1 == frequency[None, :]).all(axis=0),
        phase=phase,
        residual=jnp.abs(jnp.angle(jnp.exp(1j * turned))),
        mean_share=vectors.mean(axis=-1) ** 2 / (vectors**2).mean(axis=-1),
    )


def frequency_counts(spectra: NeuronSpectra, modulus: int) -> Int[Array, " f"]:
    """How many live neurons have each of the frequencies 1 … (p - 1)/2.

    Example:
        >>> from theorylab.features.fourier import maximum_margin_network
        >>> spectra = neuron_spectra(maximum_margin_network(num_terms=2, modulus=5))
        >>> frequency_counts(spectra, 5).tolist()
        [8, 8]
    """
    frequencies = jnp.arange(1, (modulus + 1) // 2)
    chosen = (spectra.frequency[:, None] == frequencies[None, :]) & spectra.live[:, None]
    return chosen.sum(axis=0)


def coverage(counts: Int[Array, " f"]) -> Float[Array, ""]:
    """The part of all frequencies that some neuron has.

    Example:
        >>> float(coverage(jnp.array([3, 0, 1, 2])))
        0.75
    """
    return (counts > 0).mean()


def uniformity(counts: Int[Array | np.ndarray, " f"]) -> HypothesisTest:
    """Pearson's χ² against equally many neurons at all frequencies, and its p-value.

    The p-value is that of independent neurons, and is good from about five for each frequency on.

    Args:
        counts: How many neurons have each frequency, two frequencies or more.

    Example:
        >>> test = uniformity(np.array([10, 20, 30]))
        >>> test.statistic, round(test.p_value, 6)
        (10.0, 0.006738)
    """
    observed = np.asarray(counts, dtype=float)
    if len(observed) < 2 or observed.sum() == 0:
        raise ValueError(f"counts must be of two frequencies or more, and not all 0, got {counts}.")
    if observed.min() < 0:
        raise ValueError(f"counts must be at least 0, got {counts}.")
    expected = observed.mean()
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return HypothesisTest(statistic, float(special.chdtrc(len(observed) - 1, statistic)))


def interpolated(weights: Float[Array, " p"], points: Float[Array, " t"]) -> Float[Array, " t"]:
    """The curve of lowest frequencies through p weights, at any points of [0, p).

    Args:
        weights: u(0), …, u(p - 1), an odd number.
        points: Where to evaluate it.

    Example:
        >>> interpolated(jnp.array([1.0, 2.0, 4.0]), jnp.array([0.0, 2.0])).round(6).tolist()
        [1.0, 4.0]
    """
    modulus = len(weights)
    if modulus % 2 == 0:
        raise ValueError(f"modulus must be odd for one curve through the weights, got {modulus}.")
    frequencies = jnp.arange((modulus + 1) // 2)
    angles = 2 * jnp.pi * points[:, None] * frequencies[None, :] / modulus
    half = jnp.fft.fft(weights)[: (modulus + 1) // 2] * jnp.where(frequencies == 0, 1.0, 2.0)
    return (half[None, :] * jnp.exp(1j * angles)).real.sum(axis=1) / modulus


def attention_power(scores: Float[Array, "... p p"]) -> Float[Array, "... f f"]:
    """|Â(j₁, j₂)|² added over signs, for j₁, j₂ = 0 … (p - 1)/2; that of the mean (0, 0) is 0.

    Args:
        scores: Of tokens with tokens, (…, p, p).

    Example:
        >>> attention_power(jnp.eye(3)).round(4).tolist()
        [[0.0, 0.0], [0.0, 18.0]]
    """
    modulus = scores.shape[-1]
    if modulus < 3 or modulus % 2 == 0:
        raise ValueError(f"modulus must be odd and at least 3, got {modulus}.")
    powers = jnp.abs(jnp.fft.fft2(scores)) ** 2
    frequencies, columns = jnp.arange((modulus + 1) // 2)[:, None], jnp.arange(modulus)[None, :]
    same = (columns == frequencies) | (columns == modulus - frequencies)
    powers = jnp.einsum("jp,...pq,kq->...jk", same, powers, same)
    return powers.at[..., 0, 0].set(0.0)


def attention_concentration(scores: Float[Array, "... p p"]) -> Float[Array, "..."]:
    """The part of the power, without the mean's, that is at the strongest pair of frequencies.

    Example:
        >>> round(float(attention_concentration(jnp.eye(3))), 4)
        1.0
    """
    powers = attention_power(scores)
    return powers.max(axis=(-1, -2)) / powers.sum(axis=(-1, -2))
