"""What a neuron reads and the blocks of its Hessian: dense derivatives, written out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.curvature import dag_blocks, dependence, dependence_bound, read_lengths
from theorylab.models import dag, dag_network
from theorylab.models.dag_builders import (
    convolutional,
    densely_connected,
    fully_connected,
    random_dag,
    residual,
)

X = jnp.array([0.7, -1.3])
SHAPES = ((3, 4), (5, 2))  # of the two hidden layers


@pytest.fixture(scope="module")
def measured():
    """Networks of two sizes, in one program: at the start, and half a unit uphill of it."""
    graphs = [fully_connected(2, shape, activation="tanh") for shape in SHAPES * 2]
    radii = (0.0, 0.0, 0.5, 0.5)
    return dag_blocks(graphs, X, jax.random.key(3), 24, num_probes=2000, radii=radii)


def _weights(number):
    """The weights that network was drawn, in the padded order of one program: (2, 5), (5, 4), 4."""
    a, b = SHAPES[number % 2]
    key = jax.random.split(jax.random.split(jax.random.key(3), 4)[number], 3)[0]
    one, two, three = jnp.split(jax.random.normal(key, (34,)), [10, 30])
    return one.reshape(2, 5)[:, :a], two.reshape(5, 4)[:a, :b], three[:b]


def _hidden(one, two):
    """The values that the output reads, with every factor written out."""
    first = jnp.tanh(X @ one / jnp.sqrt(2.0))
    return jnp.tanh(first @ two / jnp.sqrt(float(len(first))))


@pytest.mark.parametrize("number", [0, 1])
def test_what_the_output_reads_is_the_hidden_layer(measured, number):
    """Oracle: the network by hand, and dense Jacobians of its hidden layer."""
    one, two, _ = _weights(number)
    hidden = _hidden(one, two)
    np.testing.assert_allclose(measured.lengths[number], jnp.linalg.norm(hidden), rtol=1e-10)
    np.testing.assert_allclose(measured.largest[number], jnp.abs(hidden).max(), rtol=1e-10)
    for layer, jacobian in enumerate(jax.jacobian(_hidden, argnums=(0, 1))(one, two)):
        dense = np.asarray(jacobian).reshape(len(hidden), -1)
        norm = measured.jacobians[number, layer]
        np.testing.assert_allclose(norm, np.linalg.norm(dense, 2), rtol=1e-8)
        frobenius = measured.frobenius[number, layer]
        # Four standard errors of 2,000 probes: half of 4 √(2/2000).
        np.testing.assert_allclose(frobenius, np.linalg.norm(dense), rtol=0.065)


def test_networks_are_measured_uphill_of_what_is_read(measured):
    """Oracle: half a unit along the gradient of the hidden layer's length, by hand."""
    for number in (2, 3):
        parts = _weights(number)[:2]
        slopes = jax.grad(lambda parts: jnp.linalg.norm(_hidden(*parts)))(parts)
        size = jnp.sqrt(sum(jnp.sum(slope**2) for slope in slopes))
        moved = (w + 0.5 * slope / size for w, slope in zip(parts, slopes, strict=True))
        expected = jnp.linalg.norm(_hidden(*moved))
        np.testing.assert_allclose(measured.lengths[number], expected, rtol=1e-10)
    with pytest.raises(ValueError, match="radii must be 1 numbers that are not negative"):
        dag_blocks([fully_connected(2, [3])], X, jax.random.key(3), radii=(-1.0,))


def test_blocks_are_those_of_the_dense_hessian(measured):
    number = 1

    def output(one, two, three):
        return _hidden(one, two) @ three / jnp.sqrt(float(len(three)))

    parts = _weights(number)
    dense = jax.hessian(output, argnums=(0, 1, 2))(*parts)
    for p in range(3):
        for q in range(3):
            block = np.asarray(dense[p][q]).reshape(parts[p].size, -1)
            expected = np.linalg.norm(block, 2)
            np.testing.assert_allclose(measured.norms[number, p, q], expected, atol=1e-8)
    assert measured.norms[number, 2, 2] == 0
    rows = [
        np.concatenate([np.asarray(dense[p][q]).reshape(parts[p].size, -1) for q in range(3)], 1)
        for p in range(3)
    ]
    whole = np.linalg.norm(np.concatenate(rows), 2)
    np.testing.assert_allclose(measured.whole[number], whole, rtol=1e-8)


def test_lengths_of_every_neuron_are_those_of_what_it_reads():
    """Oracle: the values of all vertices, one after the other, over the edges."""
    uneven = random_dag(jax.random.key(0), 2, [6, 4], (2, 6), activation="tanh")
    weights = dag_network(uneven).init(jax.random.key(1))
    values = np.zeros(uneven.num_vertices)
    values[:2] = X
    for v in range(2, uneven.num_vertices):
        at = uneven.edges[:, 1] == v
        sources = uneven.edges[at, 0]
        values[v] = np.tanh(np.asarray(weights)[at] @ values[sources] / np.sqrt(at.sum()))
    second = np.flatnonzero(uneven.layers == 2)
    expected = [np.linalg.norm(values[uneven.edges[uneven.edges[:, 1] == v, 0]]) for v in second]
    np.testing.assert_allclose(read_lengths(uneven, weights, X, 2), expected, rtol=1e-10)


def test_a_neuron_depends_on_the_weights_before_it():
    """Oracle: which derivatives are not 0; and counts by hand."""
    uneven = random_dag(jax.random.key(0), 2, [6, 6, 3], (2, 2), 1, activation="tanh")
    model = dag_network(uneven)
    slopes = jax.jit(jax.grad(lambda w: model.apply(w, X[None])[0, 0]))(
        model.init(jax.random.key(2))
    )
    layers = uneven.layers[uneven.edges[:, 1]]
    moved = np.bincount(layers[np.asarray(slopes) != 0], minlength=5)[1:]
    output = int(uneven.outputs[0])
    np.testing.assert_array_equal(dependence(uneven, output), moved)
    assert (moved <= dependence_bound(uneven, output)).all()
    dense = densely_connected(2, [3, 4])
    assert dependence(dense, int(dense.outputs[0])).tolist() == [6, 20, 9]
    assert dependence_bound(dense, int(dense.outputs[0])).tolist() == [90.0, 45.0, 9.0]
    shared = convolutional(4, [2], 3)
    assert dependence(shared, int(shared.outputs[0])).tolist() == [6, 8]


def test_bad_graphs_are_told():
    with pytest.raises(ValueError, match="graphs must have one depth"):
        dag_blocks([dag([(0, 1)]), fully_connected(1, [2])], X[:1], jax.random.key(0))
    with pytest.raises(ValueError, match="a weight of its own for every edge"):
        dag_blocks([convolutional(2, [2], 1)], X, jax.random.key(0))
    with pytest.raises(ValueError, match="layer must be in 1 to 2, got 3"):
        read_lengths(fully_connected(2, [2]), jnp.zeros(6), X, 3)
    with pytest.raises(ValueError, match="must have no shortcut"):
        dependence_bound(residual(2, [3, 3]), 2)
    with pytest.raises(ValueError, match="graphs must be at least one, got none"):
        dag_blocks([], X, jax.random.key(0))
    with pytest.raises(ValueError, match=r"shape \(3,\), got \(2,\)"):
        dag_blocks([fully_connected(3, [2])], X, jax.random.key(0))
    for measure in (dependence, dependence_bound):
        with pytest.raises(ValueError, match="vertex must be in 0 to 4, got -1"):
            measure(fully_connected(2, [2]), -1)
