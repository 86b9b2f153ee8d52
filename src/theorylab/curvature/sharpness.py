"""Sharpness: the largest eigenvalue of the Hessian, by Lanczos.

    λ_max(∇²f(w)), with its sign

The power method would give the eigenvalue of the largest magnitude, which may be a negative one
early in training; Lanczos finds the largest. The residual ‖∇²f v − λv‖ says how near an eigenvalue
is for certain, and the bound how near the largest one is: it takes the products that a tolerance
asks for, which no program knows before, so inside of compiled programs their number is given.

Source: arora · sharpness · §2.6.
"""

from collections.abc import Callable

from jaxtyping import Array, Float

from theorylab.answers import Answer, fixed
from theorylab.models.own_network import in_float32
from theorylab.numerics import certified_eigenpairs, eigenpairs
from theorylab.numerics.counted import is_traced
from theorylab.typing import Params, RandomKey, check_key

from .operators import Operator, hessian

_COMPILED_STEPS = 20


class Sharpness(Answer, errors={"value": "bound"}, labels={"value": "sharpness λ_max"}):
    """The largest Hessian eigenvalue: it is at most the bound above the value.

    With a given number of steps there is no bound: an eigenvalue lies within the residual.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> found = sharpness(lambda w: 3 * w @ w, jnp.ones(2), jax.random.key(0))
        >>> round(float(found.value), 4), bool(found.bound < 1e-4), found.products
        (6.0, True, 1)
        >>> found
        Sharpness(value=6 ± ...)
    """

    value: Float[Array, ""]
    residual: Float[Array, ""]
    bound: Float[Array, ""] | None = None
    products: int = fixed(default=0)
    converged: bool = fixed(default=False)
    needed: int = fixed(default=0)


def sharpness(
    objective: Callable[[Params], Float[Array, ""]],
    params: Params,
    key: RandomKey,
    num_steps: int | None = None,
    tolerance: float = 0.01,
    budget: int = 200,
) -> Sharpness:
    """Compute λ_max(∇²f(w)), with products until it is certain to a tolerance, or of a number.

    Without `num_steps` the answer's bound holds except with probability 10⁻³; if the budget ends
    before the tolerance is met, it says so and about how many products would do. With it the
    function can be jitted, mapped, and measured while a network trains; there, 20 steps are the
    default.

    Args:
        objective: f(w), a scalar, and one function: without live dropout.
        params: w, any pytree; those of 16 bits are taken as float32.
        key: Draws the direction where Lanczos starts.
        num_steps: How many Hessian–vector products to spend, and one more for the residual.
        tolerance: How large the bound may be, relative to the value; not looked at with
            `num_steps`.
        budget: The greatest number of Hessian–vector products, without `num_steps`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> saddle = lambda w: w[0] ** 2 - 2 * w[1] ** 2
        >>> round(float(sharpness(saddle, jnp.ones(2), jax.random.key(0)).value), 6)
        2.0
    """
    check_key(key)
    params = in_float32(params)
    return of_operator(hessian(objective, params), params, num_steps, tolerance, budget, key)


def of_operator(
    operator: Operator,
    params: Params,
    num_steps: int | None,
    tolerance: float,
    budget: int,
    key: RandomKey,
) -> Sharpness:
    """The largest eigenvalue of a Hessian that is made already.

    Args:
        operator: v ─► ∇²f(w) v.
        params: w, for its shape.
        num_steps: How many products, or None: as many as the tolerance asks for.
        tolerance: How large the bound may be, relative to the value.
        budget: The greatest number of products, without `num_steps`.
        key: Draws the direction where Lanczos starts.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> double = lambda v: 2.0 * v
        >>> float(of_operator(double, jnp.ones(2), None, 0.01, 9, jax.random.key(0)).value)
        2.0
    """
    if num_steps is None and not is_traced((params, key)):
        settings = {"tolerance": tolerance, "budget": budget}
        found = certified_eigenpairs(operator, params, 1, key, **settings)
        value, residual, bound = found.values[0], found.residuals[0], found.bounds[0]
        return Sharpness(value, residual, bound, found.products, found.converged, found.needed)
    steps = _COMPILED_STEPS if num_steps is None else num_steps
    largest = eigenpairs(operator, params, 1, steps, key)
    return Sharpness(largest.values[0], largest.residuals[0])
