"""Second derivatives as operators: what they do to a direction, without any matrix.

    hessian         v ─► ∇²f(w) v             forward over reverse: the derivative of ∇f along v
    gauss_newton    v ─► Jᵀ ∇²ℓ(f(w)) J v     J the Jacobian of the outputs f, ℓ their loss

The Gauss–Newton operator is what remains of the Hessian of ℓ(f(w)) without ∇²f; both agree where
the network is linear in w or where it fits (∇ℓ = 0). One application costs a few gradients.

Source: arora · sharpness · §2.6.
"""

from collections.abc import Callable

import jax
from jaxtyping import Array, Float

from theorylab.typing import Params

Operator = Callable[[Params], Params]  # linear and symmetric


def hessian(objective: Callable[[Params], Float[Array, ""]], params: Params) -> Operator:
    """Give v ─► ∇²f(w) v.

    Args:
        objective: f(w), a scalar.
        params: w, any pytree.

    Example:
        >>> import jax.numpy as jnp
        >>> curve = hessian(lambda w: w[0] ** 2 * w[1], jnp.array([1.0, 3.0]))
        >>> curve(jnp.array([1.0, 0.0])).tolist()
        [6.0, 2.0]
    """
    return lambda vector: jax.jvp(jax.grad(objective), (params,), (vector,))[1]


def gauss_newton(
    outputs: Callable[[Params], Array],
    loss: Callable[[Array], Float[Array, ""]],
    params: Params,
) -> Operator:
    """Give v ─► Jᵀ ∇²ℓ J v for the objective ℓ(f(w)).

    Args:
        outputs: f, the outputs on fixed inputs as a function of the parameters.
        loss: ℓ, the loss as a function of the outputs.
        params: w, any pytree.
    """

    def product(vector: Params) -> Params:
        values, change = jax.jvp(outputs, (params,), (vector,))
        bent = hessian(loss, values)(change)
        (result,) = jax.vjp(outputs, params)[1](bent)
        return result

    return product
