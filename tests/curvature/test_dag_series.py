"""The Hessian as a series in the last weights, against the dense Hessian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.curvature import dag_series
from theorylab.models import dag_network
from theorylab.models.dag_builders import (
    convolutional,
    densely_connected,
    drop_edges,
    fully_connected,
    random_dag,
)

KEY = jax.random.key(0)
X = jnp.array([0.5, -1.0])
GRAPHS = {
    "plain": fully_connected(2, [3, 4], activation="tanh"),
    "dense": densely_connected(2, [3, 4], activation="tanh"),
    "dropped": drop_edges(KEY, densely_connected(2, [4, 4], activation="tanh"), 0.5),
    "uneven": random_dag(KEY, 2, [6, 3], (2, 6), activation="tanh"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_series_is_the_hessian_in_all_other_weights(name):
    """Oracle: the dense Hessian of the output, with the output's own rows and columns left out."""
    graph = GRAPHS[name]
    apply, weights = dag_network(graph).apply, dag_network(graph).init(KEY)
    dense = jax.jit(jax.hessian(lambda w: apply(w, X[None])[0, 0]))(weights)
    own = np.isin(
        np.arange(graph.num_weights), graph.weights[graph.edges[:, 1] == graph.outputs[0]]
    )
    matrices = jax.jit(lambda w: dag_series(graph, w, X))(weights)
    found = jnp.einsum("k,kij->ij", weights[own], matrices)
    np.testing.assert_allclose(found, dense[~own][:, ~own], rtol=1e-12, atol=1e-14)


def test_bad_requests_are_told():
    with pytest.raises(ValueError, match=r"x must be one input of shape \(2,\), got \(3,\)"):
        dag_series(GRAPHS["plain"], jnp.zeros(22), jnp.zeros(3))
    with pytest.raises(ValueError, match="a weight of its own for every edge"):
        dag_series(convolutional(2, [2], 1), jnp.zeros(6), X)
