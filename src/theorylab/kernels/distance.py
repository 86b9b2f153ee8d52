"""How far one kernel matrix is from another, in three ways.

    relative Frobenius    ‖K − K*‖_F / ‖K*‖_F
    relative spectral     ‖K − K*‖₂ / ‖K*‖₂
    alignment             ⟨K, K*⟩ / (‖K‖_F ‖K*‖_F), the cosine of their angle

The kernel distance ρ of the source is 1 − alignment.

Source: golikov · std-param-evolution · 2.7.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def relative_frobenius(
    kernel: Float[Array, "n m"], reference: Float[Array, "n m"]
) -> Float[Array, ""]:
    """‖K − K*‖_F / ‖K*‖_F.

    Args:
        kernel: K.
        reference: K*, not zero.

    Example:
        >>> float(relative_frobenius(1.5 * jnp.eye(3), jnp.eye(3)))
        0.5
    """
    _check_shapes(kernel, reference)
    return jnp.linalg.norm(kernel - reference) / jnp.linalg.norm(reference)


def relative_spectral(
    kernel: Float[Array, "n m"], reference: Float[Array, "n m"]
) -> Float[Array, ""]:
    """‖K − K*‖₂ / ‖K*‖₂, with the largest singular value for a norm.

    Args:
        kernel: K.
        reference: K*, not zero.

    Example:
        >>> float(relative_spectral(1.5 * jnp.eye(3), jnp.eye(3)))
        0.5
    """
    _check_shapes(kernel, reference)
    return jnp.linalg.norm(kernel - reference, 2) / jnp.linalg.norm(reference, 2)


def alignment(kernel: Float[Array, "n m"], reference: Float[Array, "n m"]) -> Float[Array, ""]:
    """⟨K, K*⟩ / (‖K‖_F ‖K*‖_F): 1 for kernels that differ in scale only, 0 for orthogonal ones.

    Args:
        kernel: K, not zero.
        reference: K*, not zero.

    Example: one kernel of another scale, and an orthogonal one.
        >>> kernel, other = jnp.diag(jnp.array([1.0, 0.0])), jnp.diag(jnp.array([0.0, 1.0]))
        >>> float(alignment(3 * kernel, kernel)), float(alignment(kernel, other))
        (1.0, 0.0)
    """
    _check_shapes(kernel, reference)
    scale = jnp.linalg.norm(kernel) * jnp.linalg.norm(reference)
    return jnp.vdot(kernel, reference) / scale


def _check_shapes(kernel: Array, reference: Array) -> None:
    if kernel.ndim != 2 or kernel.shape != reference.shape:
        raise ValueError(
            f"kernels must be matrices of one shape, got {kernel.shape} and {reference.shape}."
        )
