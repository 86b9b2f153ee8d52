"""The tangent kernel of a convolution that must find one patch among k noisy ones: what it can do.

A sample is k + 1 patches in ℝᵈ: one holds the signal y w*, ‖w*‖ = 1, the others are N(0, σ²I) with
σ = log k/√k and d = 1/σ². The tangent features of m filters with frozen gates w⁰ⱼ give classifiers

    f(X) = Σᵢ Σⱼ ⟨wⱼ, Xᵢ⟩ 1{|⟨w⁰ⱼ, Xᵢ⟩| ≥ tⱼ},    i = 1 … k + 1,

linear in the wⱼ, with thresholds tⱼ = −bⱼ that may be chosen (the source prints the sum over k
patches and lacks a bar). Let pⱼ be the part of the noise that gate j keeps, and sⱼ = 1 if it is
open for the signal, else 0. Along w* the kept noise has covariance log²k (diag(pⱼ(1 − pⱼ)) + ppᵀ),
so that the best weights (Fisher's discriminant) have the signal-to-noise ratio

    SNR² = sᵀΣ⁻¹s = (Σⱼ sⱼ/(pⱼ(1−pⱼ)) − (Σⱼ sⱼ/(1−pⱼ))²/(1 + Σⱼ pⱼ/(1−pⱼ))) / log²k

and the error Φ(−SNR). A gate just open for the signal keeps pⱼ = 2Φᶜ(|gⱼ|), gⱼ = √d⟨w⁰ⱼ, w*⟩/‖w⁰ⱼ‖,
which over random gates is uniform in (0, 1). So one gate has SNR = 1/(log k √p), and an error below
e in a part 1/(z_e log k)² of all draws, with z_e = −Φ⁻¹(e). With no gate at all, p = 1, the error
is Φ(−1/log k). So it is for thresholds tⱼ = 0, with which training begins, at every width and for
infinitely many filters, whose kernel is then ⟨Σᵢ Xᵢ, Σᵢ X′ᵢ⟩. For tⱼ > 0 that limit has no such
bound, because SNR² grows without end in m.

The features are the gradient in w of Σᵢ φ_b(⟨w, Xᵢ⟩), φ_b(z) = (z + b)₊ − (−z + b)₊, only if b ≤ 0:
for b > 0 that counts patches with |⟨w, Xᵢ⟩| < b twice. What belongs to b itself is left out.

Source: karp · lsa-cntk · 3.5, B.2, Thms 3.2, B.1; karp · lsa-linear · 3.3; karp · lsa-data · 3.3.
"""

import itertools
import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from theorylab.data.patches import noise_scale
from theorylab.typing import RandomKey, Scalar

MOST_GATES = 10  # 2¹⁰ ways to open and close them are compared
Numbers = float | int | Float[np.ndarray, "..."]
Answer = Any  # as many numbers as came in


def kept_part(projection: Numbers) -> Answer:
    """2Φᶜ(|g|): the part of the noise that a gate keeps if it is just open for the signal.

    Example: a gate at g = 0 keeps all noise, one at g = 1 keeps 2Φᶜ(1) of it.
        >>> float(kept_part(0.0)), round(float(kept_part(1.0)), 4)
        (1.0, 0.3173)
    """
    return 2 * special.ndtr(-np.abs(projection))


def signal_to_noise(
    kept: Float[np.ndarray, "... m"], opened: Float[np.ndarray, "... m"], num_patches: Numbers
) -> Answer:
    """SNR of the best weights behind given gates.

    Args:
        kept: pⱼ in (0, 1), the part of the noise that each gate keeps.
        opened: sⱼ, 1 for gates that are open for the signal and 0 for others.
        num_patches: k.

    Example: one gate has SNR = 1/(log k √p).
        >>> snr = signal_to_noise(np.array([0.25]), np.array([1.0]), num_patches=100)
        >>> round(float(snr * np.log(100)), 6)
        2.0
    """
    p, s = kept, opened
    if not (np.all(p > 0) and np.all(p < 1)):
        raise ValueError("kept parts must be in (0, 1).")
    shared = np.sum(s / (1 - p), axis=-1) ** 2 / (1 + np.sum(p / (1 - p), axis=-1))
    square = np.sum(s / (p * (1 - p)), axis=-1) - shared
    return np.sqrt(np.maximum(square, 0.0)) / np.log(num_patches)


def open_error(kept: Float[np.ndarray, "... m"], num_patches: Numbers) -> Answer:
    """Φ(−SNR) where every gate is just open for the signal.

    Example: one gate that keeps a quarter of the noise, Φ(−2/log 100).
        >>> round(float(open_error(np.array([0.25]), num_patches=100)), 4)
        0.332
    """
    return special.ndtr(-signal_to_noise(kept, np.ones_like(kept), num_patches))


