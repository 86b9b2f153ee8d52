"""Graphs of neurons: longest paths, in-degrees, widths, and clear words for bad graphs."""

import itertools

import networkx
import numpy as np
import pytest

from theorylab.models import dag
from theorylab.models.dag_builders import densely_connected, fully_connected
from theorylab.models.dags import read_dag


class Drawn:
    """The part of a networkx DiGraph that is read."""

    def __init__(self, nodes, edges):
        self.nodes, self.edges = nodes, edges


def longest_by_enumeration(edges, num_vertices):
    """Oracle: try all paths."""
    after = {u: [b for a, b in edges if a == u] for u in range(num_vertices)}
    longest = [0] * num_vertices

    def walk(vertex, length):
        longest[vertex] = max(longest[vertex], length)
        for following in after[vertex]:
            walk(following, length + 1)

    for vertex in set(range(num_vertices)) - {b for _, b in edges}:
        walk(vertex, 0)
    return longest


@pytest.mark.parametrize("seed", range(5))
def test_layers_are_longest_paths(seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(9)
    edges = [pair for pair in itertools.combinations(order.tolist(), 2) if rng.random() < 0.4]
    used = sorted({vertex for pair in edges for vertex in pair})
    edges = [(used.index(a), used.index(b)) for a, b in edges]
    assert dag(edges).layers.tolist() == longest_by_enumeration(edges, len(used))


def test_a_short_way_does_not_shorten_the_long_one():
    """0 ─► 1 ─► 2 ─► 3 and 0 ─► 3: vertex 3 is in layer 3, not 1."""
    found = dag([(0, 1), (1, 2), (2, 3), (0, 3)])
    assert found.layers.tolist() == [0, 1, 2, 3]
    assert found.depth == 3
    assert found.layer_sizes == (1, 1, 1, 1)


def test_width_is_the_least_in_degree_from_the_second_layer_on():
    """The number of inputs does not count in layer 1, but does where a later layer reads them."""
    assert fully_connected(2, [7, 5, 9]).width == 5
    assert densely_connected(2, [7, 5]).width == 9
    with pytest.raises(ValueError, match="at least 2 layers, got 1"):
        _ = fully_connected(3, []).width


def test_counts():
    found = fully_connected(3, [4, 5], num_outputs=2)
    assert found.in_degree_histogram == {3: 4, 4: 5, 5: 2}
    assert found.num_weights == 3 * 4 + 4 * 5 + 5 * 2


def test_padding_counts_as_reads_and_shared_weights_once():
    found = dag([(0, 1), (0, 2)], weights=[0, 0], padding=[0, 2, 0])
    assert found.in_degrees.tolist() == [0, 3, 1]
    assert found.num_weights == 1


def test_labels_of_networkx_are_read():
    drawn = Drawn(["out", "a", "b", "x"], [("x", "a"), ("a", "b"), ("x", "b"), ("b", "out")])
    found = read_dag(drawn, activations={"a": "tanh"}, shortcuts=[("a", "b")])
    assert found.inputs.tolist() == [3]
    assert found.outputs.tolist() == [0]
    assert found.layers.tolist() == [3, 1, 2, 0]
    assert found.activations == {1: "tanh"}
    assert found.shortcuts.tolist() == [[1, 2]]


def test_networkx_itself_is_read():
    drawn = networkx.DiGraph([("x", "a"), ("a", "y"), ("x", "y")])
    assert read_dag(drawn).layers.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="must be a directed graph"):
        read_dag(drawn.to_undirected())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: dag([(0, 1), (1, 2), (2, 1), (2, 3)]),
            "no cycle, got (1 ─► 2 ─► 1|2 ─► 1 ─► 2)",
        ),
        (
            lambda: dag([(0, 1), (2, 3)], inputs=[0], outputs=[3]),
            "reachable from an input, got 3",
        ),
        (lambda: dag([(0, 1), (2, 1)], inputs=[0]), "in-degree of at least 1, got 0 at 2"),
        (lambda: dag([]), "at least one edge"),
        (lambda: dag([(0, 1)], outputs=[]), "must have outputs, got none"),
        (lambda: dag([(0, 1)], inputs=[]), "must have inputs, got none"),
        (lambda: dag([(0, 1), (0, 1)]), r"edges must be different, got \(0, 1\) twice"),
        (lambda: dag([(0, 1), (1, 2)], inputs=[0, 1]), "inputs must read nothing"),
        (lambda: dag([(0, 1)], outputs=[0]), "outputs must not be inputs, got 0"),
        (lambda: dag([(0, 1)], inputs=[5]), "vertices must be 0 to 1, got 5"),
        (lambda: dag([(0, 1), (1, 2)], shortcuts=[(0, 2)]), "outputs must have no shortcut"),
        (lambda: dag([(0, 1)], weights=[1]), "numbered 0, 1"),
        (lambda: dag([(0, 1), (0, 2)], weights=[0]), r"each of 2 edges, got \(1,\)"),
        (lambda: dag(np.arange(6).reshape(2, 3)), r"pairs \(u, v\), got .* \(2, 3\)"),
        (lambda: dag(np.array([(0, 1.7)])), r"edges must be whole numbers, got \[0.0, 1.7\]"),
        (lambda: dag([(0, 1)], labels=("x",)), "each of 2 vertices, got 1"),
        (lambda: dag([(0, 1)], activations={1: "tanh"}), "must be the identity, got 'tanh' at 1"),
        (lambda: dag([(0, 1)], activations={0: "tanh"}), "must be the identity, got 'tanh' at 0"),
        (lambda: dag([(0, 1)], padding=[0, -1]), "padding must be"),
        (lambda: dag([(0, 1)], activation="rleu"), "activation must be a known name"),
        (lambda: read_dag(Drawn("xy", [("x", "y")]), inputs=["z"]), "vertex of source, got 'z'"),
        (
            lambda: read_dag(Drawn("xyz", [("x", "y"), ("y", "z"), ("z", "y")])),
            "no cycle, got [yz]",
        ),
    ],
)
def test_bad_graphs_are_told(make, words):
    with pytest.raises(ValueError, match=words):
        make()
