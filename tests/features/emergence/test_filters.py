"""Filters of residual blocks: found in any network, and their gradients' directions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import Dataset
from theorylab.features.emergence import (
    block_filters,
    nearest_filters,
    persistence,
    scale_filters,
    spherical_means,
    stacked,
)
from theorylab.models import network, resnet
from theorylab.models.unfold import im2col
from theorylab.training import Batches, gradient_descent, sgd

SHAPE = (8, 8, 1)


@pytest.fixture(scope="module")
def drawn():
    model = network(resnet(2, blocks=1), SHAPE, bias="zero")
    return model, model.init(jax.random.key(0))


def test_filters_are_read_alike_from_convolutions_and_from_patches(drawn):
    """Oracle: an unfolded network has the same numbers, as matrices (window · channels, m)."""
    _, params = drawn
    matrices = network(im2col(resnet(2, blocks=1)), SHAPE, bias="zero").init(jax.random.key(0))
    for rows, others in zip(block_filters(params), block_filters(matrices), strict=True):
        np.testing.assert_array_equal(rows, others)


def test_filters_are_those_of_the_last_convolution_of_every_branch(drawn):
    """Oracle: without them only shortcuts are left, so the first convolutions do not matter."""
    model, params = drawn
    x = jax.random.normal(jax.random.key(1), (2 * 64,)).reshape(2, *SHAPE)
    nothing = scale_filters(params, 0.0)
    assert all(bool((rows == 0).all()) for rows in block_filters(nothing))
    one, *blocks, out = [leaf for leaf in jax.tree.leaves(nothing) if leaf.ndim > 1]
    others = jax.tree.map(lambda leaf: leaf if leaf.shape[:1] != (3,) else 2 * leaf, nothing)
    np.testing.assert_allclose(model.apply(others, x), 2 * model.apply(nothing, x), rtol=1e-12)
    assert jnp.abs(model.apply(params, x) - model.apply(nothing, x)).min() > 1e-6
    assert [one.shape, out.shape, len(blocks)] == [(3, 3, 1, 2), (16, 1), 4 * 2 + 3]


def test_the_nearest_filters_are_those_of_the_largest_cosines():
    """Oracle: a loop in NumPy; a filter that is 0 is never the nearest."""
    vectors = jnp.array([[0.0, 0.0], [9.0, 4.0], [2.0, 0.2], [-1.0, 0.3], [1.0, -0.4]])
    clusters = spherical_means(vectors)
    unit = [np.asarray(v) / np.linalg.norm(v) if np.any(v) else np.zeros(2) for v in vectors]
    cosines = [[v @ np.asarray(centre) for v in unit] for centre in clusters.centres]
    assert nearest_filters(vectors, clusters).tolist() == np.argmax(cosines, axis=1).tolist()


def test_persistence_compares_mean_gradients():
    """Oracle: gradients of every step by autodiff, averaged in NumPy, over three chunks of two."""
    x = jax.random.normal(jax.random.key(2), (12, 5))
    data = Dataset(x, jnp.sin(3 * x[:, :1]), "a sine", "made up")

    def loss(w, x, y):
        return jnp.mean((jnp.tanh(x @ w) - y[:, 0]) ** 2)

    start = jnp.linspace(-1.0, 1.0, 5)
    args = (data, gradient_descent(0.3), Batches(12))
    path = sgd(loss, start, *args, list(range(7)), lambda w: w, jax.random.key(3)).records
    gradients = np.stack([jax.grad(loss)(w, data.x, data.y) for w in path[:-1]])
    means = gradients.reshape(3, 2, 5).mean(axis=1)
    means = [*means, means.mean(axis=0)]
    cos = [[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a in means] for b in means]
    found = persistence(path[::2])
    np.testing.assert_allclose(found.pairs, [cos[0][1], cos[0][2], cos[1][2]], rtol=1e-9)
    np.testing.assert_allclose(found.to_mean, cos[3][:3], rtol=1e-9)


def test_stacked_groups_have_the_clusters_and_gradients_that_they_had():
    """Oracle: each group by itself; the farther vector that starts a cluster is the same one."""
    draws = [jax.random.normal(jax.random.key(m), (4 * m * 5 * m,)) for m in (2, 4)]
    groups = [draw.reshape(4, m, 5 * m) for draw, m in zip(draws, (2, 4), strict=True)]
    together = stacked(groups)
    assert together.shape == (2, 4, 4, 20)
    np.testing.assert_array_equal(together[1], groups[1])
    rows, filled = groups[0], together[0]
    one, other = spherical_means(rows[-1]), spherical_means(filled[-1])
    np.testing.assert_allclose(other.within, one.within, rtol=1e-12)
    np.testing.assert_allclose(other.between, one.between, rtol=1e-12)
    np.testing.assert_allclose(
        persistence(filled[:, -1]).pairs, persistence(rows[:, -1]).pairs, rtol=1e-12
    )


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="path must have at least three times, got 2"):
        persistence(jnp.ones((2, 3)))
    with pytest.raises(ValueError, match="params must be of a network with residual blocks"):
        block_filters({"weight": jnp.ones((2, 2))})
    with pytest.raises(ValueError, match="groups must have numbers of vectors that divide 3"):
        stacked([jnp.ones((1, 2, 2)), jnp.ones((1, 3, 2))])
