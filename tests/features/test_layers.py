"""Features of layers: AGOPs of the rest of the network, weights by hand, the ansatz."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features import (
    LayerFeatures,
    agop,
    feature_ansatz,
    layer_features,
    neural_feature_ansatz,
)
from theorylab.models import Activation, Conv, Dense, Flatten, Serial, network

KEY = jax.random.key(0)


def test_a_layers_agop_is_that_of_the_rest_of_the_network():
    """Oracle: the AGOP of what comes after the layer, at what comes into it."""
    weights = {
        "first": jax.random.normal(KEY, (20,)).reshape(4, 5),
        "second": jax.random.normal(jax.random.key(1), (10,)).reshape(2, 5),
    }

    def inner(w, x):
        return jnp.tanh(x @ w["first"])

    def outer(w, hidden):
        return jnp.sin(hidden @ w["second"].T)  # its weights stand the other way round

    x = jax.random.normal(jax.random.key(2), (28,)).reshape(7, 4)
    found = layer_features(lambda w, x: outer(w, inner(w, x)), weights, x, block_size=3)
    whole = agop(lambda w, x: outer(w, inner(w, x)), weights, x)
    rest = agop(outer, weights, inner(weights, x))
    np.testing.assert_allclose(found["['first']"].gradients, whole, rtol=1e-11)
    np.testing.assert_allclose(found["['second']"].gradients, rest, rtol=1e-11)
    expected = weights["second"].T @ weights["second"]
    np.testing.assert_allclose(found["['second']"].weights, expected, rtol=1e-12)


def test_windows_of_a_convolution():
    """Oracle: the AGOP of one window, whose network puts it back into its image."""
    model = network(Serial(Conv(3, (2, 2)), Activation("tanh"), Flatten(), Dense(2)), (2, 3, 2))
    params = model.init(KEY)
    images = jax.random.normal(jax.random.key(2), (60,)).reshape(5, 2, 3, 2)
    found = layer_features(model.apply, params, images)["[0]['weight']"]
    kernel = np.asarray(params[0]["weight"]).reshape(8, 3)
    np.testing.assert_allclose(found.weights, kernel @ kernel.T, rtol=1e-12)

    # Two windows; the gradient of a window is that of its own copy.
    windows = jnp.stack([images[:, :, :2], images[:, :, 1:]], axis=1)

    def of_windows(w, windows):
        hidden = jnp.tanh(
            windows.reshape(len(windows), 2, 8) @ w[0]["weight"].reshape(8, 3) / 8**0.5
        )
        return hidden.reshape(len(windows), -1) @ w[3]["weight"] / 6**0.5

    np.testing.assert_allclose(of_windows(params, windows), model.apply(params, images), rtol=1e-12)
    blocks = agop(of_windows, params, windows).reshape(2, 8, 2, 8)
    expected = sum(blocks[s, :, s] for s in range(2))
    np.testing.assert_allclose(found.gradients, expected, rtol=1e-11)


def test_the_ansatz_is_a_cosine_of_a_power():
    """Oracle: N = G^½ holds with power ½, and not with power 1."""
    values = jnp.array([4.0, 1.0])
    features = LayerFeatures(jnp.diag(jnp.sqrt(values)), jnp.diag(values))
    np.testing.assert_allclose(feature_ansatz(features, 0.5), 1.0, rtol=1e-12)
    np.testing.assert_allclose(feature_ansatz(features), 9 / np.sqrt(5 * 17), rtol=1e-12)
    with pytest.raises(ValueError, match="power must be positive, got 0"):
        feature_ansatz(features, 0.0)


def test_the_ansatz_without_what_all_directions_share():
    """Oracle: cosines by hand; a multiple of I added to WWᵀ changes one of them alone."""
    w = jax.random.normal(jax.random.key(3), (6,)).reshape(3, 2)
    x = jax.random.normal(jax.random.key(4), (15,)).reshape(5, 3)

    def network(w, x):
        return jnp.tanh(x @ w)

    (found,) = neural_feature_ansatz(network, w, x, power=0.5).values()
    outer, features = np.asarray(w @ w.T), np.asarray(agop(network, w, x))
    values, vectors = np.linalg.eigh(features)
    root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    off = [matrix - np.trace(matrix) / 3 * np.eye(3) for matrix in (outer, root)]
    for measured, (a, b) in zip(found, ((outer, root), off), strict=True):
        expected = np.sum(a * b) / np.sqrt(np.sum(a**2) * np.sum(b**2))
        np.testing.assert_allclose(measured, expected, rtol=1e-9)
