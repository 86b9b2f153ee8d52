"""Networks on graphs: the same as a loop over vertices, as `network`, and as their own wiring."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import activation, dag, dag_network
from theorylab.models.dag_builders import (
    convolutional,
    densely_connected,
    drop_edges,
    fully_connected,
    random_dag,
    residual,
)
from theorylab.models.dag_network import wire

KEY = jax.random.key(0)
X = jax.random.normal(jax.random.key(1), (3, 4))


def vertex_by_vertex(given, weights, x):
    """Oracle: the definition, one vertex after another, for one input."""
    value = dict(zip(given.inputs.tolist(), np.asarray(x).tolist(), strict=True))
    shortcut = {int(v): int(u) for u, v in given.shortcuts}
    before = {}
    for v in np.argsort(given.layers, kind="stable").tolist():
        if v in value:
            continue
        edges = [(u, w) for (u, b), w in zip(given.edges, given.weights, strict=True) if b == v]
        total = sum(float(weights[w]) * value[int(u)] for u, w in edges)
        before[v] = total / np.sqrt(len(edges) + given.padding[v])
        phi = activation(given.activations.get(v, given.activation))
        value[v] = before[v] if v in given.outputs else float(phi(jnp.asarray(before[v])))
        if v in shortcut:
            value[v] += value[shortcut[v]]
    return np.array([before[v] for v in given.outputs.tolist()])


GRAPHS = {
    "whole": fully_connected(4, [5, 3], 2, "tanh"),
    "dropped": drop_edges(KEY, densely_connected(4, [5, 3], 2, "tanh"), 0.5),
    "shortcuts": residual(4, [5, 3, 4], 2, "tanh"),
    "shared": convolutional(2, [3], 3, input_channels=2, num_outputs=2, activation="tanh"),
    "random": random_dag(KEY, 4, [12, 4], (3, 9), 2, 2, "tanh"),
    "mixed": dag(
        [(0, 2), (1, 2), (2, 3), (0, 3), (3, 4), (2, 4), (1, 5), (3, 5), (4, 6), (5, 6), (2, 7)],
        inputs=[1, 0],
        outputs=[6, 7],
        weights=[0, 1, 2, 3, 4, 0, 5, 6, 7, 8, 9],
        shortcuts=[(1, 5)],
        padding=[0, 0, 0, 1, 0, 0, 0, 0],
        activation="tanh",
        activations={4: "square", 5: "identity"},
    ),
    # Thirty vertices that read one neuron each: summed edge by edge.
    "sparse": dag(
        [(0, v) for v in range(1, 31)]
        + [(v, v + 30) for v in range(1, 31)]
        + [(v, 61) for v in range(31, 61)],
        activation="tanh",
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_network_is_the_sum_over_edges(name):
    given = GRAPHS[name]
    model = dag_network(given)
    weights = model.init(KEY)
    x = X[:, : len(given.inputs)]
    expected = [vertex_by_vertex(given, np.asarray(weights), row) for row in x]
    np.testing.assert_allclose(jax.jit(model.apply)(weights, x), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "names", [("whole", "dropped", "shortcuts", "random"), ("shared", "whole")]
)
def test_wiring_computes_every_graph_with_one_program(names):
    """Oracle: vertex by vertex; the gradient is 0 exactly where a graph has no weight."""
    given = [GRAPHS[name] for name in names]
    apply, wirings = wire(given)
    weights = jax.random.normal(KEY, (wirings.numbers.shape[1],))

    def outputs_and_gradient(wiring):
        return apply(wiring, weights, X), jax.grad(lambda w: apply(wiring, w, X).sum())(weights)

    outputs, gradients = jax.jit(jax.vmap(outputs_and_gradient))(wirings)
    for graph_, output, slope, numbers in zip(
        given, outputs, gradients, np.asarray(wirings.numbers), strict=True
    ):
        own = np.zeros(graph_.num_weights)
        own[numbers[numbers >= 0]] = weights[numbers >= 0]
        expected = [vertex_by_vertex(graph_, own, row) for row in X]
        np.testing.assert_allclose(output, expected, rtol=1e-12, atol=1e-14)
        assert not slope[numbers < 0].any()
        assert (numbers >= 0).sum() == graph_.num_weights


def test_every_neuron_has_variance_of_order_one_whatever_its_in_degree():
    """Oracle: E f̃² = mean over the sources of E f², and E f² = E f̃²/2 behind a ReLU, exactly.

    (f̃ has a symmetric law; inputs have 1.) All neurons lie within five standard errors, which one
    of 81 exceeds once in 20,000 such tests.
    """
    given = random_dag(KEY, 4, [64, 16], (2, 60))
    before, after = np.ones(given.num_vertices), np.ones(given.num_vertices)
    for vertex in range(4, given.num_vertices):  # each reads only earlier ones
        before[vertex] = after[given.edges[given.edges[:, 1] == vertex, 0]].mean()
        after[vertex] = before[vertex] / 2
    draws = jax.random.normal(KEY, (2000, given.num_weights))
    for layer in (1, 2, 3):
        vertices = np.flatnonzero(given.layers == layer)
        model = dag_network(dataclasses.replace(given, outputs=vertices))
        outputs = jax.jit(jax.vmap(model.apply, in_axes=(0, None)))(draws, jnp.ones((1, 4)))
        squares = np.asarray(outputs)[:, 0] ** 2
        error = squares.std(axis=0) / np.sqrt(2000)
        assert (np.abs(squares.mean(axis=0) - before[vertices]) < 5 * error).all()


def test_bad_inputs_are_told():
    with pytest.raises(ValueError, match=r"shape \(n, 4\), got \(3, 2\)"):
        dag_network(GRAPHS["whole"]).apply(jnp.zeros(3), X[:, :2])
    with pytest.raises(ValueError, match=r"weights must have shape \(9,\), got \(10,\)"):
        dag_network(fully_connected(2, [3])).apply(jnp.zeros(10), X[:, :2])
    with pytest.raises(ValueError, match="same number of inputs"):
        wire([fully_connected(2, [3]), fully_connected(3, [3])])
    with pytest.raises(ValueError, match="share one activation"):
        wire([fully_connected(2, [3]), fully_connected(2, [3], activation="tanh")])
    with pytest.raises(ValueError, match="at least one, got none"):
        wire([])
