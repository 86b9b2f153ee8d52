"""Trainability: how fast gradient descent can be, from the spectrum of the tangent kernel.

Mode k of the error falls by 1 − ηλ_k a step, and η < 2/λ₁ lest the first one grows. So with
eigenvalues λ₁ ≥ … ≥ λ_m, the slowest mode needs some λ₁/λ_m steps whatever η is:

    κ = λ_m/λ₁,        1 is the best, 0 means directions that are never learned.

(The source calls κ a condition number; it is the inverse of the usual one.)

Source: golikov · ntk-nas · 2.6.1.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def trainability(kernel: Float[Array, "n n"]) -> Float[Array, ""]:
    """κ = λ_m/λ₁ of a symmetric kernel, between 0 and 1; an eigenvalue below 0 counts as 0.

    Example:
        >>> float(trainability(jnp.diag(jnp.array([4.0, 1.0]))))
        0.25
    """
    eigenvalues = jnp.linalg.eigvalsh(kernel)
    largest = eigenvalues[-1]
    # A kernel that vanishes trains nothing.
    ratio = jnp.maximum(eigenvalues[0], 0.0) / jnp.where(largest > 0, largest, 1.0)
    return jnp.where(jnp.isnan(largest), jnp.nan, ratio)
