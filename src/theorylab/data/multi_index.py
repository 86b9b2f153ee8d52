"""Multi-index models: polynomials of a few directions of a Gaussian input, with exact moments.

    x ~ N(0, I_d),   g*(x) = Σ_t c_t ∏ᵢ he_{tᵢ}(xᵢ),   i = 1 … r,   Σ c_t² = 1

in normalised Hermite polynomials, heₙ = Heₙ/√n!, which are orthonormal: so E g*² = 1, and each
moment is a coefficient,

    ρ = E g* = c_0,   βᵢ = E[g* xᵢ] = c_{eᵢ},   Hᵢᵢ = √2 c_{2eᵢ},   Hᵢⱼ = c_{eᵢ+eⱼ},

with H = E ∇²g* = E[g* (xxᵀ − I)]. The directions are the first r axes: the law of x has no others.

Source: shi · case-multi-index · B.5.7.
"""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.typing import RandomKey

from .dataset import Dataset
from .inputs import Gaussian, check_at_least
from .targets import SYNTHETIC


@dataclass(frozen=True)
class MultiIndex:
    """A polynomial of r directions; its coefficients are brought to Σ c² = 1.

    Args:
        dimension: d.
        degrees: t, the r degrees of every term.
        coefficients: c, one for each term.

    Example:
        >>> law = MultiIndex(dimension=3, degrees=((2,), (3,)), coefficients=(3.0, 4.0))
        >>> law.normalized, round(float(law.hessian[0, 0]), 4)
        ((0.6, 0.8), 0.8485)
    """

    dimension: int
    degrees: tuple[tuple[int, ...], ...]
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.degrees or len({len(term) for term in self.degrees}) != 1:
            raise ValueError(f"degrees must be terms of equally many, got {self.degrees}.")
        if len(set(self.degrees)) < len(self.degrees) or min(map(min, self.degrees)) < 0:
            raise ValueError(f"degrees must be different and at least 0, got {self.degrees}.")
        if max(map(max, self.degrees)) > 20:
            raise ValueError(f"degrees must be at most 20, got {self.degrees}.")
        if len(self.coefficients) != len(self.degrees) or not any(self.coefficients):
            raise ValueError(
                f"coefficients must be {len(self.degrees)}, and not all 0, got {self.coefficients}."
            )
        check_at_least("num_directions", self.num_directions, 1)
        check_at_least("dimension", self.dimension, self.num_directions)

    @property
    def num_directions(self) -> int:
        """R."""
        return len(self.degrees[0])

    @property
    def normalized(self) -> tuple[float, ...]:
        """c/‖c‖."""
        length = math.hypot(*self.coefficients)
        return tuple(value / length for value in self.coefficients)

    @property
    def mean(self) -> float:
        """ρ = E g*."""
        return self._coefficient({})

    @property
    def slope(self) -> Float[Array, " d"]:
        """β = E[g* x]."""
        beta = np.zeros(self.dimension)
        for i in range(self.num_directions):
            beta[i] = self._coefficient({i: 1})
        return jnp.asarray(beta)

    @property
    def hessian(self) -> Float[Array, "d d"]:
        """H = E ∇²g*."""
        matrix = np.zeros((self.dimension, self.dimension))
        for i in range(self.num_directions):
            for j in range(self.num_directions):
                degrees = {i: 2} if i == j else {i: 1, j: 1}
                factor = math.sqrt(2) if i == j else 1.0
                matrix[i, j] = factor * self._coefficient(degrees)
        return jnp.asarray(matrix)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """g*(x)."""
        highest = max(map(max, self.degrees))
        powers = _hermite(x[:, : self.num_directions], highest)
        total = jnp.zeros(len(x), x.dtype)
        for coefficient, term in zip(self.normalized, self.degrees, strict=True):
            value = jnp.full(len(x), coefficient, x.dtype)
            for i, degree in enumerate(term):
                value = value * powers[degree][:, i]
            total = total + value
        return total

    def sample(self, key: RandomKey, num_samples: int) -> Dataset:
        """Draw inputs, and answer g*(x)."""
        x = Gaussian((1.0,) * self.dimension).sample(key, num_samples)
        law = f"polynomial of {self.num_directions} of {self.dimension} Gaussian directions"
        return Dataset(x, self(x)[:, None], law, SYNTHETIC)

    def _coefficient(self, degrees: dict[int, int]) -> float:
        """The coefficient of a term that is given by its degrees above 0."""
        wanted = tuple(degrees.get(i, 0) for i in range(self.num_directions))
        pairs = dict(zip(self.degrees, self.normalized, strict=True))
        return pairs.get(wanted, 0.0)


def quadratic_index(dimension: int, num_directions: int) -> MultiIndex:
    """g* = Σᵢ he₂(xᵢ)/√r, with H = √(2/r) on the r directions.

    Example:
        >>> quadratic_index(dimension=5, num_directions=2).degrees
        ((2, 0), (0, 2))
    """
    check_at_least("num_directions", num_directions, 1)
    check_at_least("dimension", dimension, num_directions)
    degrees = tuple(
        tuple(2 * (i == j) for j in range(num_directions)) for i in range(num_directions)
    )
    return MultiIndex(dimension, degrees, (1.0,) * num_directions)


def _hermite(x: Float[Array, "n r"], highest: int) -> list[Float[Array, "n r"]]:
    """he₀ … heₙ by √(n+1) heₙ₊₁ = x heₙ − √n heₙ₋₁."""
    values = [jnp.ones_like(x), x]
    for n in range(1, highest):
        values.append((x * values[n] - math.sqrt(n) * values[n - 1]) / math.sqrt(n + 1))
    return values[: highest + 1]
