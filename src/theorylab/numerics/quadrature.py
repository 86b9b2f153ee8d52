"""Gaussian expectations by Gauss–Hermite quadrature, in one and two dimensions.

    E f(u)     u ~ N(0, v)
    E f(u, v)  (u, v) ~ N(0, Σ),  u = √Σ₁₁ z₁,  v = √Σ₂₂ (ρ z₁ + √(1 - ρ²) z₂)

With n nodes it is exact for polynomials of degree 2n - 1 in each z, and converges geometrically
for analytic f; a kink (ReLU) leaves an error of order 1/n.
"""

from collections.abc import Callable
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from theorylab.typing import Scalar


def gauss_hermite(num_nodes: int) -> tuple[Float[Array, " nodes"], Float[Array, " nodes"]]:
    """Nodes zᵢ and weights wᵢ with Σᵢ wᵢ f(zᵢ) = E f(z), z ~ N(0, 1).

    Example:
        >>> nodes, weights = gauss_hermite(3)
        >>> round(float(weights @ nodes**4), 5)
        3.0
    """
    if num_nodes < 1:
        raise ValueError(f"num_nodes must be at least 1, got {num_nodes}.")
    nodes, weights = _rule(num_nodes)
    return jnp.asarray(nodes), jnp.asarray(weights)


def expectation(
    f: Callable[[Array], Array],
    variance: Scalar | Float[Array, "..."] = 1.0,
    num_nodes: int = 64,
) -> Float[Array, "..."]:
    """E f(u) for u ~ N(0, variance), for every entry of `variance`.

    Args:
        f: Acts on each entry of an array.
        variance: At least 0; at 0 the value is f(0).
        num_nodes: How many nodes n.

    Example:
        >>> round(float(expectation(lambda u: u**4, variance=2.0)), 4)
        12.0
    """
    z, w = gauss_hermite(num_nodes)
    deviation = jnp.sqrt(jnp.asarray(variance, dtype=z.dtype))
    return f(jnp.multiply.outer(deviation, z)) @ w


def expectation2(
    f: Callable[[Array, Array], Array],
    covariance: Float[Array, "*batch 2 2"],
    num_nodes: int = 64,
) -> Float[Array, "*batch"]:
    """E f(u, v) for (u, v) ~ N(0, covariance), for every 2 × 2 matrix of the batch.

    Args:
        f: Acts on each pair of entries of two arrays.
        covariance: Positive semidefinite; correlations ±1 and variances 0 are allowed.
        num_nodes: How many nodes n for each of the two directions.

    Example:
        >>> covariance = jnp.array([[1.0, 0.5], [0.5, 1.0]])
        >>> round(float(expectation2(lambda u, v: u**2 * v**2, covariance)), 5)
        1.5
    """
    z, w = gauss_hermite(num_nodes)
    deviation_u, deviation_v = jnp.sqrt(covariance[..., 0, 0]), jnp.sqrt(covariance[..., 1, 1])
    scale = deviation_u * deviation_v
    rho = jnp.where(scale > 0, covariance[..., 0, 1] / jnp.where(scale > 0, scale, 1.0), 0.0)
    rho = jnp.clip(rho, -1.0, 1.0)  # rounding may leave the interval
    along, across = jnp.multiply.outer(rho, z), jnp.multiply.outer(jnp.sqrt(1 - rho**2), z)
    u = jnp.multiply.outer(deviation_u, z)[..., :, None]
    v = deviation_v[..., None, None] * (along[..., :, None] + across[..., None, :])
    return f(jnp.broadcast_to(u, v.shape), v) @ w @ w


@lru_cache
def _rule(num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = special.roots_hermitenorm(num_nodes)
    return nodes, weights / np.sqrt(2 * np.pi)
