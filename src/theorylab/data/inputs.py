"""Laws of inputs, each with its exact mean and covariance.

    sphere       x uniform on ‖x‖ = r            mean 0, covariance r²/d · I
    Gaussian     x ~ N(0, diag(spectrum))        mean 0, covariance diag(spectrum)
    hypercube    x uniform on {−1, 1}ᵈ           mean 0, covariance I

A law is a frozen dataclass: `Sphere(10).sample(key, 100)`. The functions in small letters are the
same draw in one line: `sphere(key, 100, 10)`.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.typing import RandomKey


@dataclass(frozen=True)
class Sphere:
    """The uniform law on the sphere ‖x‖ = r in ℝᵈ.

    Example:
        >>> Sphere(dimension=4, radius=2.0).covariance[0].tolist()
        [1.0, 0.0, 0.0, 0.0]
    """

    dimension: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        check_at_least("dimension", self.dimension, 1)
        if not 0 < self.radius < float("inf"):
            raise ValueError(f"radius must be positive and finite, got {self.radius}.")

    def __str__(self) -> str:
        return f"x uniform on the sphere of radius {self.radius:g} in {self.dimension} dimensions"

    @property
    def mean(self) -> Float[Array, " d"]:
        """0."""
        return jnp.zeros(self.dimension)

    @property
    def covariance(self) -> Float[Array, "d d"]:
        """r²/d · I."""
        return self.radius**2 / self.dimension * jnp.eye(self.dimension)

    def sample(self, key: RandomKey, num_samples: int) -> Float[Array, "n d"]:
        """Draw Gaussian vectors, and bring each to length r."""
        check_at_least("num_samples", num_samples, 1)
        x = jax.random.normal(key, (num_samples, self.dimension))
        return self.radius * x / jnp.linalg.norm(x, axis=1, keepdims=True)


@dataclass(frozen=True)
class Gaussian:
    """N(0, diag(spectrum)): independent coordinates with these variances.

    Example:
        >>> law = Gaussian((4.0, 1.0))
        >>> law.dimension, law.sample(jax.random.key(0), 5).shape
        (2, (5, 2))
    """

    spectrum: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.spectrum or not all(0 < value < float("inf") for value in self.spectrum):
            raise ValueError(
                f"spectrum must be a tuple of positive finite variances, got {self.spectrum}."
            )

    def __str__(self) -> str:
        low, high = min(self.spectrum), max(self.spectrum)
        return f"x Gaussian in {self.dimension} dimensions with variances in [{low:g}, {high:g}]"

    @property
    def dimension(self) -> int:
        """The number of variances."""
        return len(self.spectrum)

    @property
    def mean(self) -> Float[Array, " d"]:
        """0."""
        return jnp.zeros(self.dimension)

    @property
    def covariance(self) -> Float[Array, "d d"]:
        """diag(spectrum)."""
        return jnp.diag(jnp.asarray(self.spectrum))

    def sample(self, key: RandomKey, num_samples: int) -> Float[Array, "n d"]:
        """Draw standard normal coordinates, and scale each to its variance."""
        check_at_least("num_samples", num_samples, 1)
        x = jax.random.normal(key, (num_samples, self.dimension))
        return x * jnp.sqrt(jnp.asarray(self.spectrum))[None, :]


@dataclass(frozen=True)
class Hypercube:
    """The uniform law on the corners {−1, 1}ᵈ.

    Example:
        >>> x = Hypercube(3).sample(jax.random.key(0), 5)
        >>> x.shape, bool((jnp.abs(x) == 1).all())
        ((5, 3), True)
    """

    dimension: int

    def __post_init__(self) -> None:
        check_at_least("dimension", self.dimension, 1)

    def __str__(self) -> str:
        return f"x uniform on the {self.dimension} signs of a hypercube"

    @property
    def mean(self) -> Float[Array, " d"]:
        """0."""
        return jnp.zeros(self.dimension)

    @property
    def covariance(self) -> Float[Array, "d d"]:
        """I."""
        return jnp.eye(self.dimension)

    def sample(self, key: RandomKey, num_samples: int) -> Float[Array, "n d"]:
        """Draw independent fair signs."""
        check_at_least("num_samples", num_samples, 1)
        return jax.random.rademacher(key, (num_samples, self.dimension)).astype(float)


InputLaw = Sphere | Gaussian | Hypercube


def sphere(
    key: RandomKey, num_samples: int, dimension: int, radius: float = 1.0
) -> Float[Array, "n d"]:
    """Draw inputs uniformly on the sphere ‖x‖ = radius.

    Example:
        >>> x = sphere(jax.random.key(0), 5, 3, radius=2.0)
        >>> jnp.linalg.norm(x, axis=1).round(4).tolist()
        [2.0, 2.0, 2.0, 2.0, 2.0]
    """
    return Sphere(dimension, radius).sample(key, num_samples)


def gaussian(key: RandomKey, num_samples: int, spectrum: tuple[float, ...]) -> Float[Array, "n d"]:
    """Draw inputs from N(0, diag(spectrum)).

    Example:
        >>> gaussian(jax.random.key(0), 5, spectrum=(4.0, 1.0)).shape
        (5, 2)
    """
    return Gaussian(spectrum).sample(key, num_samples)


def hypercube(key: RandomKey, num_samples: int, dimension: int) -> Float[Array, "n d"]:
    """Draw inputs uniformly from {−1, 1}ᵈ.

    Example:
        >>> x = hypercube(jax.random.key(0), 5, 3)
        >>> bool((jnp.abs(x) == 1).all())
        True
    """
    return Hypercube(dimension).sample(key, num_samples)


def chebyshev_points(num_samples: int) -> Float[Array, " n"]:
    """xᵢ = −cos((2i + 1)π/2n), i < n: the roots of Tₙ, from left to right.

    Example:
        >>> [round(float(x), 4) for x in chebyshev_points(2)]
        [-0.7071, 0.7071]
    """
    check_at_least("num_samples", num_samples, 1)
    angles = (2 * np.arange(num_samples) + 1) * np.pi / (2 * num_samples)
    return jnp.asarray(-np.cos(angles))


def check_at_least(name: str, value: int, least: int) -> None:
    """Refuse a size that is too small.

    Example:
        >>> check_at_least("width", 0, 1)
        Traceback (most recent call last):
        ...
        ValueError: width must be at least 1, got 0.
    """
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}.")
