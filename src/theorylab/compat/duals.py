"""Activations that bring their own Gaussian integrals, where Neural Tangents has others than ours.

    NormalisedExponential    K ← √(q₁q₂) exp(γ(ρ + shift))           ρ = c/√(q₁q₂); of no function
    HermiteAtUnitVariance    K ← cⁿ                                  of hₙ, exact at variance 1 only
    GaussianBump             K ← a²/√((1 − 2bq₁)(1 − 2bq₂) − 4b²c²)  of a exp(bz²), b of either sign
    Given                    K ← nngp_fn(c, q₁, q₂)                  Θ by its derivative in c
    Quadrature               Gauss and Hermite's rule, of a chosen degree

Source: Novak et al. (2020), arXiv:1912.02803; Han et al. (2022), arXiv:2209.04121.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.kernels import Dual, dual
from theorylab.models.families import GELU, Hermite

Scalar = Callable[[Float[Array, ""], Float[Array, ""], Float[Array, ""]], Float[Array, ""]]


@dataclass(frozen=True)
class NormalisedExponential:
    """K ← √(q₁q₂) exp(γ(ρ + shift)).

    Args:
        gamma: γ.
        shift: What is added to the correlation.
        clip: Whether correlations are held within ±1.
    """

    gamma: float = 1.0
    shift: float = -1.0
    clip: bool = False

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Refuse: no function has this dual."""
        raise NotImplementedError("ExpNormalized is a kernel only: no network has it.")

    def dual(self, q1: Array, q2: Array, c: Array) -> Dual:
        """E φ(u)φ(v) and its derivative in c."""
        size = jnp.sqrt(jnp.maximum(q1 * q2, 1e-30))
        correlation = jnp.clip(c / size, -1, 1) if self.clip else c / size
        exponential = jnp.exp(self.gamma * (correlation + self.shift))
        return Dual(size * exponential, self.gamma * exponential)


@dataclass(frozen=True)
class HermiteAtUnitVariance:
    """The Hermite polynomial hₙ, whose dual is cⁿ if variances are 1.

    Args:
        degree: n.
    """

    degree: int

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Apply the polynomial."""
        return Hermite(self.degree)(z)

    def dual(self, q1: Array, q2: Array, c: Array) -> Dual:
        """The dual as it is at variance 1."""
        n = self.degree
        slope = n * c ** (n - 1) if n else jnp.zeros_like(c)
        return Dual(c**n, slope)


@dataclass(frozen=True)
class GaussianBump:
    """φ(z) = a exp(bz²); with b > 0 as long as variances are below 1/4b.

    Args:
        a: The value at 0.
        b: The exponent's factor.
    """

    a: float = 1.0
    b: float = -1.0

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Apply it."""
        return self.a * jnp.exp(self.b * z**2)

    def dual(self, q1: Array, q2: Array, c: Array) -> Dual:
        """The Gaussian integral of the product of two."""
        det = (1 - 2 * self.b * q1) * (1 - 2 * self.b * q2) - (2 * self.b * c) ** 2
        value = self.a**2 / jnp.sqrt(det)
        return Dual(value, 4 * self.b**2 * c * value / det)


@dataclass(frozen=True)
class ApproximateGELU:
    """The approximation of GELU by tanh, whose kernel is taken to be that of GELU."""

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Apply it."""
        return jax.nn.gelu(z, approximate=True)

    def dual(self, q1: Array, q2: Array, c: Array) -> Dual:
        """The dual of GELU."""
        return dual(GELU(), q1, q2, c)


@dataclass(frozen=True)
class Given:
    """An activation by its dual.

    Args:
        nngp: E φ(u)φ(v) as a function of c, q₁, q₂, in this order.
        slope: Its derivative in c; by `jax.grad` if not given.
        function: φ; None if there is none.
    """

    nngp: Scalar
    slope: Scalar | None = None
    function: Callable | None = None

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Apply φ."""
        if self.function is None:
            raise NotImplementedError("Elementwise without fn is a kernel only: give fn too.")
        return self.function(z)

    def dual(self, q1: Array, q2: Array, c: Array) -> Dual:
        """What was given, at every pair."""
        slope = jax.grad(self.nngp) if self.slope is None else self.slope
        c, q1, q2 = jnp.broadcast_arrays(c, q1, q2)
        return Dual(jnp.vectorize(self.nngp)(c, q1, q2), jnp.vectorize(slope)(c, q1, q2))


@dataclass(frozen=True)
class Quadrature:
    """Any activation, its dual by Gauss and Hermite's rule in two dimensions.

    Args:
        function: φ, of numbers.
        degree: The number of points in one dimension.
        slope: φ′; by `jax.grad` if not given.
    """

    function: Callable
    degree: int
    slope: Callable | None = None

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Apply φ."""
        return self.function(z)

    def dual(self, q1: Array, q2: Array, c: Array) -> Dual:
        """Σᵢⱼ wᵢwⱼ φ(u)φ(v)/π with u = √(2q₁) xᵢ, v = √2 (c/√q₁ xᵢ + √(q₂ − c²/q₁) xⱼ)."""
        slope = jnp.vectorize(jax.grad(self.function)) if self.slope is None else self.slope
        points, weights = (
            jnp.asarray(each) for each in np.polynomial.hermite.hermgauss(self.degree)
        )
        c, q1, q2 = jnp.broadcast_arrays(c, q1, q2)
        root = jnp.sqrt(2 * q1)
        along = 2 * c / jnp.where(root > 0, root, 1.0)
        across = jnp.sqrt(jnp.maximum(2 * q2 - along**2, 0.0))

        def row(x: Array, weight: Array) -> Dual:
            def at(y: Array, other: Array) -> Dual:
                u, v = root * x, along * x + across * y
                both = (self.function(u) * self.function(v), slope(u) * slope(v))
                return Dual(*(weight * other / jnp.pi * value for value in both))

            return jax.tree.map(lambda each: each.sum(axis=0), jax.vmap(at)(points, weights))

        return jax.tree.map(lambda each: each.sum(axis=0), jax.vmap(row)(points, weights))
