"""Random symmetric matrices with a given spectrum."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import RandomKey


def rotated(key: RandomKey, values: Float[Array, " p"]) -> Float[Array, "p p"]:
    """A matrix with these eigenvalues, in a random basis."""
    size = len(values)
    basis, _ = jnp.linalg.qr(jax.random.normal(key, (size * size,)).reshape(size, size))
    return (basis * values[None, :]) @ basis.T
