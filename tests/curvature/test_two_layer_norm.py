"""The Hessian norm of two layers: a closed form against the dense matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.curvature import two_layer_norm
from theorylab.models import activation


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_closed_form_is_the_norm_of_the_dense_hessian(name):
    d, m = 3, 5
    weights = jax.random.normal(jax.random.key(0), (d * m + m,))
    x = jax.random.normal(jax.random.key(1), (d,))

    def output(w):
        inner, outer = w[: d * m].reshape(d, m), w[d * m :]
        return outer @ activation(name)(x @ inner / jnp.sqrt(d)) / jnp.sqrt(m)

    dense = np.linalg.norm(jax.jit(jax.hessian(output))(weights), 2)
    found = two_layer_norm(weights[: d * m].reshape(d, m), weights[d * m :], x, name)
    assert found == pytest.approx(dense, rel=1e-12)
    if name == "relu":
        assert found == pytest.approx(float(jnp.linalg.norm(x)) / np.sqrt(m * d), rel=1e-12)
