"""Clusters of directions: spherical k-means, chosen by a rule and not by hand.

    cᵤ ← Σ_{i ∈ u} ŵᵢ / ‖Σ_{i ∈ u} ŵᵢ‖,   i ∈ u if ⟨ŵᵢ, cᵤ⟩ is the largest;   ŵ = w/‖w‖

    within     mean ⟨ŵᵢ, c⟩, each with its own centre
    between    the largest ⟨cᵤ, cᵥ⟩ of two centres

The first centre is the longest vector, each other one the vector farthest from all before, so that
the same vectors always give the same clusters. Clusters are found in anything: random directions
have a `within` above 0, too, so hold what is found against `scrambled` vectors.

Source: shi · exp-real-clusters · §2.6, A.7.4; shi · exp-resnet-filters · Table A.7.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from theorylab.typing import RandomKey

_TINY = 1e-30


class DirectionClusters(NamedTuple):
    """Centres of length 1, which vector belongs to which, and how close they are."""

    centres: Float[Array, "k d"]
    members: Int[Array, " m"]
    within: Float[Array, ""]
    between: Float[Array, ""]


@partial(jax.jit, static_argnames=("num_clusters", "num_steps"))
def spherical_means(
    vectors: Float[Array, "m d"], num_clusters: int = 2, num_steps: int = 20
) -> DirectionClusters:
    """Cluster directions by spherical k-means.

    Args:
        vectors: Such as the weights of a layer's neurons; those of length 0 belong anywhere.
        num_clusters: k, at least 2.
        num_steps: Of the iteration.

    Example:
        >>> pairs = jnp.array([[1.0, 0.1], [2.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]])
        >>> spherical_means(pairs).members.tolist()
        [0, 0, 1, 1]
    """
    if not 2 <= num_clusters <= vectors.shape[0]:
        raise ValueError(f"num_clusters must be in [2, {vectors.shape[0]}], got {num_clusters}.")
    lengths = jnp.linalg.norm(vectors, axis=1)
    unit = vectors / jnp.maximum(lengths, _TINY)[:, None]

    def add(centres: Float[Array, "k d"], place: Int[Array, ""]) -> tuple[Array, None]:
        there = jnp.arange(num_clusters) < place
        nearest = jnp.max(jnp.where(there[None, :], unit @ centres.T, -jnp.inf), axis=1)
        return centres.at[place].set(unit[jnp.argmin(nearest)]), None

    first = jnp.zeros((num_clusters, vectors.shape[1]), vectors.dtype)
    first = first.at[0].set(unit[jnp.argmax(lengths)])
    start, _ = jax.lax.scan(add, first, jnp.arange(1, num_clusters))

    def improve(centres: Float[Array, "k d"], _: None) -> tuple[Array, None]:
        own = jax.nn.one_hot(jnp.argmax(unit @ centres.T, axis=1), num_clusters, dtype=unit.dtype)
        sums = own.T @ unit
        norms = jnp.linalg.norm(sums, axis=1)
        # A cluster that lost all of its members stays where it was.
        moved = sums / jnp.maximum(norms, _TINY)[:, None]
        return jnp.where((norms > 0)[:, None], moved, centres), None

    centres, _ = jax.lax.scan(improve, start, length=num_steps)
    products = unit @ centres.T
    apart = centres @ centres.T - 3 * jnp.eye(num_clusters, dtype=unit.dtype)
    return DirectionClusters(
        centres, jnp.argmax(products, axis=1), products.max(axis=1).mean(), apart.max()
    )


def scrambled(key: RandomKey, vectors: Float[Array, "m d"]) -> Float[Array, "m d"]:
    """The same numbers in another order in every vector: what they have in common is gone.

    Example:
        >>> scrambled(jax.random.key(0), jnp.array([[1.0, 2.0, 3.0]])).sum(axis=1).tolist()
        [6.0]
    """
    return jax.random.permutation(key, vectors, axis=1, independent=True)
