"""What the dimension d of the inputs changes: cosines, and nothing that is learned.

Inputs Mφ lie in the span of D orthonormal patterns, and so do gradients. What initial weights have
outside of it meets no input: tangent features have the same kernel in d dimensions as in the D
coordinates of the patterns. It lengthens the weights, though, and so shortens their cosines,

    c² = s²/(s² + r²),   r² ∝ d − D:      c²/(1 − c²) ∝ 1/d

after a first step that keeps some of the start; after one that forgets it there is no trace of d.

Source: shi · exp-vary-d · Table A.3.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.data.dictionary import orthonormal_dictionary
from theorylab.experiments.features.emergence._tasks import DictionaryTask, Theory
from theorylab.features.emergence.meters import cosines, relevant_direction
from theorylab.features.emergence.network import Neurons, first_half, outputs
from theorylab.features.emergence.stages import emerge
from theorylab.typing import RandomKey

_NUM_KERNEL = 20  # inputs of the tangent kernel that is compared


class Dimensions(NamedTuple):
    """What was measured in every dimension d."""

    start: Float[Array, "*seeds d"]  # largest cosine at the start
    kept: Float[Array, "*seeds d"]  # after a first step that keeps some of the start
    forgotten: Float[Array, "*seeds"]  # after one that keeps none, whatever d is
    change: Float[Array, "*seeds d"]  # of the tangent kernel, relative


def by_dimension(
    key: RandomKey,
    task: DictionaryTask,
    theory: Theory,
    num_relevant: int,
    dimensions: Sequence[int],
) -> Dimensions:
    """Take a first step, and see it in several dimensions.

    Args:
        key: Draws dictionaries.
        task: Data and start, with weights outside of the dictionary for the largest d.
        theory: Of the first step.
        num_relevant: k.
        dimensions: Every d.
    """
    patterns = task.train.x.shape[1]
    direction = relevant_direction(patterns, num_relevant)
    first = emerge(task.start, task.train, theory.stages, theory.class_weights).first
    # So much that what is kept is as long as what is learned, midway in the dimensions.
    length = jnp.linalg.norm(first.weights, axis=1).max()
    keep = length / (theory.scales.weights * float(np.sqrt(np.median(dimensions))))
    squares = jnp.tile(task.outside**2, (2, 1))
    mixed = keep * task.start.weights + first.weights
    half, x = first_half(task.start), task.train.x[:_NUM_KERNEL]
    start, kept, change = [], [], []
    for dimension in dimensions:
        rest = squares[:, : dimension - patterns].sum(axis=1)
        start.append(cosines(task.start.weights, direction, rest).max())
        kept.append(cosines(mixed, direction, keep**2 * rest).max())
        change.append(kernel_change(key, half, x, dimension))
    forgotten = cosines(first.weights, direction).max()
    return Dimensions(jnp.stack(start), jnp.stack(kept), forgotten, jnp.stack(change))


def kernel_change(
    key: RandomKey, neurons: Neurons, x: Float[Array, "n patterns"], dimension: int
) -> Float[Array, ""]:
    """Mean |K' − K| over mean |K|, tangent kernels of inputs x and Mx, weights w and Mw + across.

    Args:
        key: Draws the orthonormal dictionary M, and what is across it.
        neurons: In the coordinates of the patterns.
        x: Inputs in the same coordinates.
        dimension: d.
    """
    dictionary_key, across_key = jax.random.split(key)
    dictionary = orthonormal_dictionary(dictionary_key, dimension, x.shape[1])
    drawn = jax.random.normal(across_key, (len(neurons.biases), dimension))
    across = drawn - (drawn @ dictionary) @ dictionary.T
    weights = neurons.weights @ dictionary.T + jnp.std(neurons.weights) * across

    def kernel(neurons: Neurons, x: Float[Array, "n d"]) -> Float[Array, "n n"]:
        slopes = jax.tree.leaves(jax.jacrev(outputs)(neurons, x))
        flat = jnp.concatenate([jnp.reshape(each, (len(x), -1)) for each in slopes], axis=1)
        return flat @ flat.T

    own = kernel(neurons, x)
    change = kernel(neurons._replace(weights=weights), x @ dictionary.T) - own
    return jnp.abs(change).mean() / jnp.abs(own).mean()
