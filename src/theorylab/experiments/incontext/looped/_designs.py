"""What the experiments on the bound of looped transformers share: designs, their settings."""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array

from theorylab.claims import Source
from theorylab.fields import Checked, Increasing, Seed, within
from theorylab.typing import RandomKey

BOUND = Source("shi", "looped-bound", "Theorems 8.16, 8.25")
FIGURE = Source("shi", "looped-bound", "Fig. 8.1")


@dataclass(frozen=True)
class Designs(Checked):
    """Gaussian designs of several lengths."""

    dimension: Annotated[int, within(2, 64)] = 4  # d
    examples: Increasing[Annotated[int, within(1, 10**5)]] = (16, 32, 64, 128)  # n
    num_loops: Annotated[int, within(20, 10**5)] = 200  # T
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.examples[0] <= self.dimension:
            raise ValueError(f"examples must be more than dimension, got {self.examples}.")


def draw_task(key: RandomKey, n: int, d: int) -> tuple[Array, ...]:
    """A design, a unit vector, and eigenvalues of XᵀX with the vector's coefficients."""
    x_key, theta_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n * d,)).reshape(n, d)
    theta = jax.random.normal(theta_key, (d,))
    theta = theta / jnp.linalg.norm(theta)
    values, vectors = jnp.linalg.eigh(x.T @ x)
    return x, theta, values, vectors.T @ theta
