"""Many graphs, few programs: the same as one graph after another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models.dag_builders import convolutional, densely_connected, fully_connected
from theorylab.training import dag_ensemble
from theorylab.training.dag_ensemble import _groups


def test_every_graph_has_its_own_weights():
    """One program for each kind; N(0, 1) at the weights of the graph, 0 elsewhere."""
    graphs = [fully_connected(2, [90]), densely_connected(2, [3, 5]), convolutional(2, [3], 3)]
    keys = jax.random.split(jax.random.key(0), 3)
    run = lambda apply, w, key: (apply(w, jnp.ones((1, 2))), (w != 0).sum(), (w**2).sum())  # noqa: E731
    outputs, counts, squares = dag_ensemble(run, graphs, keys)
    assert outputs.shape == (3, 1, 1)
    assert counts.tolist() == [graph.num_weights for graph in graphs]
    assert abs(squares[0] / 270 - 1) < 4 * np.sqrt(2 / 270)


def test_sizes_that_differ_much_are_apart():
    small, larger = fully_connected(2, [4]), fully_connected(2, [420, 420])
    assert _groups([small, fully_connected(2, [90]), small]) == [[0, 1, 2]]
    assert _groups([small, larger, small]) == [[0, 2], [1]]
    assert _groups([small, convolutional(2, [3], 3)]) == [[0], [1]]


def test_every_graph_needs_a_key():
    with pytest.raises(ValueError, match="one for every graph, 1, got 2"):
        dag_ensemble(
            lambda apply, w, key: w, [fully_connected(2, [4])], jax.random.split(jax.random.key(0))
        )
