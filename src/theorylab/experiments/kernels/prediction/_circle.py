"""Points on a circle, and the scale of weights with which ReLU networks keep their length."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models import NTK

HE = NTK(weight_scale=math.sqrt(2.0))


def circle(size: int) -> Float[Array, "m 2"]:
    """Equidistant points, of length √2."""
    angles = 2 * jnp.pi * jnp.arange(size) / size
    return math.sqrt(2) * jnp.column_stack([jnp.cos(angles), jnp.sin(angles)])
