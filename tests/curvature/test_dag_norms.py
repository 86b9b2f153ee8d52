"""Norms of networks on many graphs: ReLU with two layers has them in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.curvature import dag_norms
from theorylab.models.dag_builders import fully_connected


def test_norms_of_two_layers_are_the_closed_form():
    """Oracle: ‖x‖/√(md), whatever the weights; one layer is linear."""
    x = jnp.array([3.0, 0.0, 4.0, 0.0])
    graphs = [fully_connected(4, widths) for widths in ([16], [25], [])]
    found = dag_norms(graphs, x, jax.random.key(0), num_steps=4)
    np.testing.assert_allclose(found.norms, [5 / 8, 5 / 10, 0.0], rtol=1e-12, atol=1e-12)
    assert (found.residuals < 1e-9).all()


def test_bad_requests_are_told():
    with pytest.raises(ValueError, match="graphs must be at least one, got none"):
        dag_norms([], jnp.ones(4), jax.random.key(0))
    with pytest.raises(ValueError, match=r"one input of shape \(4,\), got \(3,\)"):
        dag_norms([fully_connected(4, [2])], jnp.ones(3), jax.random.key(0))
