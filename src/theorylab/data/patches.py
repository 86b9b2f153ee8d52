"""One signal patch among Gaussian noise patches.

A sample is k + 1 patches in ℝᵈ and a label y = ±1. One patch, at a place that says nothing, holds
the signal y w*, ‖w*‖ = 1; the k others are independent N(0, σ²I). With σ = log k/√k the noise of
all patches together drowns the signal, but no single noise patch comes near it:

    Σᵢ ⟨w*, Xᵢ⟩ = y + N(0, kσ²),   kσ² = log²k,        maxᵢ |⟨w*, Xᵢ⟩| ≈ σ√(2 log k) → 0.

Any patch has mean 0 and, averaged over places, the second moments

    E XᵢXᵢᵀ = (kσ²I + w*w*ᵀ)/(k + 1),      E yXᵢ = w*/(k + 1),      Σᵢ E‖Xᵢ‖² = 1 + kdσ².

A linear classifier of the summed patches errs with probability Φ(−1/(σ√k)) = Φ(−1/log k).

Source: karp · lsa-data · 3.3; karp · lsa-linear · 3.3.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import RandomKey

from .dataset import Dataset
from .inputs import check_at_least


def noise_scale(num_patches: int) -> float:
    """σ = log k/√k.

    Example:
        >>> round(noise_scale(1000), 4)
        0.2184
    """
    check_at_least("num_patches", num_patches, 2)
    return math.log(num_patches) / math.sqrt(num_patches)


@dataclass(frozen=True)
class PatchLaw:
    """The law of samples, with w* along (1, …, 1).

    Args:
        num_patches: The number of noise patches k.
        dimension: The dimension d of a patch.
        noise: The noise σ in every direction.

    Example:
        >>> law = PatchLaw(num_patches=9, dimension=4, noise=0.5)
        >>> law.signal.tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    num_patches: int
    dimension: int
    noise: float

    def __post_init__(self) -> None:
        check_at_least("num_patches", self.num_patches, 1)
        check_at_least("dimension", self.dimension, 1)
        if not (self.noise > 0 and math.isfinite(self.noise)):
            raise ValueError(f"noise must be positive, got {self.noise}.")

    @property
    def signal(self) -> Float[Array, " d"]:
        """w*, of length 1."""
        return jnp.full(self.dimension, 1 / math.sqrt(self.dimension))

    @property
    def patch_second_moment(self) -> Float[Array, "d d"]:
        """E XᵢXᵢᵀ of a patch at a random place."""
        k, w = self.num_patches, self.signal
        noise = k * self.noise**2 * jnp.eye(self.dimension)
        return (noise + jnp.outer(w, w)) / (k + 1)

    @property
    def patch_label_moment(self) -> Float[Array, " d"]:
        """E yXᵢ of a patch at a random place."""
        return self.signal / (self.num_patches + 1)

    @property
    def linear_error(self) -> float:
        """Φ(−1/(σ√k)): the probability that Σᵢ ⟨w*, Xᵢ⟩ has the wrong sign."""
        return 0.5 * math.erfc(1 / (self.noise * math.sqrt(2 * self.num_patches)))


def patch_law(num_patches: int, dimension: int, noise_factor: float = 1.0) -> PatchLaw:
    """The law with σ = factor · log k/√k.

    Args:
        num_patches: The number of noise patches k.
        dimension: The dimension d.
        noise_factor: 1 in the theory.

    Example:
        >>> round(patch_law(num_patches=1000, dimension=10).linear_error, 4)
        0.4424
    """
    return PatchLaw(num_patches, dimension, noise_factor * noise_scale(num_patches))


def signal_among_noise(key: RandomKey, law: PatchLaw, num_samples: int) -> Dataset:
    """Samples x (n, k + 1, d) and y (n, 1), the signal at uniformly random places.

    Args:
        key: Draws labels, places and noise.
        law: The law of a sample.
        num_samples: The number of samples n.

    Example:
        >>> print(signal_among_noise(jax.random.key(0), patch_law(9, 2), num_samples=5))
        5 samples (10, 2) ─► (1,): one signal patch among 9 of N(0, 0.732² I). Source: synthetic.
    """
    check_at_least("num_samples", num_samples, 1)
    n, k, d = num_samples, law.num_patches, law.dimension
    label_key, place_key, noise_key = jax.random.split(key, 3)
    labels = jax.random.rademacher(label_key, (n,), dtype=float)
    place = jax.random.randint(place_key, (n,), 0, k + 1)
    noise = law.noise * jax.random.normal(noise_key, (n * (k + 1) * d,)).reshape(n, k + 1, d)
    here = (jnp.arange(k + 1)[None, :] == place[:, None])[:, :, None]
    signal = (labels[:, None] * law.signal[None, :])[:, None, :]
    x = jnp.where(here, signal, noise)
    words = f"one signal patch among {k} of N(0, {law.noise:.3g}² I)"
    return Dataset(x, labels[:, None], words, source="synthetic")