def single_gate_error(projection: Numbers, num_patches: Numbers) -> Answer:
    """Φ(−SNR) behind one gate that is just open, with its angle to the signal.

    In d = 1/σ² dimensions the gate has the cosine c = g/√d with w*, and along itself the noise that
    it keeps has v = 1 + gφ(g)/Φᶜ(g) times the variance, so that

        SNR² = (1 − c² + c²/v)/(p log²k).

    Example: a gate at g = 0 keeps all noise: Φ(−1/log k), as without any gate.
        >>> round(float(single_gate_error(0.0, num_patches=100)), 4)
        0.414
    """
    g, logarithm = np.abs(projection), np.log(num_patches)
    cosine_square = g**2 * logarithm**2 / num_patches
    if np.max(cosine_square) >= 1:
        raise ValueError("projection must be below √k/log k, the length √d.")
    density = np.exp(-(g**2) / 2) / math.sqrt(2 * math.pi)
    inflation = 1 + g * density / special.ndtr(-g)
    square = (1 - cosine_square + cosine_square / inflation) / kept_part(g)
    return special.ndtr(-np.sqrt(square) / logarithm)


def best_error(kept: Float[np.ndarray, "... m"], num_patches: Numbers) -> Answer:
    """The least Φ(−SNR) if each gate may just miss the signal instead, at the same kept noise.

    A closed gate carries noise alone, which helps to cancel that of the others.

    Example: closing a gate that keeps nearly all noise is better than opening it.
        >>> kept = np.array([0.1, 0.9])
        >>> bool(best_error(kept, num_patches=100) < open_error(kept, num_patches=100))
        True
    """
    m = kept.shape[-1]
    if m > MOST_GATES:
        raise ValueError(f"best_error needs at most {MOST_GATES} gates, got {m}.")
    best = np.zeros(kept.shape[:-1])
    for choice in itertools.product((0.0, 1.0), repeat=m):
        opened = np.broadcast_to(np.array(choice), kept.shape)
        best = np.maximum(best, signal_to_noise(kept, opened, num_patches))
    return special.ndtr(-best)


def logarithm_for_failure(probability: Numbers, error: float) -> Answer:
    """The log k from which on one gate has less than that error in at most such a part of draws.

    1/(z √probability), with z = −Φ⁻¹(error).

    Example:
        >>> round(float(logarithm_for_failure(0.001, error=0.1)), 1)
        24.7
    """
    if not 0 < error < 0.5:
        raise ValueError(f"error must be in (0, 0.5), got {error}.")
    return -1 / (special.ndtri(error) * np.sqrt(probability))


def soft_threshold(
    inputs: Float[Array, "..."], bias: Scalar | Float[Array, ""]
) -> Float[Array, "..."]:
    """φ_b(z) = (z + b)₊ − (−z + b)₊.

    Example:
        >>> soft_threshold(jnp.array([-3.0, -0.5, 0.5, 3.0]), bias=-1.0).tolist()
        [-2.0, 0.0, 0.0, 2.0]
    """
    return jax.nn.relu(inputs + bias) - jax.nn.relu(bias - inputs)


@jax.jit
def gated_features(
    gate: Float[Array, " d"], bias: Scalar, x: Float[Array, "n patches d"]
) -> Float[Array, "n d"]:
    """Σᵢ Xᵢ 1{|⟨w⁰, Xᵢ⟩| + b ≥ 0} of every sample, for one gate.

    Example: of two patches, the gate keeps the one with |⟨w⁰, X⟩| ≥ 1.
        >>> x = jnp.array([[[3.0, 1.0], [0.5, 2.0]]])
        >>> gated_features(jnp.array([1.0, 0.0]), -1.0, x).tolist()
        [[3.0, 1.0]]
    """
    kept = (jnp.abs(x @ gate) + bias >= 0).astype(x.dtype)
    return jnp.einsum("np,npd->nd", kept, x)


@jax.jit
def tangent_features(
    weights: Float[Array, " d"], bias: Scalar, x: Float[Array, "n patches d"]
) -> Float[Array, "n d"]:
    """The gradient in w of Σᵢ φ_b(⟨w, Xᵢ⟩), sample by sample, by autodiff.

    Example: they are the features of `gated_features`, because b ≤ 0.
        >>> x = jnp.array([[[3.0, 1.0], [0.5, 2.0]]])
        >>> tangent_features(jnp.array([1.0, 0.0]), -1.0, x).tolist()
        [[3.0, 1.0]]
    """

    def output(weights: Array, patches: Array) -> Array:
        return jnp.sum(soft_threshold(patches @ weights, bias))

    return jax.vmap(jax.grad(output), in_axes=(None, 0))(weights, x)


