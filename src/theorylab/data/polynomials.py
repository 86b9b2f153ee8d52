"""Regression on a few directions: polynomials of low rank, with exact moments and EGOPs.

    x ~ N(0, I_d),   y = f*(x) + σε,   ε ~ N(0, 1)

    rank      f*(x)                                mean         variance
    2         x₁x₂                                 0            1
    3         x₁x₂(x₁ + … + x₁₀)                   0            14
    4         x₁ + x₁x₂ + x₁x₂x₃ + x₁x₂x₃x₄        0            4
    "full"    ‖x‖/√d                               μ_d/√d       1 − μ_d²/d

with μ_d = E‖x‖ = √2 Γ((d + 1)/2)/Γ(d/2). The rank is that of the expected gradient outer product
(EGOP), G* = E ∇f*(x) ∇f*(x)ᵀ, which has all the directions on which f* depends. The best constant
prediction has test loss Var f* + σ², so a test loss means something only beside Var f*.

Source: zhu · synthetic-tasks · §4.4, C.6; zhu · agop · Eq. 4.5.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.typing import RandomKey

from .dataset import Dataset
from .inputs import Gaussian
from .targets import network_teacher

Rank = Literal[2, 3, 4, "full"]

_NUM_SUMMED = 10  # the number of coordinates in the sum of the polynomial of rank 3
_FEWEST = {2: 2, 3: _NUM_SUMMED, 4: 4, "full": 1}
_WORDS = {
    2: "x₁x₂",
    3: "x₁x₂(x₁ + … + x₁₀)",
    4: "x₁ + x₁x₂ + x₁x₂x₃ + x₁x₂x₃x₄",
    "full": "‖x‖/√d",
}


class PolynomialMoments(NamedTuple):
    """Mean and variance of f*(x), without the noise."""

    mean: float
    variance: float


def low_rank_polynomial(
    key: RandomKey,
    num_samples: int,
    dimension: int = 100,
    rank: Rank = 2,
    noise: float = 0.1,
) -> Dataset:
    """Draw x ~ N(0, I_d), with targets y = f*(x) + σε.

    Args:
        key: Draws inputs and noise.
        num_samples: The number of samples n.
        dimension: The dimension d of the inputs.
        rank: Which polynomial: 2, 3, 4, or "full" for the norm, which is no polynomial.
        noise: The standard deviation σ of the noise.

    Example:
        >>> import jax
        >>> print(low_rank_polynomial(jax.random.key(0), 5, dimension=3))
        5 samples (3,) ─► (1,): x ~ N(0, I) in 3 dimensions, y = x₁x₂ + 0.1 · N(0, 1). \
Source: synthetic.
    """
    _check(rank, dimension)
    teacher, law = polynomial_teacher(rank), Gaussian((1.0,) * dimension)
    drawn = network_teacher(key, law, num_samples, lambda _, x: teacher(x), (), noise)
    words = f"x ~ N(0, I) in {dimension} dimensions, y = {_WORDS[rank]}"
    return replace(drawn, law=words + (f" + {noise:g} · N(0, 1)" if noise else ""))


def polynomial_teacher(rank: Rank) -> Callable[[Float[Array, "n d"]], Float[Array, "n 1"]]:
    """The function f* of a rank: inputs (n, d) ─► outputs (n, 1).

    Example:
        >>> polynomial_teacher(4)(jnp.array([[1.0, 2.0, 3.0, 4.0]])).tolist()
        [[33.0]]
    """

    def teacher(x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
        _check(rank, x.shape[1])
        match rank:
            case 2:
                value = x[:, 0] * x[:, 1]
            case 3:
                value = x[:, 0] * x[:, 1] * x[:, :_NUM_SUMMED].sum(axis=1)
            case 4:
                value = jnp.cumprod(x[:, :4], axis=1).sum(axis=1)
            case "full":
                value = jnp.linalg.norm(x, axis=1) / math.sqrt(x.shape[1])
        return value[:, None]

    _check_rank(rank)
    return teacher


def polynomial_moments(rank: Rank, dimension: int) -> PolynomialMoments:
    """Mean and variance of f*(x) for x ~ N(0, I_d), in closed form.

    Example:
        >>> polynomial_moments(3, 100)
        PolynomialMoments(mean=0.0, variance=14.0)
    """
    _check(rank, dimension)
    if rank == "full":
        d = dimension
        log_norm = math.lgamma((d + 1) / 2) - math.lgamma(d / 2)
        mean = math.sqrt(2 / d) * math.exp(log_norm)
        return PolynomialMoments(mean, 1 - mean**2)
    return PolynomialMoments(0.0, {2: 1.0, 3: 4.0 + _NUM_SUMMED, 4: 4.0}[rank])


def polynomial_agop(rank: Rank, dimension: int) -> Float[Array, "d d"]:
    """G* = E ∇f*(x) ∇f*(x)ᵀ for x ~ N(0, I_d), the expected gradient outer product of f*.

    Example:
        >>> polynomial_agop(2, 3).tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    _check(rank, dimension)
    gram = np.zeros((dimension, dimension))
    match rank:
        case 2:
            gram[:2, :2] = np.eye(2)
        case 3:
            # With s the sum: ∂₁f = x₂s + x₁x₂, ∂₂f = x₁s + x₁x₂, and ∂ᵢf = x₁x₂ for the others.
            gram[:_NUM_SUMMED, :_NUM_SUMMED] = 1.0
            gram[:2, :_NUM_SUMMED] = gram[:_NUM_SUMMED, :2] = 2.0
            gram[:2, :2] = 5.0 + _NUM_SUMMED * np.eye(2)
        case 4:
            gram[:4, :4] = np.diag([4.0, 3.0, 2.0, 1.0])
        case "full":
            gram = np.eye(dimension) / dimension**2
    return jnp.asarray(gram)


def _check(rank: Rank, dimension: int) -> None:
    """Refuse an unknown rank, and too few dimensions for a known one."""
    _check_rank(rank)
    if dimension < _FEWEST[rank]:
        raise ValueError(
            f"dimension must be at least {_FEWEST[rank]} for rank {rank}, got {dimension}."
        )


def _check_rank(rank: Rank) -> None:
    if rank not in _FEWEST:
        raise ValueError(f'rank must be 2, 3, 4 or "full", got {rank!r}.')
