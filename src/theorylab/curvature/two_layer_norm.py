"""The Hessian norm of a two-layer network, exactly, at every width.

For f = (1/√m) Σᵢ vᵢ φ(zᵢ), zᵢ = uᵢᵀx/√d, the Hessian has one block for every neuron. With

    aᵢ = vᵢ φ″(zᵢ) ‖x‖²/d,    bᵢ = φ′(zᵢ) ‖x‖/√d

its eigenvalues are ½(aᵢ ± √(aᵢ² + 4bᵢ²))/√m and zeros, so that

    ‖∇²f‖ = max |aᵢ| + √(aᵢ² + 4bᵢ²) over 2√m

For ReLU this is ‖x‖/√(md) as soon as one neuron is open.

Source: zhu · hessian-norm · exact finite-width values.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models import activation
from theorylab.models.activations import Elementwise


def two_layer_norm(
    inner: Float[Array, "d m"],
    outer: Float[Array, " m"],
    x: Float[Array, " d"],
    function: str | Elementwise = "relu",
) -> Float[Array, ""]:
    """Compute ‖∇²f‖ in all weights.

    Args:
        inner: The weights u, a column for every neuron.
        outer: The weights v.
        x: One input.
        function: φ, by name or as a function.

    Example:
        >>> float(two_layer_norm(jnp.ones((4, 9)), jnp.ones(9), jnp.array([3.0, 0, 0, 0])))
        0.5
    """
    phi, (d, m) = activation(function), inner.shape
    z = x @ inner / jnp.sqrt(d)
    first, second = jax.grad(phi), jax.grad(jax.grad(phi))
    square = jnp.vdot(x, x) / d
    a = outer * jax.vmap(second)(z) * square
    b = jax.vmap(first)(z) * jnp.sqrt(square)
    return jnp.max(jnp.abs(a) + jnp.sqrt(a**2 + 4 * b**2)) / (2 * jnp.sqrt(m))
