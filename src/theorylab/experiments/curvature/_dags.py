"""What experiments on networks over directed acyclic graphs share: an input, and their memory."""

import math

import jax
from jaxtyping import Array, Float

from theorylab.data import sphere
from theorylab.typing import RandomKey


def input_and_key(seed: int, dimension: int) -> tuple[Float[Array, " d"], RandomKey]:
    """One input of length √d, and a key for all that is drawn besides."""
    x_key, key = jax.random.split(jax.random.key(seed))
    return sphere(x_key, 1, dimension, radius=math.sqrt(dimension))[0], key


def lanczos_bytes(num_weights: int, num_steps: int, num_networks: int = 0) -> int:
    """Bytes of one network's Lanczos basis on each of two cores, and of the wirings of all."""
    return (8 * (num_steps + 8) + 4 * num_networks) * num_weights
