"""Spectral norm: the largest magnitude of an eigenvalue, by Lanczos.

    ‖A‖ = max |λ|

The eigenvalues of a network's Hessian come in pairs ± λ, nearly: v and the directions of the other
layers may turn the sign. Power iteration swings between the two and stops nowhere; Lanczos finds
both. The residual says how near an eigenvalue is for certain, the bound how near the one of largest
magnitude is: it takes the products that a tolerance asks for, or a number of them where compiled.

Source: zhu · hessian-norm · Thm 2.3.6, Measure.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.answers import Answer, fixed
from theorylab.models.own_network import widened
from theorylab.numerics import certified_eigenpairs, eigenpairs
from theorylab.numerics.counted import is_traced
from theorylab.typing import Params, RandomKey, check_key

from .operators import Operator

_COMPILED_STEPS = 30


class SpectralNorm(Answer, errors={"value": "bound"}, labels={"value": "norm ‖A‖"}):
    """The largest |λ| found, never above ‖A‖, which is at most the bound above it.

    With a given number of steps there is no bound: some eigenvalue's |λ| lies within the residual.

    Example:
        >>> import jax
        >>> found = spectral_norm(lambda v: -3 * v, jnp.zeros(2), jax.random.key(0))
        >>> round(float(found.value), 4), bool(found.bound < 1e-4), found.products
        (3.0, True, 1)
    """

    value: Float[Array, ""]
    residual: Float[Array, ""]
    bound: Float[Array, ""] | None = None
    products: int = fixed(default=0)
    converged: bool = fixed(default=False)
    needed: int = fixed(default=0)


def spectral_norm(
    operator: Operator,
    like: Params,
    key: RandomKey,
    num_steps: int | None = None,
    tolerance: float = 0.01,
    budget: int = 200,
) -> SpectralNorm:
    """Compute ‖A‖ = max |λ|, with products until it is certain to a tolerance, or of a number.

    Without `num_steps` the answer's bound holds except with probability 10⁻³; if the budget ends
    before the tolerance is met, it says so and about how many products would do. With it the
    function can be jitted, mapped, and measured while a network trains; there, 30 steps are the
    default.

    Args:
        operator: A, symmetric: `hessian`, `output_hessian`, a `block` of them, ...
        like: A vector that A can act on, such as the parameters, for its shape.
        key: Draws the direction where Lanczos starts.
        num_steps: How many times to apply A, and once more for the residual.
        tolerance: How large the bound may be, relative to the value; not looked at with
            `num_steps`.
        budget: The greatest number of times to apply A, without `num_steps`.

    Example:
        >>> import jax
        >>> pair = lambda v: v[::-1]  # eigenvalues 1 and -1
        >>> round(float(spectral_norm(pair, jnp.zeros(2), jax.random.key(0)).value), 6)
        1.0
    """
    check_key(key)
    like = widened(like)
    if num_steps is None and not is_traced((like, key)):
        settings = {"which": "magnitude", "tolerance": tolerance, "budget": budget}
        found = certified_eigenpairs(operator, like, 1, key, **settings)
        value, residual, bound = jnp.abs(found.values[0]), found.residuals[0], found.bounds[0]
        return SpectralNorm(value, residual, bound, found.products, found.converged, found.needed)
    steps = _COMPILED_STEPS if num_steps is None else num_steps
    largest = eigenpairs(operator, like, 1, steps, key, "magnitude")
    return SpectralNorm(jnp.abs(largest.values[0]), largest.residuals[0])
