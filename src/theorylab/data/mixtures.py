"""Mixtures of Gaussian clusters and separable data, with a label ±1 and exact moments.

    cluster j with probability pⱼ:   x ~ N(μⱼ, σⱼ² I),   y = yⱼ
    separable:                       x = y (β + u) w* + R v,   y = ±1 equally likely

with u uniform on [0, s], and v uniform on the unit sphere across w*. Then

    mixture      E[yx] = Σ pⱼyⱼμⱼ,   E[xxᵀ] = Σ pⱼ (μⱼμⱼᵀ + σⱼ² I),
                 E‖x‖ = Σ pⱼσⱼ√2 Γ((d+1)/2)/Γ(d/2) ₁F₁(−½; d/2; −‖μⱼ‖²/2σⱼ²)
    separable    E[yx] = ρ w*,   ρ = β + s/2,   ‖x‖² ≤ (β + s)² + R²

On the corners ε ∈ {±1}ᵏ of a cube with the label Π εᵢ, and noise of variance σ² in all coordinates,
the best guess is the product of the signs of k coordinates. Each is wrong with probability Φ(−1/σ),
so the guess is right with probability ½ + ½ (1 − 2Φ(−1/σ))ᵏ.

(The source writes the covariance of a cluster as σⱼ I, and uses σⱼ as the standard deviation; its
pⱼ are those of the whole mixture, and add up to one.)

Source: shi · case-mog · §3.4.1; shi · case-mog-xor · B.5.3; shi · case-linear · B.5.1;
shi · exp-mog-hypercube · (A.288).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # whose special functions are loaded when they are used
from jax.core import Tracer
from jaxtyping import Array, Float

from theorylab.typing import RandomKey, Scalar

from .dataset import Dataset
from .inputs import check_at_least

_MOST_BITS = 16  # 65 536 corners


class GaussianMixture(NamedTuple):
    """Clusters N(μⱼ, σⱼ² I) with labels yⱼ = ±1; make it with `gaussian_mixture`, which checks.

    Example:
        >>> law = xor_mixture(dimension=4)
        >>> law.mean_square.item(), law.sample(jax.random.key(0), 10).input_shape
        (8.0, (4,))
    """

    means: Float[Array, "r d"]
    labels: Float[Array, " r"]
    probabilities: Float[Array, " r"]
    deviations: Float[Array, " r"]

    @property
    def dimension(self) -> int:
        """The dimension d of the inputs."""
        return self.means.shape[1]

    @property
    def directions(self) -> Float[Array, "r d"]:
        """Dⱼ = μⱼ/‖μⱼ‖."""
        return self.means / jnp.linalg.norm(self.means, axis=1, keepdims=True)

    @property
    def mean(self) -> Float[Array, " d"]:
        """E[x]."""
        return self.probabilities @ self.means

    @property
    def label_mean(self) -> Float[Array, " d"]:
        """E[yx]."""
        return (self.probabilities * self.labels) @ self.means

    @property
    def second_moment(self) -> Float[Array, "d d"]:
        """E[xxᵀ]."""
        between = (self.probabilities[:, None] * self.means).T @ self.means
        return between + self.probabilities @ self.deviations**2 * jnp.eye(self.dimension)

    @property
    def mean_square(self) -> Float[Array, ""]:
        """E‖x‖²."""
        own = (self.means**2).sum(axis=1) + self.dimension * self.deviations**2
        return self.probabilities @ own

    @property
    def mean_norm(self) -> float:
        """E‖x‖, the mean of a noncentral χ law for each cluster."""
        d, sigma = self.dimension, np.asarray(self.deviations, float)
        ratio = (np.asarray(self.means, float) ** 2).sum(axis=1) / (2 * sigma**2)
        central = math.sqrt(2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
        stretched = scipy.special.hyp1f1(-0.5, d / 2, -ratio)
        return float(np.asarray(self.probabilities, float) @ (sigma * central * stretched))

    def sample(self, key: RandomKey, num_samples: int) -> Dataset:
        """Draw clusters, then points around their means."""
        return self.sample_with_clusters(key, num_samples)[0]

    def sample_with_clusters(self, key: RandomKey, num_samples: int) -> tuple[Dataset, Array]:
        """The same draw, with the number of each point's cluster."""
        check_at_least("num_samples", num_samples, 1)
        cluster_key, noise_key = jax.random.split(key)
        logits = jnp.log(self.probabilities)
        chosen = jax.random.categorical(cluster_key, logits, shape=(num_samples,))
        noise = jax.random.normal(noise_key, (num_samples, self.dimension))
        x = self.means[chosen] + self.deviations[chosen][:, None] * noise
        law = f"mixture of {len(self.labels)} Gaussian clusters in {self.dimension} dimensions"
        return Dataset(x, self.labels[chosen][:, None], law, source="synthetic"), chosen


