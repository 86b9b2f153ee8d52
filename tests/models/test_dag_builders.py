"""Builders of graphs: equal to the specialised networks, weight for weight."""

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.models import cnn, dag_network, densenet, mlp, network
from theorylab.models.dag_builders import (
    bottleneck_neurons,
    convolutional,
    densely_connected,
    drop_edges,
    fully_connected,
    random_dag,
    residual,
)

KEY = jax.random.key(0)
X = jax.random.normal(jax.random.key(1), (3, 4))


def test_fully_connected_is_mlp_bit_for_bit():
    model = network(mlp([7, 10], 2, "tanh"), (4,))
    params = model.init(KEY)
    built = dag_network(fully_connected(4, [7, 10], 2, "tanh"))
    np.testing.assert_array_equal(
        jax.jit(built.apply)(ravel_pytree(params)[0], X), jax.jit(model.apply)(params, X)
    )


def test_densely_connected_is_densenet():
    model = network(densenet([7, 10], 2, "tanh"), (4,))
    params = model.init(KEY)
    built = dag_network(densely_connected(4, [7, 10], 2, "tanh"))
    np.testing.assert_allclose(
        jax.jit(built.apply)(ravel_pytree(params)[0], X),
        jax.jit(model.apply)(params, X),
        rtol=1e-13,
    )


def test_convolutional_is_cnn():
    """Oracle: JAX's convolution with the same weights; zeros at the border count in the scale."""
    model = network(cnn([5, 3], (3,), 2, "tanh"), (2, 2))
    params = model.init(KEY)
    built = convolutional(2, [5, 3], 3, input_channels=2, num_outputs=2, activation="tanh")
    assert built.in_degrees[4:14].tolist() == [6] * 10
    assert built.width == 6
    assert built.num_weights == sum(leaf.size for leaf in jax.tree.leaves(params))
    found = jax.jit(dag_network(built).apply)(ravel_pytree(params)[0], X)
    np.testing.assert_allclose(found, model.apply(params, X.reshape(3, 2, 2)), rtol=1e-12)


def test_residual_adds_the_neuron_before():
    """Oracle: the formula by hand, with the last of the wider layer left out."""
    built = dag_network(residual(4, [3, 2], activation="tanh"))
    weights = built.init(KEY)
    first, second, last = weights[:12].reshape(4, 3), weights[12:18].reshape(3, 2), weights[18:]
    one = np.tanh(X @ first / 2)
    two = np.tanh(one @ second / np.sqrt(3)) + one[:, :2]
    np.testing.assert_allclose(
        jax.jit(built.apply)(weights, X)[:, 0], two @ last / np.sqrt(2), rtol=1e-12
    )


def test_bottleneck_neurons_read_one_each():
    built = bottleneck_neurons(4, [6, 5, 3], count=2)
    assert built.in_degree_histogram == {1: 2, 3: 1, 4: 6, 5: 3, 6: 3}
    narrow = built.edges[np.isin(built.edges[:, 1], [10, 11])]
    assert narrow.tolist() == [[4, 10], [5, 11]]


def test_random_graph_has_the_in_degrees_that_were_asked():
    built = random_dag(KEY, 4, [64, 16], (16, 64))
    degrees = built.in_degrees[68:84]
    assert degrees.min() == 16
    assert degrees.max() == 64
    assert 20 < np.median(degrees) < 55
    assert built.layer_sizes == (4, 64, 16, 1)
    assert built.width == 16
    few = random_dag(KEY, 4, [9, 9], (3, 3), output_in_degree=3, num_outputs=2)
    assert set(few.in_degree_histogram) == {3, 4}
    assert few.width == 3


def test_edges_are_dropped_with_probability_p():
    """Kept is 1 − p, not p; scales follow; no vertex loses all; weights are numbered again."""
    whole = fully_connected(50, [40, 40])
    built = drop_edges(KEY, whole, 0.3)
    share, error = len(built.edges) / len(whole.edges), np.sqrt(0.3 * 0.7 / len(whole.edges))
    assert abs(share - 0.7) < 4 * error
    assert built.num_weights == len(built.edges)
    assert (built.in_degrees == np.bincount(built.edges[:, 1], minlength=131)).all()
    bare = drop_edges(KEY, whole, 0.9999)
    assert (bare.in_degrees[50:] >= 1).all()
    shared = drop_edges(KEY, convolutional(2, [3], 3), 0.5)
    assert np.array_equal(np.unique(shared.weights), np.arange(shared.num_weights))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fully_connected(0, [3]), "must be at least 1, got 0"),
        (lambda: residual(3, [4]), "at least 2 for a shortcut"),
        (lambda: convolutional(4, [3], 2), "window must be odd"),
        (lambda: bottleneck_neurons(3, [4], layer=2), "layer must be in 1 to 1, got 2"),
        (lambda: bottleneck_neurons(3, [4, 4], count=5), "count must be in 1 to 4"),
        (lambda: bottleneck_neurons(3, [4, 4], in_degree=5), "in_degree must be in 1 to 4"),
        (lambda: random_dag(KEY, 3, [4, 4], (2, 9)), "rising in 1 to 7"),
        (lambda: random_dag(KEY, 3, [], (1, 1)), "at least one hidden layer, got none"),
        (lambda: random_dag(KEY, 3, [4, 4], (2, 3), 5), "output_in_degree must be in 1 to 4"),
        (lambda: drop_edges(KEY, fully_connected(3, [4]), 1.0), r"in \[0, 1\), got 1.0"),
    ],
)
def test_bad_numbers_are_told(make, words):
    with pytest.raises(ValueError, match=words):
        make()
