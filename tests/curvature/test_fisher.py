import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.curvature import empirical_fisher, gauss_newton, monte_carlo_fisher
from theorylab.models import mlp, network
from theorylab.training import cross_entropy, exponential, logistic, squared

MODEL = network(mlp([3], 2, "tanh"), (2,), bias="normal")
PARAMS = MODEL.init(jax.random.key(0))
X = jax.random.normal(jax.random.key(1), (5, 2))
Y = {
    "squared": jax.random.normal(jax.random.key(2), (5, 2)),
    "logistic": jnp.array([[1.0, -1.0]] * 5),
    "cross_entropy": jax.nn.one_hot(jnp.arange(5) % 2, 2),
}
LOSSES = (squared("half_mean"), logistic("mean"), cross_entropy("mean"))


def matrix(operator):
    flat, unravel = ravel_pytree(PARAMS)
    return jax.vmap(lambda v: ravel_pytree(operator(unravel(v)))[0])(jnp.eye(flat.size))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
def test_empirical_fisher_is_a_sum_of_outer_products(loss):
    """Oracle: gradients of single samples, dense. Equal to rounding."""
    y = Y[loss.kind]

    @jax.jit
    def both(params, x, y):
        flat, unravel = ravel_pytree(params)
        summed = type(loss)(loss.kind, "sum")

        def one(w, x, y):
            return summed(MODEL.apply(unravel(w), x[None]), y[None])

        gradients = jax.vmap(jax.grad(one), (None, 0, 0))(flat, x, y)
        return (
            matrix(empirical_fisher(MODEL.apply, loss, params, x, y)),
            gradients.T @ gradients * loss.scale(5, 2),
        )

    measured, expected = both(PARAMS, X, y)
    np.testing.assert_allclose(measured, expected, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
def test_predicted_labels_give_gauss_newton_in_the_mean(loss):
    """Oracle: the Gauss–Newton operator; within five standard errors of 4,000 draws, everywhere."""

    @jax.jit
    def both(params, x, y):
        newton = gauss_newton(lambda w: MODEL.apply(w, x), lambda f: loss(f, y), params)
        vector = jax.tree.map(jnp.ones_like, params)

        def drawn(key):
            found = monte_carlo_fisher(MODEL.apply, loss, params, x, key)(vector)
            return ravel_pytree(found)[0]

        draws = jax.vmap(drawn)(jax.random.split(jax.random.key(3), 4000))
        return draws.mean(0), draws.std(0) / np.sqrt(4000), ravel_pytree(newton(vector))[0]

    mean, error, expected = both(PARAMS, X, Y[loss.kind])
    assert np.all(np.abs(mean - expected) <= 5 * error + 1e-12)
    assert np.linalg.norm(error) < 0.1 * np.linalg.norm(expected)


def test_a_loss_without_a_law_is_refused():
    with pytest.raises(ValueError, match="exponential loss is not the logarithm of a law"):
        monte_carlo_fisher(MODEL.apply, exponential("mean"), PARAMS, X, jax.random.key(0))
