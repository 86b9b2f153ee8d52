"""Activations by name: the function φ that acts on every coordinate of h = Wx + b.

Those with Gaussian integrals in closed form are members of `families`, where the derivative at a
kink is stated; `tanh`, `sigmoid`, `softplus` and `silu` are functions of JAX. Some have two names:
`sin` and `sine`, `cos` and `cosine`, `exp` and `exponential`, `silu` and `swish`, `linear` and
`identity`.
"""

import difflib
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .families import (
    GELU,
    Abs,
    Cosine,
    Erf,
    Exponential,
    Gabor,
    GaussianActivation,
    Identity,
    LeakyReLU,
    Monomial,
    RectifiedMonomial,
    ReLU,
    Sign,
    Sine,
    rbf,
    sigmoid_like,
)

Elementwise = Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]

ACTIVATIONS: dict[str, Elementwise] = {
    "identity": Identity(),
    "relu": ReLU(),
    "leaky_relu": LeakyReLU(),
    "abs": Abs(),
    "sign": Sign(),
    "step": RectifiedMonomial(0),
    "erf": Erf(),
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "sigmoid_like": sigmoid_like(),
    "gelu": GELU(),
    "softplus": jax.nn.softplus,
    "swish": jax.nn.silu,
    "sine": Sine(),
    "cosine": Cosine(),
    "gaussian": GaussianActivation(),
    "exponential": Exponential(),
    "rbf": rbf(),
    "gabor": Gabor(),
    "square": Monomial(2),
    "cube": Monomial(3),
    "relu_squared": RectifiedMonomial(2),
}
ACTIVATIONS |= {
    "linear": ACTIVATIONS["identity"],
    "sin": ACTIVATIONS["sine"],
    "cos": ACTIVATIONS["cosine"],
    "exp": ACTIVATIONS["exponential"],
    "silu": ACTIVATIONS["swish"],
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
