"""Neurons on a mixture in a few numbers, so that a hundred thousand of them cost nothing.

G(w, b) of a mixture lies in the span of its q independent means and of w. For w ~ N(0, I_d) write
w = (z₁, …, z_q, s) in an orthonormal basis of the means, and s the length of the rest of w. Then zᵢ
are standard normal, s² is χ² with d − q degrees, and lengths of G and its angles with the means are
those of the same mixture in q + 1 dimensions, whatever d is.

Source: shi · gradient-features · the measurement of p; shi · case-mog-xor · Lemma B.37.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from theorylab.data import GaussianMixture
from theorylab.typing import RandomKey


def reduced_mixture(law: GaussianMixture) -> GaussianMixture:
    """The same mixture in q + 1 dimensions, the means with a 0 at the end.

    Args:
        law: A mixture in more dimensions than it has independent means.

    Example:
        >>> from theorylab.data.mixtures import orthogonal_mixture
        >>> reduced_mixture(orthogonal_mixture(2, 16)).means.shape
        (2, 3)
    """
    left, values, _ = np.linalg.svd(np.asarray(law.means, float), full_matrices=False)
    rank = int((values > 1e-6 * values[0]).sum())
    if rank >= law.dimension:
        raise ValueError(
            f"dimension must exceed the rank of the means, {rank}, got {law.dimension}."
        )
    coordinates = jnp.asarray(left[:, :rank] * values[None, :rank], law.means.dtype)
    return law._replace(means=jnp.pad(coordinates, ((0, 0), (0, 1))))


def reduced_weights(
    key: RandomKey, num_neurons: int, rank: int, dimension: int | Int[Array, ""]
) -> Float[Array, "m e"]:
    """W ~ N(0, I_d) as (z₁, …, z_q, s): one row for each neuron, q + 1 columns.

    Args:
        key: Draws the neurons.
        num_neurons: How many.
        rank: q, the number of independent means.
        dimension: d > q.

    Example:
        >>> reduced_weights(jax.random.key(0), num_neurons=5, rank=2, dimension=16).shape
        (5, 3)
    """
    # One that is traced (swept by vmap) has no value yet.
    if not isinstance(dimension, Tracer) and not 0 < rank < dimension:
        raise ValueError(f"rank must be in (0, {dimension}), got {rank}.")
    along_key, rest_key = jax.random.split(key)
    along = jax.random.normal(along_key, (num_neurons, rank))
    degrees = jnp.asarray(dimension - rank, along.dtype)
    squares = jax.random.chisquare(rest_key, degrees, (num_neurons,))
    return jnp.concatenate([along, jnp.sqrt(squares)[:, None]], axis=1)
