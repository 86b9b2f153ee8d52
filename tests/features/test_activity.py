"""Probes against activations computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features.activity import activations, active_shares
from theorylab.models import Activation, Dense, Residual, Serial, mlp, network

X = jax.random.normal(jax.random.key(0), (50, 6))


def test_probes_see_every_activation_in_its_order():
    """Oracle: the same network, matrix by matrix."""
    relu = Activation("relu")
    architecture = Serial(Dense(5), relu, Residual(Serial(Dense(5), relu)), Dense(2))
    model = network(architecture, (6,))
    params = model.init(jax.random.key(1))
    first, _, branch, _ = params
    w, v = first["weight"] / 6**0.5, branch["branch"][0]["weight"] / 5**0.5
    hidden = jax.nn.relu(X @ w)
    expected = [hidden, jax.nn.relu(hidden @ v)]
    probe = activations(architecture, (6,))
    for found, value in zip(jax.jit(probe)(params, X), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-11)
    shares = active_shares(probe, params, X)
    counted = [np.mean(np.asarray(value) > 0) for value in expected]
    np.testing.assert_allclose(shares, counted, rtol=1e-12)


def test_dead_and_live_layers():
    architecture = mlp([3], num_outputs=1)
    probe = activations(architecture, (6,))
    params = ({"weight": jnp.ones((6, 3))}, (), {"weight": jnp.ones((3, 1))})
    assert active_shares(probe, params, jnp.abs(X)).tolist() == [1.0]
    assert active_shares(probe, params, -jnp.abs(X)).tolist() == [0.0]
    with pytest.raises(ValueError, match="must have an Activation"):
        active_shares(activations(Dense(1), (6,)), {"weight": jnp.ones((6, 1))}, X)


def test_shares_of_inputs_in_turn_are_those_of_all():
    """Oracle: all 50 inputs at once; 16 at a time leave a rest of 2."""
    architecture = mlp([5, 7])
    params = network(architecture, (6,)).init(jax.random.key(1))
    probe = activations(architecture, (6,))
    expected = active_shares(probe, params, X)
    found = active_shares(probe, params, X, at_once=16)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert 0 < float(expected.min()) < 1
