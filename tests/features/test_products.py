"""Products with weights, as a network's program has them, against networks written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features import feature_movement, layer_inputs, layers_of
from theorylab.features.products import products_of

W = jax.random.normal(jax.random.key(0), (3, 4, 4)) / 2
X = jax.random.normal(jax.random.key(1), (5, 4))


def in_a_loop(params, x):
    """Three layers in a scan."""
    h, _ = jax.lax.scan(lambda h, w: (jnp.tanh(2 * (h @ w)), None), x, params["w"])
    return h @ params["out"]


def one_by_one(params, x):
    """The same, written out."""
    for w in params["w"]:
        x = jnp.tanh(2 * (x @ w))
    return x @ params["out"]


PARAMS = {"w": W, "out": jnp.ones((4, 2))}


def test_layers_in_a_loop_are_found_one_by_one():
    """Oracle: the network written out."""
    products, outputs = products_of(in_a_loop, PARAMS, X[0])
    assert [each.name for each in products] == ["['w'] [0]", "['w'] [1]", "['w'] [2]", "['out']"]
    np.testing.assert_allclose(outputs, in_a_loop(PARAMS, X[:1])[0], rtol=1e-12)
    again, _ = products_of(one_by_one, PARAMS, X[0])
    for one, other in zip(products, again, strict=True):
        np.testing.assert_allclose(one.incoming, other.incoming, rtol=1e-12)
        np.testing.assert_allclose(float(one.weight_scale), float(other.weight_scale), rtol=1e-12)
        assert one.sources == other.sources


def test_inputs_of_layers_are_hidden_features():
    """Oracle: tanh(2xW) by hand."""
    found = layer_inputs(in_a_loop, PARAMS, X)
    np.testing.assert_allclose(found["['w'] [0]"], X, rtol=1e-12)
    np.testing.assert_allclose(found["['w'] [1]"], jnp.tanh(2 * X @ W[0]), rtol=1e-12)


MULTIPLIERS = {
    "after": lambda w, x: jnp.tanh(x @ w["a"]) @ w["b"] * 0.25,
    "in the weights": lambda w, x: jnp.tanh(x @ w["a"]) @ (w["b"] / 4),
    "before": lambda w, x: (0.25 * jnp.tanh(x @ w["a"])) @ w["b"],
    "in two": lambda w, x: jax.jit(lambda h: -0.5 * h)(0.5 * jnp.tanh(x @ w["a"]) @ w["b"]),
    "learned": lambda w, x: jnp.tanh(x @ w["a"]) @ w["b"] * w["scale"],
}


@pytest.mark.parametrize("name", MULTIPLIERS)
def test_multipliers_count_wherever_they_stand(name):
    """Invariance: the same network has the same weight scale, rms(b)·√4/4 = ½."""
    params = {"a": W[0], "b": jnp.ones((4, 1)), "scale": jnp.array(0.25)}
    products, _ = products_of(MULTIPLIERS[name], params, X[0])
    assert products[1].name == "['b']"
    np.testing.assert_allclose(float(products[1].weight_scale), 0.5, rtol=1e-6)


def test_a_mean_is_no_small_multiplier():
    """The 1/n of a mean makes features, not weights."""
    network = lambda w, x: jnp.tanh(x[:, :, None] * w["a"]).mean(axis=1) @ w["b"]  # noqa: E731
    params = {"a": jnp.ones((1, 1, 3)), "b": jnp.ones((3, 1))}
    (product,), _ = products_of(network, params, X[0])
    np.testing.assert_allclose(float(product.weight_scale), 3**0.5, rtol=1e-6)


def test_who_reads_whom():
    """A residual stream: the readout reads both branches' ends, not what is inside them."""

    def network(w, x):
        h = x @ w["in"]
        h = h + jnp.tanh(h @ w["up"]) @ w["down"]
        return h @ w["out"]

    names = ("in", "up", "down", "out")
    params = {name: W[0] for name in names}
    layers = {layer.name: layer for layer in layers_of(network, params, X)}
    assert layers["['in']"].readers == ("['up']", "['out']")
    assert layers["['up']"].readers == ("['down']",)
    assert layers["['down']"].readers == ("['out']",)
    assert [name for name in names if layers[f"['{name}']"].is_readout] == ["out"]
    assert [name for name in names if layers[f"['{name}']"].is_hidden] == ["up", "down", "out"]


def test_convolutions_and_checkpoints_are_seen():
    """Oracle: fan-in is window times channels, 9 · 2."""

    def network(w, x):
        h = jax.checkpoint(lambda x: jax.lax.conv(x, w["filters"], (1, 1), "SAME"))(x)
        return jax.nn.relu(h).reshape(len(x), -1) @ w["out"]

    params = {"filters": jnp.ones((4, 2, 3, 3)), "out": jnp.ones((4 * 25, 1))}
    products, _ = products_of(network, params, jnp.ones((2, 5, 5)))
    assert [each.fan_in for each in products] == [18, 100]
    assert products[1].sources == {0}


def test_movement_is_the_change_of_hidden_features():
    """Oracle: norms of tanh(2xW) at both parameters, written out."""
    after = {"w": 1.1 * W, "out": PARAMS["out"]}
    found = feature_movement(in_a_loop, after, PARAMS, X)
    assert list(found) == ["['w'] [1]", "['w'] [2]", "['out']"]
    old, new = np.tanh(2 * X @ W[0]), np.tanh(2.2 * X @ W[0])
    expected = np.linalg.norm(new - old) / np.linalg.norm(old)
    np.testing.assert_allclose(float(found["['w'] [1]"].relative), expected, rtol=1e-10)
