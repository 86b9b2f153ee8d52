"""Inputs of unequal size, as photographs are: contrast and brightness differ from one to the next.

    x = e^{τz} (ε + βb𝟏 + y μ),   z, b ~ N(0, 1),  ε ~ N(0, I_d),  y = ±1

e^{τz} is the contrast, βb the brightness, and μ = (μ, −μ, μ, …) the mean of class +1. Mean 0 and
covariance e^{2τ²}(I + β²𝟏𝟏ᵀ + μμᵀ). The tangent kernel of a sample grows with ‖x‖², so batches have
very different critical learning rates: what photographs have, and standardised digits have not.

Source: zhu · Data and architectures · "image-like"; it stands in for CIFAR in §4.6 and §4.7.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import RandomKey

from .dataset import Dataset
from .inputs import check_at_least


def image_like(
    key: RandomKey,
    num_samples: int,
    dimension: int = 64,
    contrast: float = 0.5,
    brightness: float = 1.0,
    separation: float = 0.25,
) -> Dataset:
    """Draw two classes of inputs with random contrast and brightness, and labels ±1.

    Args:
        key: Draws everything.
        num_samples: The number of samples n.
        dimension: The number of pixels d; `.reshaped(8, 8, 1)` gives images for convolutions.
        contrast: τ, the deviation of the logarithm of the contrast.
        brightness: β, the deviation of the brightness.
        separation: μ, every pixel's distance of the two class means from 0.

    Example:
        >>> print(image_like(jax.random.key(0), 5, 4))
        5 samples (4,) ─► (1,): x = e^{0.5z}(ε + 1b𝟏 + yμ), |μⱼ| = 0.25, y = ±1. Source: \
random numbers.
    """
    check_at_least("num_samples", num_samples, 1)
    check_at_least("dimension", dimension, 1)
    for name, value in [("contrast", contrast), ("brightness", brightness)]:
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} must be at least 0 and finite, got {value}.")
    if not math.isfinite(separation):
        raise ValueError(f"separation must be finite, got {separation}.")
    keys = jax.random.split(key, 4)
    n, d = num_samples, dimension
    y = jax.random.rademacher(keys[0], (n,)).astype(float)[:, None]
    size = jnp.exp(contrast * jax.random.normal(keys[1], (n,)))[:, None]
    light = brightness * jax.random.normal(keys[2], (n,))[:, None]
    noise = jax.random.normal(keys[3], (n * d,)).reshape(n, d)
    x = size * (noise + light + y * _class_mean(d, separation)[None, :])
    law = f"x = e^{{{contrast:g}z}}(ε + {brightness:g}b𝟏 + yμ), |μⱼ| = {separation:g}, y = ±1"
    return Dataset(x, y, law, "random numbers")


def image_like_covariance(
    dimension: int = 64, contrast: float = 0.5, brightness: float = 1.0, separation: float = 0.25
) -> Float[Array, "d d"]:
    """E xxᵀ = e^{2τ²}(I + β²𝟏𝟏ᵀ + μμᵀ); the mean is 0, the arguments are those of `image_like`.

    Example:
        >>> image_like_covariance(2, contrast=0.0, brightness=1.0, separation=1.0).tolist()
        [[3.0, 0.0], [0.0, 3.0]]
    """
    check_at_least("dimension", dimension, 1)
    mean = _class_mean(dimension, separation)
    inside = jnp.eye(dimension) + brightness**2 + jnp.outer(mean, mean)
    return math.exp(2 * contrast**2) * inside


def _class_mean(dimension: int, separation: float) -> Float[Array, " d"]:
    """A checkerboard: it sums to 0 for even d, so that brightness does not tell the classes."""
    return separation * (1.0 - 2.0 * (jnp.arange(dimension) % 2))
