"""Families of activations: functions with parameters, which are values as layers are.

    Activation(Hermite(3))        Activation(LeakyReLU(0.2))        Activation(Sine(b=2.0))

They can be compared and hashed, so a kernel knows them again and has their Gaussian integrals in
closed form (`theorylab.kernels.dual`). Parameters may be arrays of shape (), in which a kernel can
be differentiated (`scales`).

At a kink the derivative is a convention: here ReLU′(0) = 0 as in JAX, and for LeakyReLU, Abs and
BentLine the slope on the right; second derivatives are 0. The source writes relu′(z) = 1{z ≥ 0},
which differs at z = 0 only. Sign′ = 0, at 0 too.

Source: zhu · taylor-models · Eqs 3.1–3.2 (the derivative at a kink); golikov · ntk-dual · 2.4.3.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float

from theorylab.typing import Scalar

from .scales import check_scale


@dataclass(frozen=True)
class Identity:
    """φ(z) = z."""

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Give it back."""
        return z


@dataclass(frozen=True)
class ReLU:
    """φ(z) = max(z, 0)."""

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Keep what is positive."""
        return jax.nn.relu(z)


@dataclass(frozen=True)
class LeakyReLU:
    """φ(z) = max(z, 0) + slope · min(z, 0)."""

    slope: Scalar = 0.01

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Keep what is positive, and a part of what is negative."""
        return jax.nn.leaky_relu(z, self.slope)


@dataclass(frozen=True)
class ABReLU:
    """φ(z) = left · min(z, 0) + right · max(z, 0): all lines with a bend at 0."""

    left: Scalar
    right: Scalar

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Multiply by the slope of the side."""
        return jnp.where(z < 0, self.left * z, self.right * z)


@dataclass(frozen=True)
class Abs:
    """φ(z) = |z|."""

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Forget the sign."""
        return jnp.abs(z)


@dataclass(frozen=True)
class Sign:
    """φ(z) = 1 for z > 0, −1 for z < 0, and 0 at 0."""

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Keep the sign only."""
        return jnp.sign(z)


@dataclass(frozen=True)
class Monomial:
    """φ(z) = zⁿ.

    Args:
        degree: The power n.
    """

    degree: int

    def __post_init__(self) -> None:
        _check_degree(self.degree)

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Take the power."""
        return z**self.degree


@dataclass(frozen=True)
class RectifiedMonomial:
    """φ(z) = max(z, 0)ⁿ; with n = 0 the step from 0 to 1, which is ½ at 0.

    Args:
        degree: The power n.
    """

    degree: int

    def __post_init__(self) -> None:
        _check_degree(self.degree)

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Take the power of what is positive."""
        if self.degree == 0:
            return (1 + jnp.sign(z)) / 2
        return jax.nn.relu(z) ** self.degree


@dataclass(frozen=True)
class Polynomial:
    """φ(z) = Σₖ aₖ zᵏ.

    Args:
        coefficients: (a₀, a₁, …).
    """

    coefficients: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        if not self.coefficients:
            raise ValueError("coefficients must be at least one number, got ().")

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Take the sum from the highest power down (Horner)."""
        value = jnp.zeros_like(z)
        for coefficient in reversed(self.coefficients):
            value = value * z + coefficient
        return value


@dataclass(frozen=True)
class Hermite:
    """φ(z) = hₙ(z), the Hermite polynomial with E hₙ(z)² = 1, z ~ N(0, 1).

    h₀ = 1, h₁ = z, √(n+1) hₙ₊₁ = z hₙ − √n hₙ₋₁: they are orthonormal.

    Args:
        degree: The degree n.
    """

    degree: int

    def __post_init__(self) -> None:
        _check_degree(self.degree)

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Climb the recurrence."""
        before, value = jnp.zeros_like(z), jnp.ones_like(z)
        for n in range(self.degree):
            before, value = value, (z * value - math.sqrt(n) * before) / math.sqrt(n + 1)
        return value


@dataclass(frozen=True)
class Erf:
    """φ(z) = a erf(bz) + c."""

    a: Scalar = 1.0
    b: Scalar = 1.0
    c: Scalar = 0.0

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Apply the error function."""
        return self.a * jax.scipy.special.erf(self.b * z) + self.c


@dataclass(frozen=True)
class GELU:
    """φ(z) = z Φ(z), with Φ the normal distribution function; exact."""

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Weigh z with the probability of being smaller."""
        return jax.nn.gelu(z, approximate=False)


@dataclass(frozen=True)
class Sine:
    """φ(z) = a sin(bz + c)."""

    a: Scalar = 1.0
    b: Scalar = 1.0
    c: Scalar = 0.0

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Apply the sine."""
        return self.a * jnp.sin(self.b * z + self.c)


@dataclass(frozen=True)
class Cosine:
    """φ(z) = a cos(bz + c)."""

    a: Scalar = 1.0
    b: Scalar = 1.0
    c: Scalar = 0.0

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Apply the cosine."""
        return self.a * jnp.cos(self.b * z + self.c)


@dataclass(frozen=True)
class GaussianActivation:
    """φ(z) = a exp(−b z²), with b ≥ 0."""

    a: Scalar = 1.0
    b: Scalar = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.b, Tracer) and not self.b >= 0:
            raise ValueError(f"b must be at least 0, got {self.b}.")

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Apply the bell."""
        return self.a * jnp.exp(-self.b * z**2)


@dataclass(frozen=True)
class Exponential:
    """φ(z) = a exp(bz)."""

    a: Scalar = 1.0
    b: Scalar = 1.0

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Apply the exponential."""
        return self.a * jnp.exp(self.b * z)


@dataclass(frozen=True)
class Gabor:
    """φ(z) = exp(−z²) sin z."""

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Apply the wave under a bell."""
        return jnp.exp(-(z**2)) * jnp.sin(z)


def rbf(gamma: Scalar = 1.0) -> Sine:
    """φ(z) = √2 sin(√(2γ) z + π/4), so that E φ(u)φ(v) = exp(−γ E(u − v)²) of centred Gaussians.

    Args:
        gamma: γ > 0. After a `Dense` layer the kernel is the Gaussian one of the inputs.

    Example:
        >>> round(float(rbf(gamma=1.0)(jnp.array(0.0))), 4)  # √2 sin(π/4)
        1.0
    """
    check_scale("gamma", gamma)
    root = jnp.sqrt(2 * gamma) if isinstance(gamma, jax.Array) else math.sqrt(2 * gamma)
    return Sine(math.sqrt(2), root, math.pi / 4)


def normalised_exponential(gamma: Scalar = 1.0) -> Exponential:
    """φ(z) = exp(√γ z − γ), so that E φ(u)φ(v) = exp(γ(ρ − 1)) at variance 1 and correlation ρ.

    Args:
        gamma: γ > 0.

    Example:
        >>> round(float(normalised_exponential(gamma=1.0)(jnp.array(1.0))), 4)
        1.0
    """
    check_scale("gamma", gamma)
    if isinstance(gamma, jax.Array):
        return Exponential(jnp.exp(-gamma), jnp.sqrt(gamma))
    return Exponential(math.exp(-gamma), math.sqrt(gamma))


def sigmoid_like() -> Erf:
    """φ(z) = (1 + erf(z/2.4020563531719796))/2: within 0.02 of the sigmoid.

    Example:
        >>> float(sigmoid_like()(jnp.array(0.0)))
        0.5
    """
    return Erf(a=0.5, b=1 / 2.4020563531719796, c=0.5)


def _check_degree(degree: int) -> None:
    if degree < 0:
        raise ValueError(f"degree must be at least 0, got {degree}.")
