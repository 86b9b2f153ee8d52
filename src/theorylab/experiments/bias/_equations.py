"""Random linear equations with fewer equations than unknowns, which all experiments here share.

Those on diagonal networks have a sparse solution.

Source: arora · reparam-mirror · §8.1.3.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.data import Dataset, Gaussian, linear_teacher
from theorylab.fields import Count, Plural, Seeded


@dataclass(frozen=True)
class Equations(Seeded):
    """Gaussian equations with a sparse solution."""

    num_samples: Count = 15  # equations n
    dimension: Count = 30  # unknowns d
    sparsity: Count = 3  # weights of the teacher that are not 0, each 1 or -1
    num_seeds: Count = 8  # random sets of equations

    def __post_init__(self) -> None:
        super().__post_init__()
        d = self.dimension
        if self.num_samples >= d:
            raise ValueError(f"num_samples must be below dimension = {d}, got {self.num_samples}.")
        if self.sparsity > d:
            raise ValueError(f"sparsity must be at most dimension = {d}, got {self.sparsity}.")


@dataclass(frozen=True)
class Overparametrized(Seeded):
    """Gaussian equations with at least twice as many unknowns."""

    num_samples: Plural = 10  # equations n
    dimension: Count = 40  # unknowns d
    num_seeds: Count = 20  # random sets of equations

    def __post_init__(self) -> None:
        super().__post_init__()
        n, most = self.num_samples, self.dimension // 2
        if n > most:
            # Nearer to square, the smallest singular value is tiny, and descent takes for ever.
            raise ValueError(f"num_samples must be at most dimension/2 = {most}, got {n}.")


def draw_equations(config: Equations) -> tuple[Float[Array, " d"], Dataset]:
    """One sparse teacher, and for every seed a set of Gaussian equations that it solves."""
    number = jnp.arange(config.dimension)
    teacher = jnp.where(number < config.sparsity, (-1.0) ** number, 0.0)
    law = Gaussian((1 / config.num_samples,) * config.dimension)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    draw = jax.vmap(lambda key: linear_teacher(key, law, config.num_samples, teacher[:, None]))
    return teacher, draw(keys)


def pairs(data: Dataset) -> list[tuple[np.ndarray, np.ndarray]]:
    """The equations of every seed, X and y."""
    return list(zip(np.asarray(data.x), np.asarray(data.y)[:, :, 0], strict=True))


def relative_distance(weights: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """‖w − v‖ / ‖v‖ over the last axis."""
    return np.linalg.norm(weights - expected, axis=-1) / np.linalg.norm(expected, axis=-1)
