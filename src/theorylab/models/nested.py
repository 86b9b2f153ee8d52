"""Networks of every width as one program: the first m neurons of a wide one.

    f_m(x) = m^(−½) Σ_{r ≤ m} a_r φ(w_rᵀx/√d),   a, w ~ N(0, 1)

with m a number that a compiled program is given, not a shape: all widths, and all seeds, are one
call. Neurons beyond m are at rest: their gradients are 0, and training does not move them.

Source: golikov · ntk-param-scaling · Eqs 2.12–2.19.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Apply, Params, RandomKey, Scalar

from .activations import activation as named_activation


class Nested(NamedTuple):
    """Two-layer networks of all widths up to a largest one, in the NTK parametrization.

    Args:
        init: Draws parameters of the largest width: key ─► (w (d, widest), a (widest, 1)).
        at_width: The network of the first m neurons: m ─► apply(params, inputs).
    """

    init: Callable[[RandomKey], Params]
    at_width: Callable[[Scalar], Apply]


def nested(widest: int, dimension: int, activation: str = "relu") -> Nested:
    """Make two-layer networks of all widths.

    Args:
        widest: The largest width.
        dimension: The inputs d.
        activation: The name of φ.

    Example:
        >>> networks = nested(8, dimension=3)
        >>> params = networks.init(jax.random.key(0))
        >>> networks.at_width(5)(params, jnp.ones((2, 3))).shape
        (2, 1)
    """
    for name, value in (("widest", widest), ("dimension", dimension)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    function = named_activation(activation)

    def init(key: RandomKey) -> Params:
        inner, outer = jax.random.split(key)
        w = jax.random.normal(inner, (dimension, widest))
        return w, jax.random.normal(outer, (widest, 1))

    def at_width(width: Scalar) -> Apply:
        scale = jnp.where(jnp.arange(widest) < width, 1 / jnp.sqrt(width), 0.0)

        def apply(params: Params, x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
            w, a = params
            return function(x @ w / math.sqrt(dimension)) @ (scale[:, None] * a)

        return apply

    return Nested(init, at_width)
