"""Prices on the AGOP: closed forms of a linear network, and derivatives by differences."""

import jax
import jax.numpy as jnp
import numpy as np

from theorylab.features import agop_penalty, penalized
from theorylab.models import mlp, network
from theorylab.training import empirical_risk, squared


def test_a_linear_network_pays_for_its_weights():
    """Oracle: G = WWᵀ, so tr G = ‖W‖_F² and ‖G‖_F² is the sum of the singular values to the 4th."""
    w = jax.random.normal(jax.random.key(0), (6,)).reshape(3, 2)
    x = jnp.ones((4, 3))
    singular = np.linalg.svd(w, compute_uv=False)
    expected = 2 * (singular**2).sum() + 5 * np.sqrt((singular**4).sum())
    found = agop_penalty(lambda w, x: x @ w, w, x, trace=2.0, frobenius=5.0)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_descent_follows_the_price():
    """Oracle: differences of the risk and of the two prices, computed apart, along a direction."""
    model = network(mlp([5], activation="tanh"), (3,))
    params = model.init(jax.random.key(1))
    x = jax.random.normal(jax.random.key(2), (12,)).reshape(4, 3)
    y = x[:, :1]
    risk = empirical_risk(squared("mean"), model.apply)

    def whole(w):
        jacobian = jax.vmap(jax.grad(lambda z: model.apply(w, z[None])[0, 0]))(x)
        outer = jacobian.T @ jacobian / len(x)
        return risk(w, x, y) + 0.3 * jnp.trace(outer) + 0.7 * jnp.sqrt(jnp.sum(outer**2))

    slope = jax.grad(penalized(risk, model.apply, trace=0.3, frobenius=0.7))(params, x, y)
    squares = sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(slope))
    ahead, behind = (
        jax.tree.map(lambda w, g, sign=sign: w + sign * 1e-5 * g, params, slope)
        for sign in (1.0, -1.0)
    )
    np.testing.assert_allclose((whole(ahead) - whole(behind)) / 2e-5, squares, rtol=1e-6)
