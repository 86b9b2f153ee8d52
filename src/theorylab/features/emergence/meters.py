"""Meters of emerging features: what a gradient is made of, where weights point, what counts allow.

The gradient of neuron i has a part along every pattern,

    ∇_{wᵢ} L = −aᵢ Σⱼ Mⱼ Tⱼ,   Tⱼ = E[y φⱼ · Pr(neuron open)]
    signal: the mean of Tⱼ over j ∈ A;   noise: the root mean square of Tⱼ over j ∉ A

In theory the signal is βγ/σ̃, and the noise vanishes with n. On n samples, with the neuron open with
probability o(x), noise over signal is at least about

    √(p_o(1 − p_o)/n) · √E[o²]/(γ E[o])

which is 2/√n at γ = ¼, p_o = ½, if the neuron is open for all inputs alike, as it is after the
weights were forgotten.

A classifier of the count s with c changes of sign along s = 0 … k has at most the accuracy of
`threshold_ceiling`; c = 1 is a threshold, the best that is linear. In five patterns of the fair
parity mixture it is 27/32, with three changes 59/64.

Source: shi · emergence-meters · §2.5, A.7; shi · exp-parity-six · Table A.1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Int

from theorylab.data import CountLaw
from theorylab.typing import Scalar

_TINY = 1e-30  # weights of the theory's first step have squares of 1e-20


class GradientParts(NamedTuple):
    """Signal and noise in every neuron's gradient."""

    signal: Float[Array, " neurons"]
    noise: Float[Array, " neurons"]


def gradient_parts(
    gradient: Float[Array, "neurons patterns"], outer: Float[Array, " neurons"], num_relevant: int
) -> GradientParts:
    """Take gradients apart, in the coordinates of the dictionary.

    Args:
        gradient: ∇_w L.
        outer: a, of the same neurons.
        num_relevant: The number k of relevant patterns, which come first.

    Example:
        >>> parts = gradient_parts(jnp.array([[-2.0, -2.0, 0.0]]), jnp.ones(1), num_relevant=2)
        >>> parts.signal.tolist(), parts.noise.tolist()
        ([2.0], [0.0])
    """
    parts = -gradient / outer[:, None]
    signal = parts[:, :num_relevant].mean(axis=1)
    return GradientParts(signal, jnp.sqrt((parts[:, num_relevant:] ** 2).mean(axis=1)))


def sampling_floor(
    opened: Float[Array, "n neurons"],
    structure: Scalar,
    other_probability: Scalar,
    num_samples: int,
) -> Float[Array, " neurons"]:
    """√(p_o(1 − p_o)/n) · √E[o²]/(γ E[o]): noise over signal that n samples cannot avoid.

    Args:
        opened: How open every neuron is at some inputs, o(x).
        structure: γ of the data.
        other_probability: p_o.
        num_samples: n.

    Example:
        >>> opened = jnp.ones((5, 1))
        >>> sampling_floor(opened, structure=0.25, other_probability=0.5, num_samples=100).tolist()
        [0.2]
    """
    p = other_probability
    spread = jnp.sqrt((opened**2).mean(axis=0)) / opened.mean(axis=0)
    return jnp.sqrt(p * (1 - p) / num_samples) / structure * spread


def cosines(
    weights: Float[Array, "neurons d"],
    direction: Float[Array, " d"],
    outside: Float[Array, " neurons"] | None = None,
) -> Float[Array, " neurons"]:
    """cos(wᵢ, v); 0 for weights that are 0.

    Args:
        weights: w, or their coordinates in a dictionary.
        direction: v, in the same coordinates.
        outside: The squared length of what w has outside of the dictionary.

    Example:
        >>> cosines(jnp.array([[2.0, 0.0], [0.0, 0.0]]), jnp.array([1.0, 0.0])).tolist()
        [1.0, 0.0]
    """
    largest = jnp.maximum(jnp.abs(weights).max(axis=1), _TINY)
    scaled = weights / largest[:, None]  # so that no square underflows
    squares = (scaled**2).sum(axis=1)
    if outside is not None:
        squares = squares + outside / largest**2
    lengths = jnp.sqrt(jnp.maximum(squares, _TINY))
    return scaled @ direction / (lengths * jnp.linalg.norm(direction))


def largest_cosines(
    weights: Float[Array, "neurons d"], directions: Float[Array, "targets d"]
) -> Float[Array, " targets"]:
    """maxᵢ cos(wᵢ, v) for every direction v: how well the neurons cover them.

    Example:
        >>> largest_cosines(jnp.array([[2.0, 0.0], [0.0, -1.0]]), jnp.eye(2)).tolist()
        [1.0, 0.0]
    """
    return jax.vmap(lambda direction: cosines(weights, direction).max())(directions)


def relevant_direction(num_patterns: int, num_relevant: int) -> Float[Array, " patterns"]:
    """Σ_{j∈A} Mⱼ in the coordinates of the dictionary.

    Example:
        >>> relevant_direction(num_patterns=4, num_relevant=2).tolist()
        [1.0, 1.0, 0.0, 0.0]
    """
    return jnp.zeros(num_patterns).at[:num_relevant].set(1.0)


def expected_largest_cosine(num_vectors: int, dimension: int) -> float:
    """E max cos(wᵢ, v) over m random directions: z/√d, with the mean z of the largest of m normals.

    By the quantile z ≈ Φ⁻¹((m − π/8)/(m − π/4 + 1)), right within 1 % for m of some ten or more.

    Example:
        >>> float(round(expected_largest_cosine(num_vectors=100, dimension=400), 3))
        0.125
    """
    m = num_vectors
    return float(norm.ppf((m - np.pi / 8) / (m - np.pi / 4 + 1))) / np.sqrt(dimension)