class SeparableLaw(NamedTuple):
    """Linearly separable points; make it with `separable_law`, which checks."""

    direction: Float[Array, " d"]  # w*, of length 1
    margin: Scalar  # β
    spread: Scalar  # s
    radius: Scalar  # R

    @property
    def strength(self) -> Scalar:
        """ρ = E[y⟨w*, x⟩] = β + s/2."""
        return self.margin + self.spread / 2

    @property
    def label_mean(self) -> Float[Array, " d"]:
        """E[yx] = ρ w*."""
        return self.strength * self.direction

    @property
    def mean_square(self) -> Scalar:
        """E‖x‖² = β² + βs + s²/3 + R²."""
        beta, s = self.margin, self.spread
        return beta**2 + beta * s + s**2 / 3 + self.radius**2

    @property
    def largest_norm(self) -> Scalar:
        """B_x = √((β + s)² + R²), which no input exceeds."""
        return ((self.margin + self.spread) ** 2 + self.radius**2) ** 0.5

    def sample(self, key: RandomKey, num_samples: int) -> Dataset:
        """Draw labels, then the coordinate along w*, then those across."""
        check_at_least("num_samples", num_samples, 1)
        label_key, along_key, across_key = jax.random.split(key, 3)
        dimension = len(self.direction)
        y = jax.random.rademacher(label_key, (num_samples,)).astype(self.direction.dtype)
        along = y * (self.margin + self.spread * jax.random.uniform(along_key, (num_samples,)))
        across = jax.random.normal(across_key, (num_samples, dimension))
        across = across - (across @ self.direction)[:, None] * self.direction[None, :]
        across = self.radius * across / jnp.linalg.norm(across, axis=1, keepdims=True)
        x = along[:, None] * self.direction[None, :] + across
        law = f"linearly separable in {dimension} dimensions with margin"
        return Dataset(x, y[:, None], law, source="synthetic")


def gaussian_mixture(
    means: Float[Array, "r d"],
    labels: Float[Array, " r"],
    probabilities: Float[Array, " r"] | None = None,
    deviations: Float[Array, " r"] | Scalar = 1.0,
) -> GaussianMixture:
    """A mixture of Gaussian clusters.

    Args:
        means: μⱼ, one row for each cluster.
        labels: yⱼ = ±1.
        probabilities: pⱼ, which add up to 1; equal ones by default.
        deviations: The standard deviations σⱼ, or one for all.

    Example:
        >>> law = gaussian_mixture(jnp.array([[2.0, 0.0], [0.0, 2.0]]), jnp.array([1.0, -1.0]))
        >>> law.label_mean.tolist()
        [1.0, -1.0]
    """
    count = len(labels)
    check_at_least("the number of clusters", count, 1)
    if len(means) != count or not np.isfinite(np.asarray(means)).all():
        raise ValueError(
            f"means must be finite, one for each of {count} labels, got {len(means)} of them: "
            f"{np.asarray(means).tolist()}."
        )
    if not np.isin(np.asarray(labels), (-1, 1)).all():
        raise ValueError(f"labels must be -1 or 1, got {np.asarray(labels).tolist()}.")
    if probabilities is None:
        probabilities = jnp.full(count, 1 / count)
    given = np.asarray(probabilities)
    # A comparison with NaN is false, so what must hold is asked for.
    if given.shape != (count,) or not (given > 0).all() or not abs(given.sum() - 1) <= 1e-5:
        raise ValueError(f"probabilities must be positive and add up to 1, got {given.tolist()}.")
    deviations = jnp.broadcast_to(jnp.asarray(deviations, means.dtype), (count,))
    sizes = np.asarray(deviations)
    if not ((sizes > 0) & (sizes < np.inf)).all():
        raise ValueError(f"deviations must be positive and finite, got {sizes.tolist()}.")
    return GaussianMixture(means, labels, probabilities, deviations)


