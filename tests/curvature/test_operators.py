import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.curvature import gauss_newton, hessian
from theorylab.models import linearize, mlp, network

MODEL = network(mlp([4, 3], 2, "tanh"), (3,), bias="normal")
X, Y = jax.random.normal(jax.random.key(1), (6, 3)), jax.random.normal(jax.random.key(2), (6, 2))


def loss(outputs):
    """A loss that is not quadratic, so that its own curvature matters."""
    return jnp.sum(jnp.cosh(outputs - Y))


def objective(params):
    return loss(MODEL.apply(params, X))


def matrix(operator, params):
    flat, unravel = ravel_pytree(params)
    return jax.vmap(lambda v: ravel_pytree(operator(unravel(v)))[0])(jnp.eye(flat.size))


@pytest.mark.parametrize("seed", range(2))
def test_hessian_is_the_dense_one(seed):
    """Oracle: `jax.hessian` of the flat function. Equal to rounding."""
    params = MODEL.init(jax.random.key(seed))
    flat, unravel = ravel_pytree(params)
    dense = jax.hessian(lambda w: objective(unravel(w)))(flat)
    np.testing.assert_allclose(matrix(hessian(objective, params), params), dense, atol=1e-12)


def test_gauss_newton_is_built_from_the_jacobian():
    """Oracle: the dense Jᵀ H J with H = diag(cosh). Equal to rounding."""
    params = MODEL.init(jax.random.key(0))
    flat, unravel = ravel_pytree(params)
    jacobian = jax.jacrev(lambda w: MODEL.apply(unravel(w), X).ravel())(flat)
    bend = jnp.cosh((MODEL.apply(params, X) - Y).ravel())
    operator = gauss_newton(lambda params: MODEL.apply(params, X), loss, params)
    np.testing.assert_allclose(
        matrix(operator, params), jacobian.T * bend[None, :] @ jacobian, atol=1e-12
    )


def test_gauss_newton_is_the_hessian_of_a_linear_model_and_not_of_a_network():
    """Oracle: ∇²f = 0 for the linearised network. Equal to rounding there, different here."""
    params = MODEL.init(jax.random.key(0))
    linear = linearize(MODEL.apply, params)
    moved = jax.tree.map(lambda w: w + 0.1, params)
    vector = jax.tree.map(jnp.ones_like, params)

    def images(apply):
        newton = gauss_newton(lambda params: apply(params, X), loss, moved)(vector)
        full = hessian(lambda params: loss(apply(params, X)), moved)(vector)
        return ravel_pytree(newton)[0], ravel_pytree(full)[0]

    np.testing.assert_allclose(*images(linear), rtol=1e-10)
    newton, full = images(MODEL.apply)
    assert np.linalg.norm(newton - full) > 0.01 * np.linalg.norm(full)
