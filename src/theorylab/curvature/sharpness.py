"""Sharpness: the largest eigenvalue of the Hessian, by Lanczos.

    λ_max(∇²f(w)), with its sign

The power method would give the eigenvalue of the largest magnitude, which may be a negative one
early in training; Lanczos finds the largest, and the residual ‖∇²f v − λv‖ says how near an
eigenvalue is for certain.

Source: arora · sharpness · §2.6.
"""

from collections.abc import Callable

from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.models.own_network import in_float32
from theorylab.numerics import eigenpairs
from theorylab.typing import Params, RandomKey, check_key

from .operators import hessian


class Sharpness(Answer, errors={"value": "residual"}, labels={"value": "sharpness λ_max"}):
    """The largest Hessian eigenvalue; an eigenvalue lies within the residual of it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> found = sharpness(lambda w: 3 * w @ w, jnp.ones(2), jax.random.key(0))
        >>> round(float(found.value), 4), bool(found.residual < 1e-4)
        (6.0, True)
        >>> found
        Sharpness(value=6 ± ...)
    """

    value: Float[Array, ""]
    residual: Float[Array, ""]


def sharpness(
    objective: Callable[[Params], Float[Array, ""]],
    params: Params,
    key: RandomKey,
    num_steps: int = 20,
) -> Sharpness:
    """Compute λ_max(∇²f(w)); it can be jitted, mapped, and measured while a network trains.

    Args:
        objective: f(w), a scalar, and one function: without live dropout.
        params: w, any pytree; those of 16 bits are taken as float32.
        key: Draws the direction where Lanczos starts.
        num_steps: How many Hessian–vector products to spend, and one more for the residual.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> saddle = lambda w: w[0] ** 2 - 2 * w[1] ** 2
        >>> round(float(sharpness(saddle, jnp.ones(2), jax.random.key(0)).value), 6)
        2.0
    """
    check_key(key)
    params = in_float32(params)
    largest = eigenpairs(hessian(objective, params), params, 1, num_steps, key)
    return Sharpness(largest.values[0], largest.residuals[0])
