"""Linear models under gradient descent: every error direction shrinks or grows by itself.

    f(t) − y = (I − ηK)ᵗ (f(0) − y)

With the loss ½ Σᵢ (fᵢ − yᵢ)² and the constant kernel K = ∇f ∇fᵀ of n samples, the error along the
eigenvector with eigenvalue λ is multiplied by 1 − ηλ in every step. So all errors vanish if and
only if 0 < η < 2/λ_max(K); beyond, the top direction diverges, whatever the width.

Source: zhu · linear-dynamics · Eqs 3.7–3.8.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from theorylab.typing import Scalar


def outputs(
    kernel: Float[Array, "n n"],
    initial: Float[Array, "n k"],
    targets: Float[Array, "n k"],
    learning_rate: Scalar,
    steps: Int[Array, " t"],
) -> Float[Array, "t n k"]:
    """Predict the outputs f(t) = y + (I − ηK)ᵗ (f(0) − y) at chosen steps, in closed form.

    Args:
        kernel: The kernel K, symmetric.
        initial: The outputs f(0).
        targets: The targets y.
        learning_rate: The step size η, for the loss ½ Σᵢ ‖fᵢ − yᵢ‖².
        steps: The numbers of steps t.

    Example:
        >>> half = outputs(jnp.eye(1), jnp.ones((1, 1)), jnp.zeros((1, 1)), 0.5, jnp.arange(3))
        >>> half.ravel().tolist()
        [1.0, 0.5, 0.25]
    """
    eigenvalues, directions = jnp.linalg.eigh(kernel)
    # A whole power of a negative number: `integer_pow` is exact in sign, exp(t log) is not defined.
    factors = (1 - learning_rate * eigenvalues)[None, :] ** steps[:, None]
    errors = directions.T @ (initial - targets)
    return targets[None] + jnp.einsum("ip,tp,pk->tik", directions, factors, errors)


def critical_learning_rate(kernel: Float[Array, "n n"]) -> Float[Array, ""]:
    """Give 2/λ_max(K), up to which gradient descent on ½ Σᵢ ‖fᵢ − yᵢ‖² converges."""
    return 2 / jnp.linalg.eigvalsh(kernel)[-1]
