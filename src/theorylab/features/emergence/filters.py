"""Filters of residual blocks, and whether their gradients keep their direction.

A filter is what one channel of a convolution reads, a vector of window · channels numbers. Of every
residual block these are the filters of its last convolution, whose outputs are added to the stream.

In plain gradient descent a stretch of steps goes where the mean of its gradients says,

    v_c = (w(t_{c−1}) − w(t_c)) / (η (t_c − t_{c−1}))

so that directions of mean gradients are seen in weights alone. Directions at random have
cos(v, v') of mean 0 and deviation 1/√dim.

Source: shi · exp-resnet-filters · Figures A.16, A.17, Table A.7.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from theorylab.typing import Params, Scalar

from .clusters import DirectionClusters

_BRANCH = "['branch']"
_TINY = 1e-30


class Persistence(NamedTuple):
    """Cosines of mean gradients, with each other and with their mean."""

    pairs: Float[Array, " pairs"]  # (1, 2), (1, 3), (2, 3), …
    to_mean: Float[Array, " chunks"]


def block_filters(params: Params) -> list[Float[Array, "m d"]]:
    """The filters of every residual block's last convolution, one row for each.

    Args:
        params: Of a network with `Residual` blocks, convolutions unfolded or not.

    Example:
        >>> from theorylab.models import network, resnet
        >>> model = network(resnet(2, blocks=1), (8, 8, 1))
        >>> [rows.shape for rows in block_filters(model.init(jax.random.key(0)))]
        [(2, 18), (4, 36), (8, 72), (16, 144)]
    """
    leaves = jax.tree.leaves(params)
    found = [leaves[place] for place in _last_of_blocks(params)]
    return [jnp.reshape(leaf, (-1, leaf.shape[-1])).T for leaf in found]


def stacked(groups: Sequence[Float[Array, "t _m _d"]]) -> Float[Array, "g t m d"]:
    """Vectors of several sizes in one array: each repeated, then filled up with zeros.

    Cosines, clusters and their means stay what they are, and one program does for all.

    Args:
        groups: Vectors (m_g, d_g) at some times; all m_g divide the largest.

    Example:
        >>> stacked([jnp.ones((1, 1, 2)), jnp.ones((1, 2, 3))])[0, 0].tolist()
        [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
    """
    count = max(rows.shape[1] for rows in groups)
    length = max(rows.shape[2] for rows in groups)
    if any(count % rows.shape[1] for rows in groups):
        raise ValueError(f"groups must have numbers of vectors that divide {count}.")
    repeated = (jnp.repeat(rows, count // rows.shape[1], axis=1) for rows in groups)
    return jnp.stack(
        [jnp.pad(rows, ((0, 0), (0, 0), (0, length - rows.shape[2]))) for rows in repeated]
    )


def scale_filters(params: Params, factor: Scalar) -> Params:
    """The same network, with these filters multiplied by a factor.

    Example:
        >>> from theorylab.models import network, resnet
        >>> params = network(resnet(2, blocks=1), (8, 8, 1)).init(jax.random.key(0))
        >>> one, other = (block_filters(each)[0] for each in (params, scale_filters(params, 2.0)))
        >>> bool(jnp.allclose(2 * one, other))
        True
    """
    leaves, structure = jax.tree.flatten(params)
    for place in _last_of_blocks(params):
        leaves[place] = factor * leaves[place]
    return jax.tree.unflatten(structure, leaves)


def nearest_filters(vectors: Float[Array, "m d"], clusters: DirectionClusters) -> Int[Array, " k"]:
    """The places of the vectors that are nearest in direction to the clusters' centres.

    Example:
        >>> from theorylab.features.emergence import spherical_means
        >>> vectors = jnp.array([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.1], [-1.0, 0.0]])
        >>> nearest_filters(vectors, spherical_means(vectors)).shape
        (2,)
    """
    lengths = jnp.linalg.norm(vectors, axis=1)
    cosines = vectors @ clusters.centres.T / jnp.maximum(lengths, _TINY)[:, None]
    return jnp.argmax(jnp.where((lengths > 0)[:, None], cosines, -jnp.inf), axis=0)


def persistence(path: Float[Array, "times d"]) -> Persistence:
    """Whether the gradient of a vector of weights keeps its direction.

    Args:
        path: The vector after 0, t, 2t, … steps of plain gradient descent; three times or more.

    Example:
        >>> straight = jnp.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
        >>> persistence(straight).pairs.tolist()
        [1.0, 1.0, 1.0]
    """
    if path.shape[0] < 3:
        raise ValueError(f"path must have at least three times, got {path.shape[0]}.")
    gradients = path[:-1] - path[1:]  # but for the factor ηt, which cosines do not see
    rows = jnp.concatenate([gradients, gradients.mean(axis=0)[None, :]])
    # Without a gradient there is no direction: a cosine of 0.
    unit = rows / jnp.maximum(jnp.linalg.norm(rows, axis=1, keepdims=True), _TINY)
    cosines = unit @ unit.T
    first, second = jnp.triu_indices(len(gradients), 1)
    return Persistence(cosines[first, second], cosines[-1, :-1])


def _last_of_blocks(params: Params) -> list[int]:
    """The places of the last weights of every residual branch among all leaves."""
    last: dict[str, int] = {}
    for place, (path, _) in enumerate(jax.tree_util.tree_leaves_with_path(params)):
        block, found, _ = jax.tree_util.keystr(path).partition(_BRANCH)
        if found:
            last[block] = place  # later ones replace it; of a layer, weights come after biases
    if not last:
        raise ValueError("params must be of a network with residual blocks, got none.")
    return list(last.values())
