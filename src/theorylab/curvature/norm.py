"""Spectral norm: the largest magnitude of an eigenvalue, by Lanczos.

    ‖A‖ = max |λ|

The eigenvalues of a network's Hessian come in pairs ± λ, nearly: v and the directions of the other
layers may turn the sign. Power iteration swings between the two and stops nowhere; Lanczos finds
both.

Source: zhu · hessian-norm · Thm 2.3.6, Measure.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.models.own_network import widened
from theorylab.numerics import eigenpairs
from theorylab.typing import Params, RandomKey, check_key

from .operators import Operator


class SpectralNorm(Answer, errors={"value": "residual"}, labels={"value": "norm ‖A‖"}):
    """The largest |λ| found, never above ‖A‖; some eigenvalue's |λ| lies within the residual.

    Example:
        >>> import jax
        >>> found = spectral_norm(lambda v: -3 * v, jnp.zeros(2), jax.random.key(0))
        >>> round(float(found.value), 4), bool(found.residual < 1e-4)
        (3.0, True)
    """

    value: Float[Array, ""]
    residual: Float[Array, ""]


def spectral_norm(
    operator: Operator, like: Params, key: RandomKey, num_steps: int = 30
) -> SpectralNorm:
    """Compute ‖A‖ = max |λ|; it can be jitted, mapped, and measured while a network trains.

    Args:
        operator: A, symmetric: `hessian`, `output_hessian`, a `block` of them, ...
        like: A vector that A can act on, such as the parameters, for its shape.
        key: Draws the direction where Lanczos starts.
        num_steps: How many times to apply A, and once more for the residual.

    Example:
        >>> import jax
        >>> pair = lambda v: v[::-1]  # eigenvalues 1 and -1
        >>> round(float(spectral_norm(pair, jnp.zeros(2), jax.random.key(0)).value), 6)
        1.0
    """
    check_key(key)
    largest = eigenpairs(operator, widened(like), 1, num_steps, key, "magnitude")
    return SpectralNorm(jnp.abs(largest.values[0]), largest.residuals[0])