@partial(jax.jit, static_argnums=(3, 4))
def sampled_features(
    key: RandomKey,
    gates: Float[Array, "m d"],
    thresholds: Float[Array, " m"],
    num_patches: int,
    num_samples: int,
) -> Float[Array, "samples m d"]:
    """Σᵢ Xᵢ 1{|⟨w⁰ⱼ, Xᵢ⟩| ≥ tⱼ} of samples with y = 1, and w* along the first axis.

    Samples with y = −1 have the same features with the other sign. Directions that no gate and not
    w* has may be left out: they carry noise alone.

    Example: without thresholds, every gate gives the sum of all patches.
        >>> key, gates = jax.random.key(0), jnp.eye(2)
        >>> features = sampled_features(key, gates, jnp.zeros(2), 4, 3)
        >>> features.shape, bool(jnp.allclose(features[:, 0], features[:, 1]))
        ((3, 2, 2), True)
    """
    num_inputs = gates.shape[1]
    signal = jnp.eye(num_inputs)[0]
    # A gate whose threshold is the signal's own projection is open, whatever the rounding.
    opened = jnp.abs(gates @ signal) >= thresholds * (1 - 1e-6)

    turned, least = gates.astype(jnp.float32).T, thresholds.astype(jnp.float32)

    def one(key: RandomKey) -> Float[Array, "m d"]:
        noise = noise_scale(num_patches) * _normal(key, (num_patches, num_inputs))
        kept = jnp.abs(noise @ turned) >= least[None, :]
        kept_noise = kept.astype(noise.dtype).T @ noise
        return kept_noise + jnp.where(opened[:, None], signal[None, :], 0.0)

    return jax.lax.map(one, jax.random.split(key, num_samples), batch_size=64)


def discriminant_error(features: Float[np.ndarray, "samples p"]) -> float:
    """Fit Fisher's discriminant to one half of samples with y = 1, count errors on the other.

    Example: fitted to 1 and 2, it is right about 1 and wrong about −1.
        >>> discriminant_error(np.array([[1.0], [2.0], [1.0], [-1.0]]))
        0.5
    """
    half = len(features) // 2
    fitted, fresh = features[:half], features[half:]
    spread = np.cov(fitted, rowvar=False).reshape(features.shape[1], -1)
    weights = np.linalg.lstsq(spread, fitted.mean(axis=0), rcond=1e-10)[0]
    return float(np.mean(fresh @ weights <= 0))


def fitted_error(error: Numbers, num_features: int, num_fitted: int) -> Answer:
    """The error of Fisher's discriminant if it is fitted to n samples in p dimensions, not known.

    With δ = −Φ⁻¹(error), mean and covariance from samples cost Φ(−δ²√(1 − p/n)/√(δ² + p/n)), for
    Gaussian features and large p and n (Raudys).

    Args:
        error: That of the best weights.
        num_features: p.
        num_fitted: n, more than p.

    Example:
        >>> round(float(fitted_error(0.25, num_features=72, num_fitted=750)), 3)
        0.28
    """
    if not 0 < num_features < num_fitted:
        raise ValueError(f"num_fitted must be above {num_features}, got {num_fitted}.")
    square, ratio = special.ndtri(error) ** 2, num_features / num_fitted
    return special.ndtr(-square * np.sqrt(1 - ratio) / np.sqrt(square + ratio))


@partial(jax.jit, static_argnums=(2, 3))
def soft_threshold_outputs(
    key: RandomKey, ratio: Scalar, num_patches: int, num_samples: int, signal: Scalar = 1.0
) -> Float[Array, " samples"]:
    """Σᵢ φ(⟨w*, Xᵢ⟩) with φ(z) = (z − r)₊ − (−z − r)₊, for y = 1: one learned filter.

    Args:
        key: Of the noise.
        ratio: r = |b|/‖w‖, the threshold.
        num_patches: k.
        num_samples: How many samples.
        signal: ⟨w*, Xᵢ⟩ of the signal patch, 0 if it is left out.

    Example: among 10,000 patches no noise reaches a threshold of ¾; the signal leaves 1 − ¾.
        >>> soft_threshold_outputs(jax.random.key(0), 0.75, 10_000, 2).tolist()
        [0.25, 0.25]
    """

    def one(key: RandomKey) -> Float[Array, ""]:
        noise = noise_scale(num_patches) * _normal(key, (num_patches,))
        patch = jnp.asarray(signal, noise.dtype)
        return jnp.sum(soft_threshold(noise, -ratio)) + soft_threshold(patch, -ratio)

    return jax.lax.map(one, jax.random.split(key, num_samples), batch_size=256)


def _normal(key: RandomKey, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Standard normal numbers in single precision: plenty for noise, and half of the time."""
    return jax.random.normal(key, shape, dtype=jnp.float32)
