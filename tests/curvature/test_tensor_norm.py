"""The Hessian of many outputs: brute force on small networks, and the closed form of two layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.curvature import tensor_norm, two_layer_tensor_norm
from theorylab.models import dag_network
from theorylab.models.dag_builders import fully_connected

X = jnp.array([0.6, -1.1, 0.3])


@pytest.fixture(scope="module")
def measured():
    """A network of three layers with two outputs: its weights, what was found, and its tensor."""
    model = dag_network(fully_connected(3, [4, 3], num_outputs=2, activation="tanh"))

    @jax.jit
    def both(weights, key):
        hessians = jax.hessian(lambda w: model.apply(w, X[None])[0])(weights)
        return tensor_norm(model.apply, weights, X, key, num_rounds=60, num_steps=30), hessians

    keys = jax.random.split(jax.random.key(0), 3)
    return [both(model.init(key), key) for key in keys]


def test_the_norm_is_that_of_a_fine_circle_of_directions(measured):
    """Oracle: with two outputs s is an angle; all of them, with dense eigenvalues."""
    angles = np.linspace(0, np.pi, 721)
    for found, hessians in measured:
        mixed = np.einsum("ak,kij->aij", np.stack([np.cos(angles), np.sin(angles)], 1), hessians)
        dense = np.abs(np.linalg.eigvalsh(mixed)).max()
        np.testing.assert_allclose(found.value, dense, rtol=1e-4)  # alternation is linear
        assert found.value < dense * (1 + 1e-5)  # the angle's step, squared
        single = np.abs(np.linalg.eigvalsh(np.asarray(hessians))).max(axis=1)
        np.testing.assert_allclose(found.outputs, single, rtol=1e-9)


def test_its_direction_attains_it(measured):
    for found, hessians in measured:
        mixed = np.einsum("k,kij->ij", found.direction, hessians)
        np.testing.assert_allclose(np.linalg.norm(mixed, 2), found.value, rtol=1e-5)


def test_two_layers_have_the_closed_form():
    """Oracle: the search. And each output alone has less."""
    inner = jax.random.normal(jax.random.key(1), (3, 5))
    outer = jax.random.normal(jax.random.key(2), (5, 3))
    model = dag_network(fully_connected(3, [5], num_outputs=3, activation="tanh"))
    weights = jnp.concatenate([inner.ravel(), outer.ravel()])
    found = jax.jit(
        lambda w: tensor_norm(model.apply, w, X, jax.random.key(0), 8, 60, num_steps=30)
    )(weights)
    closed = two_layer_tensor_norm(inner, outer, X, "tanh")
    np.testing.assert_allclose(found.value, closed, rtol=1e-5)
    assert found.outputs.max() < closed


def test_bad_counts_are_told():
    with pytest.raises(ValueError, match="num_rounds at least 1, got 2 and 0"):
        tensor_norm(lambda w, x: w[None], jnp.ones(2), X, jax.random.key(0), num_rounds=0)
