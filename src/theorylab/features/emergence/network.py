"""Two layers of truncated ReLUs, with noise inside that is averaged in closed form.

    g(x) = Σᵢ aᵢ E_ξ σ(⟨wᵢ, x⟩ + bᵢ + ξ),   σ(z) = min(1, max(z, 0)),   ξ ~ N(0, σ_ξ²)

    E σ(z + ξ) = r(z) − r(z − 1),   r(z) = zΦ(z/σ_ξ) + σ_ξφ(z/σ_ξ)
    d/dz of it = Φ(z/σ_ξ) − Φ((z − 1)/σ_ξ), the probability that z + ξ is in (0, 1)

Φ and φ are the normal distribution and density. The unbiased start has 2m neurons in pairs of equal
wᵢ, bᵢ and opposite aᵢ, so that g = 0 whatever x is:

    wᵢ ~ N(0, 1/k²),   bᵢ ~ N(0, 1/k⁴),   aᵢ ~ N(0, (σ̃²/(γk²))²)

Without noise a neuron whose weights were all forgotten is dead if its bias is negative; with it
every neuron has a gradient.

Source: shi · trelu-net · §2.3.1, Lemma A.6.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from theorylab.typing import RandomKey, Scalar


class TruncatedNeurons(NamedTuple):
    """All neurons: weights w, biases b and outer weights a."""

    weights: Float[Array, "*copies neurons d"]
    biases: Float[Array, "*copies neurons"]
    outer: Float[Array, "*copies neurons"]


class Scales(NamedTuple):
    """Standard deviations σ_w, σ_b, σ_a of a start."""

    weights: Scalar
    biases: Scalar
    outer: Scalar


def truncated_relu(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """σ(z) = min(1, max(z, 0)).

    Example:
        >>> truncated_relu(jnp.array([-1.0, 0.5, 2.0])).tolist()
        [0.0, 0.5, 1.0]
    """
    return jnp.clip(z, 0.0, 1.0)


@jax.jit
def smoothed_relu(z: Float[Array, "*shape"], noise: Scalar) -> Float[Array, "*shape"]:
    """E σ(z + ξ), ξ ~ N(0, σ_ξ²), for σ_ξ > 0.

    Example:
        >>> round(float(smoothed_relu(jnp.array(0.5), noise=0.1)), 4)
        0.5
    """

    def ramp(z: Array) -> Array:
        return z * norm.cdf(z / noise) + noise * norm.pdf(z / noise)

    return ramp(z) - ramp(z - 1)


@jax.jit
def opening(z: Float[Array, "*shape"], noise: Scalar) -> Float[Array, "*shape"]:
    """Pr[0 < z + ξ < 1], the derivative of the smoothed neuron.

    Example:
        >>> round(float(opening(jnp.array(0.0), noise=0.1)), 4)
        0.5
    """
    return norm.cdf(z / noise) - norm.cdf((z - 1) / noise)


@jax.jit
def preactivations(neurons: TruncatedNeurons, x: Float[Array, "n d"]) -> Float[Array, "n neurons"]:
    """⟨wᵢ, x⟩ + bᵢ.

    Example:
        >>> one = TruncatedNeurons(jnp.ones((1, 2)), jnp.full(1, 0.5), jnp.ones(1))
        >>> preactivations(one, jnp.eye(2)).tolist()
        [[1.5], [1.5]]
    """
    return x @ neurons.weights.T + neurons.biases[None, :]


@jax.jit
def outputs(neurons: TruncatedNeurons, x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
    """g(x) = Σᵢ aᵢ σ(⟨wᵢ, x⟩ + bᵢ): an `apply` without noise.

    Example:
        >>> one = TruncatedNeurons(jnp.ones((1, 2)), jnp.full(1, -0.5), jnp.full(1, 2.0))
        >>> outputs(one, jnp.eye(2)).tolist()
        [[1.0], [1.0]]
    """
    return (truncated_relu(preactivations(neurons, x)) @ neurons.outer)[:, None]


@jax.jit
def smoothed_outputs(
    neurons: TruncatedNeurons, x: Float[Array, "n d"], noise: Scalar
) -> Float[Array, "n 1"]:
    """g(x; ξ) in the mean over the noise inside, σ_ξ > 0.

    Example:
        >>> one = TruncatedNeurons(jnp.ones((1, 2)), jnp.full(1, -0.5), jnp.full(1, 2.0))
        >>> jnp.round(smoothed_outputs(one, jnp.eye(2), noise=0.1), 4).tolist()
        [[1.0], [1.0]]
    """
    return (smoothed_relu(preactivations(neurons, x), noise) @ neurons.outer)[:, None]


def start_scales(num_relevant: int, structure: float, scale: float) -> Scales:
    """σ_w = 1/k, σ_b = 1/k², σ_a = σ̃²/(γk²).

    Args:
        num_relevant: The number k of relevant patterns.
        structure: γ of the data.
        scale: σ̃ of the data.

    Example:
        >>> scales = start_scales(num_relevant=2, structure=0.25, scale=1.0)
        >>> scales.weights, scales.biases, scales.outer
        (0.5, 0.25, 1.0)
    """
    if num_relevant < 1 or not structure > 0 or not scale > 0:
        raise ValueError(
            "num_relevant, structure and scale must be positive, "
            f"got {num_relevant}, {structure} and {scale}."
        )
    k = num_relevant
    return Scales(1 / k, 1 / k**2, scale**2 / (structure * k**2))


def unbiased_start(
    key: RandomKey, num_pairs: int, dimension: int, scales: Scales
) -> TruncatedNeurons:
    """Draw m neurons, and give each a twin with the opposite outer weight.

    Args:
        key: Draws them.
        num_pairs: m, half the number of neurons.
        dimension: Of the inputs, d.
        scales: Standard deviations, such as `start_scales(5, 0.25, 5.0)`.

    Example:
        >>> start = unbiased_start(jax.random.key(0), 10, 3, Scales(1.0, 1.0, 1.0))
        >>> start.weights.shape, bool(jnp.abs(outputs(start, jnp.ones((2, 3)))).max() < 1e-9)
        ((20, 3), True)
    """
    if num_pairs < 1 or dimension < 1:
        raise ValueError(
            f"num_pairs and dimension must be at least 1, got {num_pairs} and {dimension}."
        )
    of_weights, of_biases, of_outer = jax.random.split(key, 3)
    weights = scales.weights * jax.random.normal(of_weights, (num_pairs, dimension))
    biases = scales.biases * jax.random.normal(of_biases, (num_pairs,))
    outer = scales.outer * jax.random.normal(of_outer, (num_pairs,))
    return TruncatedNeurons(
        jnp.concatenate([weights, weights]),
        jnp.concatenate([biases, biases]),
        jnp.concatenate([outer, -outer]),
    )


def first_half(neurons: TruncatedNeurons) -> TruncatedNeurons:
    """One neuron of every pair. Fixed features of twins are equal but for signs: half is enough.

    Example:
        >>> start = unbiased_start(jax.random.key(0), 10, 3, Scales(1.0, 1.0, 1.0))
        >>> first_half(start).weights.shape
        (10, 3)
    """
    half = len(neurons.biases) // 2
    return TruncatedNeurons(neurons.weights[:half], neurons.biases[:half], neurons.outer[:half])
