"""Networks of every width as one program, against networks of that width."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import mlp, network
from theorylab.models.nested import nested


@pytest.mark.parametrize("width", [1, 5, 8])
def test_the_first_neurons_are_a_network_of_that_width(width):
    """Oracle: the network of this width with the first weights; the others have no gradient."""
    networks = nested(8, dimension=3, activation="erf")
    params = networks.init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (4, 3))
    narrow = network(mlp([width], activation="erf"), (3,))
    w, a = params
    expected = narrow.apply(({"weight": w[:, :width]}, (), {"weight": a[:width]}), x)
    apply = jax.jit(lambda params, width: networks.at_width(width)(params, x))
    np.testing.assert_allclose(apply(params, jnp.asarray(float(width))), expected, rtol=1e-12)
    slopes = jax.grad(lambda params: apply(params, jnp.asarray(float(width))).sum())(params)
    assert not np.any(slopes[0][:, width:])
    assert not np.any(slopes[1][width:])
    assert np.all(slopes[1][:width])


def test_no_neurons_are_refused():
    with pytest.raises(ValueError, match="widest must be at least 1, got 0"):
        nested(0, dimension=3)
    with pytest.raises(ValueError, match="dimension must be at least 1, got 0"):
        nested(4, dimension=0)
