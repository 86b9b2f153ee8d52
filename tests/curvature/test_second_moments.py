"""Preconditioners against what the optimisers do to a gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.curvature import preconditioner

PARAMS = {"a": jnp.array([1.0, 2.0]), "b": jnp.array([[3.0]])}
GRADIENTS = {"a": jnp.array([0.5, -2.0]), "b": jnp.array([[0.1]])}

OPTIMISERS = {
    "adam": optax.adam(1.0, b1=0.0),
    "clipped adamw": optax.chain(optax.clip(100.0), optax.adamw(1.0, b1=0.0, weight_decay=0.0)),
    "masked": optax.masked(optax.adam(1.0, b1=0.0), {"a": True, "b": True}),
    "told": optax.inject_hyperparams(optax.adam)(1.0, b1=0.0, b2=0.9, eps=0.1),
    "rmsprop": optax.rmsprop(1.0),
    "adagrad": optax.adagrad(1.0),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_step_is_the_gradient_over_the_preconditioner(name):
    """Oracle: the step that the optimiser takes without momentum, −g/P."""
    optimiser = OPTIMISERS[name]
    state = optimiser.init(PARAMS)
    for scale in (1.0, 3.0, 2.0):
        gradients = jax.tree.map(lambda leaf, s=scale: s * leaf, GRADIENTS)
        updates, state = optimiser.update(gradients, state, PARAMS)
    found = preconditioner(state, PARAMS)
    expected = jax.tree.map(lambda g, u: -g / u, gradients, updates)
    jax.tree.map(lambda p, e: np.testing.assert_allclose(p, e, rtol=1e-5), found, expected)


def test_second_moments_themselves_are_taken():
    """Oracle: √v + ε by hand."""
    found = preconditioner(jax.tree.map(jnp.square, PARAMS), PARAMS, epsilon=0.5)
    jax.tree.map(lambda p, w: np.testing.assert_allclose(p, w + 0.5), found, PARAMS)


def test_a_state_without_second_moments_is_refused():
    with pytest.raises(ValueError, match="must hold second moments"):
        preconditioner(optax.sgd(0.1, momentum=0.9).init(PARAMS), PARAMS)


def test_second_moments_of_other_parameters_are_refused():
    other = optax.adam(0.1).init({"a": jnp.ones(3)})
    with pytest.raises(ValueError, match="must have the tree and shapes of params"):
        preconditioner(other, PARAMS)
