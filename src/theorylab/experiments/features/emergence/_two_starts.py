"""Networks that tell two classes of images apart, from a small and from a usual start.

What `real_clusters` and `resnet_filters` share. (The source does not say how large its start is.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes

from theorylab.experiments.drawing import curves
from theorylab.fields import Classes, Count, ImageSet, Positive, Seeded
from theorylab.training import ensemble
from theorylab.typing import RandomKey

STARTS = (0.01, 1.0)  # standard deviation of initial weights, times the root of their fan-in
SMALL, USUAL = 0, 1  # places among them


@dataclass(frozen=True)
class TwoClasses(Seeded):
    """Two classes of images, and how networks learn to tell them apart."""

    images: ImageSet = "mnist5k"
    classes: Classes = (0, 1)
    num_test: Count = 200
    batch_size: Count = 64
    learning_rate: Positive = 0.1


def from_both_starts(
    config: TwoClasses, one: Callable[[tuple[RandomKey, Float[Array, ""]]], Any]
) -> Any:
    """What `one` gives for a key and a scale, with starts and seeds as leading axes."""
    seeds = config.num_seeds
    keys = jnp.tile(jax.random.split(jax.random.key(config.seed), seeds), 2)
    found = ensemble(one, (keys, jnp.repeat(jnp.array(STARTS), seeds)))
    return jax.tree.map(lambda leaf: jnp.reshape(leaf, (2, seeds, *leaf.shape[1:])), found)


def draw_starts(axis: Axes, x: list[int], values: Float[np.ndarray, "2 s t"]) -> None:
    """Draw what was measured from both starts."""
    curves(axis, x, {"small start": values[SMALL], "usual start": values[USUAL]}, "o-")
