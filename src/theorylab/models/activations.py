"""Activations by name: the function φ that acts on every coordinate of h = Wx + b.

At a kink the derivative is a convention: here relu'(0) = 0 and leaky_relu'(0) = abs'(0) = 1, as in
JAX, and second derivatives are 0. The source writes relu'(z) = 1{z ≥ 0}, which differs at z = 0
only. `gelu` is exact: z Φ(z), with Φ the normal distribution function.

Source: zhu · taylor-models · Eqs 3.1–3.2 (the derivative at a kink).
"""

import difflib
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Elementwise = Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]

ACTIVATIONS: dict[str, Elementwise] = {
    "identity": lambda z: z,
    "relu": jax.nn.relu,
    "leaky_relu": lambda z: jax.nn.leaky_relu(z, negative_slope=0.01),
    "abs": jnp.abs,
    "erf": jax.scipy.special.erf,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "gelu": lambda z: jax.nn.gelu(z, approximate=False),
    "softplus": jax.nn.softplus,
    "swish": jax.nn.silu,
    "sine": jnp.sin,
    "cosine": jnp.cos,
    "square": lambda z: z**2,
    "cube": lambda z: z**3,
    "relu_squared": lambda z: jax.nn.relu(z) ** 2,
}


def activation(name: str | Elementwise) -> Elementwise:
    """Find an activation by its name; a function is its own.

    Example:
        >>> float(activation("relu")(jnp.asarray(-2.0)))
        0.0
        >>> activation("rleu")
        Traceback (most recent call last):
        ValueError: activation must be a known name, got 'rleu'. Nearest: relu.
    """
    if callable(name):
        return name
    if name not in ACTIVATIONS:
        nearest = difflib.get_close_matches(name.lower(), ACTIVATIONS, n=3) or sorted(ACTIVATIONS)
        raise ValueError(
            f"activation must be a known name, got {name!r}. Nearest: {', '.join(nearest)}."
        )
    return ACTIVATIONS[name]
