"""Training with a price on the average gradient outer product G of the network.

    L(w) + α tr G(w) + β ‖G(w)‖_F,    G = (1/n) Σᵢ J(xᵢ)ᵀJ(xᵢ) on the same inputs

tr G = (1/n) Σᵢ ‖J(xᵢ)‖_F² charges every direction of the inputs alike; ‖G‖_F charges those most in
which the network changes most. Directions of descent come from differentiating twice.

Source: zhu · ext-* · Ch. 5 (ext-agop-reg), where the question is asked and not answered.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Apply, Params, Scalar

from .agop import agop

Risk = Callable[[Params, Array, Array], Float[Array, ""]]  # of parameters, inputs and targets


def agop_penalty(
    apply: Apply,
    params: Params,
    x: Float[Array, "n ..."],
    trace: Scalar = 0.0,
    frobenius: Scalar = 0.0,
) -> Float[Array, ""]:
    """α tr G + β ‖G‖_F; it can be differentiated by the parameters.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: Its parameters, any pytree.
        x: The inputs.
        trace: α.
        frobenius: β.

    Example:
        >>> w = jnp.array([[3.0], [4.0]])
        >>> float(agop_penalty(lambda w, x: x @ w, w, jnp.ones((5, 2)), trace=1.0, frobenius=2.0))
        75.0
    """
    features = agop(apply, params, x)
    return trace * jnp.trace(features) + frobenius * jnp.linalg.norm(features)


def penalized(risk: Risk, apply: Apply, trace: Scalar = 0.0, frobenius: Scalar = 0.0) -> Risk:
    """Add the price to a risk, which any of `theorylab.training` then minimises.

    Args:
        risk: L(w; x, y), such as `empirical_risk(loss, apply)`.
        apply: The network.
        trace: α.
        frobenius: β.

    Example:
        >>> network, weights = lambda w, x: x @ w, jnp.array([[3.0], [4.0]])
        >>> risk = lambda w, x, y: jnp.mean((network(w, x) - y) ** 2)
        >>> dearer = penalized(risk, network, trace=1.0)
        >>> float(dearer(weights, jnp.ones((5, 2)), jnp.full((5, 1), 7.0)))
        25.0
    """

    def dearer(params: Params, x: Array, y: Array) -> Float[Array, ""]:
        return risk(params, x, y) + agop_penalty(apply, params, x, trace, frobenius)

    return dearer