def orthogonal_mixture(
    num_clusters: int,
    dimension: int,
    separation: float = 1.0,
    deviation: float = 1.0,
    probabilities: Float[Array, " r"] | None = None,
) -> GaussianMixture:
    """Clusters at √d·separation along different axes, with alternating labels.

    Axes are no loss: the noise, and Gaussian initial weights, look the same in all directions.

    Args:
        num_clusters: r, at most d.
        dimension: d.
        separation: ‖μⱼ‖/√d, in the source's letters μ̃.
        deviation: σ of every cluster.
        probabilities: pⱼ; equal ones by default.

    Example:
        >>> law = orthogonal_mixture(num_clusters=2, dimension=4)
        >>> law.means.tolist(), law.labels.tolist()
        ([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]], [1.0, -1.0])
    """
    check_at_least("num_clusters", num_clusters, 1)
    check_at_least("dimension", dimension, num_clusters)
    means = separation * math.sqrt(dimension) * jnp.eye(num_clusters, dimension)
    labels = 1.0 - 2.0 * (jnp.arange(num_clusters) % 2)
    return gaussian_mixture(means, labels, probabilities, deviation)


def xor_mixture(dimension: int, deviation: float = 1.0) -> GaussianMixture:
    """Four clusters at ±√d e₁ with label 1 and ±√d e₂ with label −1: no line separates them.

    Args:
        dimension: d, at least 2.
        deviation: σ_B of every cluster.

    Example:
        >>> xor_mixture(4).label_mean.tolist()
        [0.0, 0.0, 0.0, 0.0]
    """
    check_at_least("dimension", dimension, 2)
    signs = jnp.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    means = math.sqrt(dimension) * jnp.pad(signs, ((0, 0), (0, dimension - 2)))
    return gaussian_mixture(means, jnp.array([1.0, 1.0, -1.0, -1.0]), deviations=deviation)


def hypercube_mixture(
    num_bits: int, dimension: int, relative_noise: float = 1.0
) -> GaussianMixture:
    """Clusters at the 2ᵏ corners ε ∈ {±1}ᵏ of a cube, with the parity Π εᵢ as their label.

    The noise is as long as a corner times σ_r: its variance is σ_r² k/d in each coordinate. The
    cube's edges are axes, which is no loss.

    Args:
        num_bits: k.
        dimension: d.
        relative_noise: σ_r.

    Example:
        >>> hypercube_mixture(2, 4).labels.tolist()
        [1.0, -1.0, -1.0, 1.0]
    """
    if not 1 <= num_bits <= _MOST_BITS:
        raise ValueError(f"num_bits must be in [1, {_MOST_BITS}], got {num_bits}.")
    check_at_least("dimension", dimension, num_bits)
    corners = 2.0 * jnp.array(list(np.ndindex((2,) * num_bits)), float) - 1.0
    means = jnp.pad(corners, ((0, 0), (0, dimension - num_bits)))
    deviation = relative_noise * math.sqrt(num_bits / dimension)
    return gaussian_mixture(means, corners.prod(axis=1), deviations=deviation)


def hypercube_accuracy(num_bits: int, deviation: float) -> float:
    """½ + ½ (1 − 2Φ(−1/σ))ᵏ: the accuracy of the best classifier of a corner's parity.

    Args:
        num_bits: k.
        deviation: σ, of the noise in each coordinate.

    Example:
        >>> hypercube_accuracy(4, 1e-9)
        1.0
    """
    check_at_least("num_bits", num_bits, 1)
    if not deviation > 0:
        raise ValueError(f"deviation must be positive, got {deviation}.")
    return 0.5 + 0.5 * math.erf(1 / (deviation * math.sqrt(2))) ** num_bits


def separable_law(
    direction: Float[Array, " d"], margin: float, spread: float = 1.0, radius: float = 1.0
) -> SeparableLaw:
    """Linearly separable points with labels that are equally likely, bounded inputs.

    Args:
        direction: Along w*, of any length but zero.
        margin: β > 0, the least y⟨w*, x⟩.
        spread: s, by how much y⟨w*, x⟩ exceeds the margin at most.
        radius: R, the length of the part of an input across w*.

    Example:
        >>> law = separable_law(jnp.array([3.0, 4.0]), margin=0.5)
        >>> law.direction.round(4).tolist() == jnp.array([0.6, 0.8]).round(4).tolist()
        True
    """
    if not margin > 0 or not spread >= 0 or not radius >= 0:
        raise ValueError(
            "margin must be positive, spread and radius not negative, "
            f"got {margin}, {spread} and {radius}."
        )
    length = jnp.linalg.norm(direction)
    if not isinstance(length, Tracer) and not length > 0:
        raise ValueError("direction must not be zero.")
    return SeparableLaw(direction / length, margin, spread, radius)
