"""A network's Taylor expansion in its parameters, as a network of its own.

With Δ = w − w₀ and the gradient ∇f and Hessian H of the outputs at w₀, per input x:

    linearize    f_lin(w; x)  = f(w₀; x) + Δᵀ∇f(w₀; x)
    quadratize   f_quad(w; x) = f_lin(w; x) + ½ ΔᵀH(w₀; x)Δ
    taylor       Σ_{j ≤ order} 1/j! dʲ/dsʲ f(w₀ + sΔ; x) at s = 0

All are again an `apply`, trained like any other; w₀ stays where it was. Neither ∇f nor H is ever
stored: derivatives are taken along Δ only.

Source: zhu · taylor-models · Eqs 3.1–3.2.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array

from theorylab.typing import Apply, Inputs, Params, Reduction

from .own_network import check_called_again, check_finite, check_params, in_float32, reduced


def linearize(apply: Apply, params: Params, *, outputs: Reduction | None = None) -> Apply:
    """Expand a network to first order around `params`.

    Args:
        apply: The network f(w; x).
        params: The point of expansion w₀; those of 16 bits are taken as float32.
        outputs: What reduces the network's outputs, such as `lambda f: f[:, -1]`.

    Example:
        >>> import jax.numpy as jnp
        >>> cube = linearize(lambda w, x: w**3 * x, jnp.asarray(1.0))
        >>> float(cube(jnp.asarray(1.5), jnp.asarray(1.0)))
        2.5
    """
    params = _point(params)
    network = reduced(apply, outputs)

    def apply_linear(new_params: Params, x: Inputs) -> Array:
        check_called_again(network, params, x)
        delta = _difference(new_params, params)
        value, first = jax.jvp(lambda w: network(w, x), (params,), (delta,))
        return value + first

    return apply_linear


def quadratize(apply: Apply, params: Params, *, outputs: Reduction | None = None) -> Apply:
    """Expand a network to second order around `params`.

    Args:
        apply: The network f(w; x).
        params: The point of expansion w₀; those of 16 bits are taken as float32.
        outputs: What reduces the network's outputs, such as `lambda f: f[:, -1]`.

    Example:
        >>> import jax.numpy as jnp
        >>> cube = quadratize(lambda w, x: w**3 * x, jnp.asarray(1.0))
        >>> float(cube(jnp.asarray(1.5), jnp.asarray(1.0)))
        3.25
    """
    params = _point(params)
    network = reduced(apply, outputs)

    def apply_quadratic(new_params: Params, x: Inputs) -> Array:
        check_called_again(network, params, x)
        delta = _difference(new_params, params)

        def expand(w: Params) -> tuple[Array, Array]:
            return jax.jvp(lambda w: network(w, x), (w,), (delta,))

        (value, first), (_, second) = jax.jvp(expand, (params,), (delta,))
        return value + first + second / 2

    return apply_quadratic


def _point(params: Params) -> Params:
    """The point of expansion, if it is one."""
    check_params(params)
    check_finite(params)
    return in_float32(params)


def taylor(apply: Apply, params: Params, order: int, *, outputs: Reduction | None = None) -> Apply:
    """Expand a network to any order around `params`.

    One order more costs about twice as much.

    Args:
        apply: The network f(w; x).
        params: The point of expansion w₀.
        order: The highest power of Δ, at least 0.
        outputs: What reduces the network's outputs.

    Example: a cube is its expansion to third order.
        >>> import jax.numpy as jnp
        >>> cube = taylor(lambda w, x: w**3 * x, jnp.asarray(1.0), order=3)
        >>> float(cube(jnp.asarray(1.5), jnp.asarray(1.0)))
        3.375
    """
    if order < 0:
        raise ValueError(f"order must be at least 0, got {order}.")
    params = _point(params)
    network = reduced(apply, outputs)

    def apply_expanded(new_params: Params, x: Inputs) -> Array:
        check_called_again(network, params, x)
        delta = _difference(new_params, params)

        def derivatives(w: Params, highest: int) -> tuple[Array, ...]:
            """All derivatives along Δ, up to the highest."""
            if highest == 0:
                return (network(w, x),)
            values, changes = jax.jvp(lambda w: derivatives(w, highest - 1), (w,), (delta,))
            return (*values, changes[-1])

        first, *others = derivatives(params, order)
        higher = (term / math.factorial(j) for j, term in enumerate(others, start=1))
        return sum(higher, start=first)

    return apply_expanded


def _difference(new_params: Params, params: Params) -> Params:
    shapes, expected = (jax.tree.map(jnp.shape, tree) for tree in (new_params, params))
    if shapes != expected:
        raise ValueError(f"parameters must have the shapes {expected}, got {shapes}.")
    return jax.tree.map(lambda new, old: new - old, new_params, params)
