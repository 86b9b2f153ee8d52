"""The hyperbolic entropy R_α, a potential between the ℓ₂ and the ℓ₁ norm, and its mirror flow.

    R_α(w)         = α²/4 Σ q(wᵢ/α²),   q(z) = 2 − √(4 + z²) + z arcsinh(z/2)
    ∇R_α(w)        = ¼ arcsinh(w / 2α²)
    (∇²R_α(w))⁻¹   = 4 √(w² + 4α⁴)                      (a diagonal matrix)
    mirror flow      dw/dt = −(∇²R_α(w))⁻¹ ∇L(w)

If the loss goes to 0 from w = 0, the flow ends at the minimiser of R_α among the solutions: that of
the ℓ₂ norm for large α, nearly that of the ℓ₁ norm for small α. (The source's Equation 8.18 lacks
the factor 1/4 of ∇R_α.)

Source: arora · reparam-mirror · §8.1.3, Theorem 8.1.7.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Scalar

Weights = Float[Array, " d"]


def hyperbolic_entropy(weights: Weights, scale: Scalar) -> Float[Array, ""]:
    """R_α(w) = α²/4 Σ q(wᵢ/α²), with q(z) = 2 − √(4 + z²) + z arcsinh(z/2).

    Example: 0 at w = 0, and w²/16α² for small w.
        >>> [round(float(hyperbolic_entropy(jnp.array([w]), 1.0)), 6) for w in (0.0, 0.1)]
        [0.0, 0.000625]
    """
    z = weights / scale**2
    # 2 − √(4 + z²), without the cancellation at small z.
    difference = -(z**2) / (2 + jnp.sqrt(4 + z**2))
    return scale**2 / 4 * jnp.sum(difference + z * jnp.arcsinh(z / 2))


def mirror_map(weights: Weights, scale: Scalar) -> Weights:
    """∇R_α(w) = ¼ arcsinh(w / 2α²): from weights to dual variables.

    Example: ¼ arcsinh 1 at w = 2α².
        >>> round(float(mirror_map(jnp.array([2.0]), scale=1.0)[0]), 4)
        0.2203
    """
    return jnp.arcsinh(weights / (2 * scale**2)) / 4


def inverse_mirror_map(dual: Weights, scale: Scalar) -> Weights:
    """(∇R_α)⁻¹(z) = 2α² sinh(4z): from dual variables to weights.

    Example:
        >>> dual = mirror_map(jnp.array([-1.0, 2.0]), scale=0.1)
        >>> [round(float(w), 4) for w in inverse_mirror_map(dual, scale=0.1)]
        [-1.0, 2.0]
    """
    return 2 * scale**2 * jnp.sinh(4 * dual)


def mirror_speed(weights: Weights, scale: Scalar) -> Weights:
    """The diagonal of (∇²R_α(w))⁻¹ = 4 √(w² + 4α⁴).

    Example: 8α² at w = 0, and 4|w| far away.
        >>> mirror_speed(jnp.array([0.0, 1000.0]), scale=1.0).round(1).tolist()
        [8.0, 4000.0]
    """
    return 4 * jnp.sqrt(weights**2 + 4 * scale**4)


def mirror_velocity(
    loss: Callable[[Weights], Float[Array, ""]], weights: Weights, scale: Scalar
) -> Weights:
    """dw/dt = −(∇²R_α(w))⁻¹ ∇L(w).

    Example: down the gradient, at the speed 8α² at w = 0.
        >>> mirror_velocity(lambda w: 3.0 * w[0] + w[1], jnp.zeros(2), scale=1.0).tolist()
        [-24.0, -8.0]
    """
    return -mirror_speed(weights, scale) * jax.grad(loss)(weights)
