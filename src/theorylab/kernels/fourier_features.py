"""Fourier features: coordinates as waves, so that a network's kernel knows only their difference.

    γ(x) = [cos 2πBx, sin 2πBx]         B: (M, d), a frequency in every row

    basic         B = b·1, one wave of frequency b along every axis
    positional    along every axis σ^(j/M), j = 0 … M − 1
    Gaussian      entries drawn from N(0, σ²)

Every γ(x) has length √M, and γ(x)ᵀγ(x′) = Σⱼ cos 2πBⱼᵀ(x − x′): a kernel of angles between inputs
becomes one of translations. In one dimension, with the basic embedding, it is the zonal kernel of
the circle at the angle 2πb(x − x′): its k-th eigenvalue belongs to the frequency kb, and at every
frequency that b does not divide there is none.

    K(x − x′) = λ₀ + 2 Σₖ λₖ cos 2πkb(x − x′)

Source: golikov · ntk-spectral-bias · 2.6.2, Eqs 2.106–2.114; Tancik et al. (2020),
arXiv:2006.10739.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import RandomKey, Scalar


def fourier_features(
    x: Float[Array, "n d"], frequencies: Float[Array, "m e"]
) -> Float[Array, "n 2*m"]:
    """γ(x) = [cos 2πBx, sin 2πBx].

    Args:
        x: Coordinates, most often in [0, 1].
        frequencies: B, a frequency in every row.

    Example:
        >>> fourier_features(jnp.array([[0.0]]), basic_frequencies(1)).tolist()
        [[1.0, 0.0]]
    """
    if x.shape[1] != frequencies.shape[1]:
        raise ValueError(
            f"frequencies must have as many columns as x, {x.shape[1]}, got {frequencies.shape[1]}."
        )
    phases = 2 * jnp.pi * x @ frequencies.T
    return jnp.concatenate([jnp.cos(phases), jnp.sin(phases)], axis=1)


def basic_frequencies(num_coordinates: int, scale: Scalar = 1) -> Float[Array, "d d"]:
    """Frequency b along every axis; for a natural b the kernel has period 1 along each.

    Example:
        >>> basic_frequencies(2, scale=3).tolist()
        [[3.0, 0.0], [0.0, 3.0]]
    """
    return scale * jnp.eye(num_coordinates)


def positional_frequencies(
    num_coordinates: int, num_frequencies: int, sigma: Scalar
) -> Float[Array, "m d"]:
    """σ^(j/M) for j = 0 … M − 1 along every axis: from 1 to nearly σ, evenly in their logarithms.

    Args:
        num_coordinates: d.
        num_frequencies: M, along every axis.
        sigma: σ, the largest frequency, which is left out.

    Example:
        >>> positional_frequencies(1, 2, 16.0)[:, 0].tolist()
        [1.0, 4.0]
    """
    if num_frequencies < 1:
        raise ValueError(f"num_frequencies must be at least 1, got {num_frequencies}.")
    ladder = jnp.asarray(sigma, float) ** (jnp.arange(num_frequencies) / num_frequencies)
    return jnp.kron(jnp.eye(num_coordinates), ladder[:, None])


def gaussian_frequencies(
    key: RandomKey, num_coordinates: int, num_frequencies: int, sigma: Scalar
) -> Float[Array, "m d"]:
    """M frequencies in random directions, with entries from N(0, σ²).

    Example: a thousand frequencies whose standard deviation is about σ.
        >>> frequencies = gaussian_frequencies(jax.random.key(0), 1, 1000, sigma=10.0)
        >>> frequencies.shape, bool(9.0 < frequencies.std() < 11.0)
        ((1000, 1), True)
    """
    if num_frequencies < 1:
        raise ValueError(f"num_frequencies must be at least 1, got {num_frequencies}.")
    return sigma * jax.random.normal(key, (num_frequencies, num_coordinates))


def stretched_spectrum(eigenvalues: Float[Array, " k"], factor: int) -> Float[Array, " kb"]:
    """What the basic embedding of frequency b does: λₖ moves to the frequency kb, others are 0.

    Args:
        eigenvalues: λₖ of the circle's kernel, from k = 0.
        factor: b, a natural number.

    Example:
        >>> stretched_spectrum(jnp.array([3.0, 2.0, 1.0]), 2).tolist()
        [3.0, 0.0, 2.0, 0.0, 1.0]
    """
    if factor < 1:
        raise ValueError(f"factor must be at least 1, got {factor}.")
    length = (len(eigenvalues) - 1) * factor + 1
    return jnp.zeros(length, eigenvalues.dtype).at[::factor].set(eigenvalues)
