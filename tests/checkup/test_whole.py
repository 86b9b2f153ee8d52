"""The card as a whole: every row is there, and is what the library says."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from theorylab.checkup import examine
from theorylab.models import mlp, network


def test_sharpness_is_that_of_the_dense_hessian():
    """Oracle: the largest eigenvalue of jax.hessian."""
    model = network(mlp((6,)), input_shape=(3,))
    params = model.init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (20, 3))
    y = jnp.sin(x[:, :1])
    card = examine(model.apply, params, x, y, loss="mse")
    flat, unravel = ravel_pytree(params)
    hessian = jax.hessian(lambda w: ((model.apply(unravel(w), x) - y) ** 2).mean())(flat)
    reading = card["sharpness"].reading
    top = np.linalg.eigvalsh(hessian)[-1]
    assert reading is not None
    assert reading.low - 1e-5 <= top <= reading.high + 1e-5