def cosine_map(
    weights: Float[np.ndarray, "vectors d"], num_axes: int = 2
) -> Float[np.ndarray, "vectors axes"]:
    """Classical scaling: points in the plane whose distances are like 1 − cos(wᵢ, wⱼ).

    Args:
        weights: Vectors; those of length 0 are at distance 1 from all.
        num_axes: Of the map.

    Example:
        >>> cosine_map(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])).shape
        (3, 2)
    """
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    units = weights / np.maximum(lengths, _TINY)
    distances = 1 - units @ units.T
    np.fill_diagonal(distances, 0.0)
    squares = distances**2
    centred = squares - squares.mean(axis=0, keepdims=True)
    centred = -0.5 * (centred - centred.mean(axis=1, keepdims=True))
    values, vectors = np.linalg.eigh(centred)
    top = slice(None, -num_axes - 1, -1)
    return vectors[:, top] * np.sqrt(np.maximum(values[top], 0.0))


def weight_maps(
    weights: Float[np.ndarray, "stages neurons d"], num_relevant: int
) -> Float[np.ndarray, "stages vectors 2"]:
    """The weights of all neurons in the plane at every stage, and in the last rows ±Σ_{j∈A} Mⱼ.

    Args:
        weights: w in the coordinates of the dictionary, or of a space around it.
        num_relevant: The number k of relevant patterns, which come first.

    Example:
        >>> weight_maps(np.ones((2, 3, 4)), num_relevant=2).shape
        (2, 5, 2)
    """
    target = np.zeros((1, weights.shape[2]))
    target[0, :num_relevant] = 1.0
    return np.stack([cosine_map(np.concatenate([each, target, -target])) for each in weights])


def silhouette(vectors: Float[Array, "m d"], members: Int[Array, " m"]) -> Float[Array, ""]:
    """The mean of (b − a)/max(a, b): a, b the mean 1 − cos to the own and to the other cluster.

    Near 1 for two tight clusters, near 0 where there are none.

    Args:
        vectors: Directions, of any length but 0.
        members: Which of two clusters each belongs to, 0 or 1. One alone in its cluster counts 0.

    Example:
        >>> vectors = jnp.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> float(silhouette(vectors, jnp.array([0, 0, 1, 1])))
        1.0
    """
    unit = vectors / jnp.maximum(jnp.linalg.norm(vectors, axis=1), _TINY)[:, None]
    distances = (1 - unit @ unit.T) * (1 - jnp.eye(len(unit)))
    own = (members[:, None] == members[None, :]).astype(unit.dtype)
    inside = (own * distances).sum(axis=1) / jnp.maximum(own.sum(axis=1) - 1, 1)
    across = ((1 - own) * distances).sum(axis=1) / jnp.maximum((1 - own).sum(axis=1), 1)
    values = (across - inside) / jnp.maximum(jnp.maximum(across, inside), _TINY)
    return jnp.where(own.sum(axis=1) > 1, values, 0.0).mean()


def separation(hidden: Float[Array, "n h"], labels: Float[Array, " n"]) -> Float[Array, ""]:
    """‖μ₊ − μ₋‖² over the mean squared distance of a sample to the mean of its class.

    Args:
        hidden: What a hidden layer gives for every sample.
        labels: ±1.

    Example:
        >>> hidden = jnp.array([[1.0], [3.0], [-1.0], [-3.0]])
        >>> float(separation(hidden, jnp.array([1.0, 1.0, -1.0, -1.0])))
        16.0
    """
    positive = (labels > 0).astype(hidden.dtype)[:, None]
    means = [
        (chosen * hidden).sum(axis=0) / jnp.maximum(chosen.sum(), 1)
        for chosen in (positive, 1 - positive)
    ]
    own = positive * means[0][None, :] + (1 - positive) * means[1][None, :]
    within = ((hidden - own) ** 2).sum(axis=1).mean()
    return ((means[0] - means[1]) ** 2).sum() / jnp.maximum(within, _TINY)


def threshold_ceiling(law: CountLaw, num_changes: int, balanced: bool = False) -> float:
    """The best accuracy of a classifier of the count that changes its sign at most c times.

    Args:
        law: The law of the data.
        num_changes: c; 1 is a threshold.
        balanced: Whether both classes count equally.

    Example:
        >>> from theorylab.data import parity_mixture
        >>> law = parity_mixture(100, 5)
        >>> threshold_ceiling(law, 1) == 27 / 32, threshold_ceiling(law, 3) == 59 / 64
        (True, True)
    """
    if num_changes < 0:
        raise ValueError(f"num_changes must be at least 0, got {num_changes}.")
    classes = np.where(law.labels > 0, law.class_probabilities[1], law.class_probabilities[0])
    weights = law.counts * (0.5 / classes if balanced else 1.0)
    # right[c, sign]: the most that is right so far with c changes, ending with this sign.
    signs = np.array([-1.0, 1.0])
    right = np.full((num_changes + 1, 2), -np.inf)
    right[0] = 0.0
    for weight, label in zip(weights, law.labels, strict=True):
        changed = np.vstack([np.full(2, -np.inf), right[:-1, ::-1]])
        right = np.maximum(right, changed) + weight * (signs == label)[None, :]
    return float(right.max())


def normalized(weights: Float[Array, "neurons d"], like: Float[Array, "neurons d"]) -> Scalar:
    """The one constant by which weights have the length, over all neurons, of some others.

    Example:
        >>> float(normalized(jnp.ones((1, 4)), jnp.array([[3.0, 0.0, 0.0, 0.0]])))
        1.5
    """
    largest = jnp.maximum(jnp.abs(weights).max(), _TINY)
    return jnp.linalg.norm(like) / (largest * jnp.linalg.norm(weights / largest))
