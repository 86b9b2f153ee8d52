"""Dead and saturated units: planted ones, every activation, every form of a program."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features import unit_activity
from theorylab.features.unit_axes import Units, moved, reshaped

KEY = jax.random.key(0)
X = jax.random.normal(jax.random.key(1), (40, 4))
# Unit 0 has z = −3 everywhere, unit 1 has z = 40 everywhere, the others see the inputs.
PARAMS = {
    "in": jax.random.normal(KEY, (4, 6)).at[:, :2].set(0),
    "bias": jnp.array([[-3.0, 40.0, 0, 0, 0, 0]]),
    "out": jnp.ones((6, 1)),
}


def hidden(params, x):
    return x @ params["in"] + jnp.broadcast_to(params["bias"], (len(x), 6))


def network_of(function):
    return lambda params, x: function(hidden(params, x)) @ params["out"]


def exact_gelu(z):
    return jax.nn.gelu(z, approximate=False)


# What is dead and what is saturated, of the two planted units.
CASES = {
    "relu": (jax.nn.relu, [True, False], [False, False]),
    "maximum": (lambda z: jnp.maximum(z, 0), [True, False], [False, False]),
    "where": (lambda z: jnp.where(z > 0, z, 0.0), [True, False], [False, False]),
    "leaky": (jax.nn.leaky_relu, [False, False], [False, False]),
    "tanh": (jnp.tanh, [False, False], [True, True]),
    "sigmoid": (jax.nn.sigmoid, [False, False], [False, True]),
    "softplus": (jax.nn.softplus, [False, False], [False, False]),
    "elu": (jax.nn.elu, [False, False], [False, False]),
    "gelu": (jax.nn.gelu, [False, False], [False, False]),
    "exact gelu": (exact_gelu, [False, False], [False, False]),
    "silu": (jax.nn.silu, [False, False], [False, False]),
    "relu6": (jax.nn.relu6, [True, False], [False, True]),
    "hard tanh": (jax.nn.hard_tanh, [False, False], [True, True]),
    "by hand": (lambda z: z / (1 + jnp.exp(-z)), [False, False], [False, False]),
    "power": (lambda z: z**2, [False, False], [False, False]),
}


@pytest.mark.parametrize("name", CASES)
def test_planted_units_by_activation(name):
    """Oracle: slopes at −3 and 40 by hand: tanh′(−3) = 0.0099, gelu′(−3) = −0.012, and so on."""
    function, dead, saturated = CASES[name]
    (found,) = unit_activity(network_of(function), PARAMS, X).values()
    assert found.dead.tolist() == [*dead, False, False, False, False]
    assert found.saturated.tolist()[:2] == saturated
    assert found.weights == "['in']"
    assert found.num_observations == 40


def test_shares_are_those_of_the_pre_activations():
    """Oracle: numpy on z."""
    found = unit_activity(network_of(jax.nn.relu), PARAMS, X, block_size=7)["relu 1"]
    z = np.asarray(hidden(PARAMS, X))
    np.testing.assert_allclose(found.active, (z > 0).mean(axis=0), rtol=1e-6)
    found = unit_activity(network_of(jnp.tanh), PARAMS, X)["tanh 1"]
    np.testing.assert_allclose(found.flat, (1 / np.cosh(z) ** 2 < 0.00999).mean(0), rtol=1e-6)


def test_a_unit_of_a_convolution_is_its_channel():
    """Oracle: numpy over images and positions; a bias of −100 kills one channel."""

    def network(params, x):
        names = ("NHWC", "HWIO", "NHWC")
        h = jax.lax.conv_general_dilated(
            x, params["kernel"], (1, 1), "SAME", dimension_numbers=names
        )
        h = h + jnp.broadcast_to(params["bias"], h.shape)
        h = jax.nn.relu(h)
        pooled = jax.lax.reduce_window(
            h, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
        return pooled.reshape(len(x), -1) @ params["out"]

    params = {
        "kernel": jax.random.normal(KEY, (3, 3, 2, 5)),
        "bias": jnp.zeros((1, 1, 1, 5)).at[..., 2].set(-100.0),
        "out": jnp.ones((20, 3)),
    }
    x = jax.random.normal(KEY, (6, 4, 4, 2))
    found = unit_activity(network, params, x)["relu 1"]
    assert found.dead.tolist() == [False, False, True, False, False]
    assert found.weights == "['kernel']"
    assert found.num_observations == 6 * 16


def test_residual_norm_and_attention():
    """Oracle: by hand: the one activation is the GELU; norms and softmax are none."""

    def norm(x):
        x = x - x.mean(axis=-1, keepdims=True)
        return x / jnp.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5)

    def network(params, ids):
        h = params["embedding"][ids] + params["places"][None]
        heads = lambda a: a.reshape(len(ids), 3, 2, 2)  # noqa: E731
        q, k = heads(norm(h) @ params["query"]), heads(norm(h) @ params["query"])
        scores = jnp.einsum("nshd,nthd->nhst", q, k)
        scores = jnp.where(jnp.tril(jnp.ones((3, 3), bool))[None, None], scores, -1e9)
        h = h + jnp.einsum("nhst,nthd->nshd", jax.nn.softmax(scores), k).reshape(h.shape)
        h = h + jax.nn.gelu(norm(h) @ params["up"]) @ params["down"]
        return jax.nn.log_softmax(h[:, -1])

    shapes = {"embedding": (9, 4), "places": (3, 4), "query": (4, 4), "up": (4, 8), "down": (8, 4)}
    params = {
        name: jax.random.normal(jax.random.key(i), shape)
        for i, (name, shape) in enumerate(shapes.items())
    }
    found = unit_activity(network, params, jax.random.randint(KEY, (5, 3), 0, 9))
    assert list(found) == ["gelu 1"]
    assert found["gelu 1"].active.shape == (8,)
    assert found["gelu 1"].weights == "['up']"
    assert found["gelu 1"].num_observations == 15


def test_a_module_of_equinox_inside_of_jit_and_checkpoint():
    """Oracle: the same network by hand; its units stand along another axis of a mapped product."""
    module = eqx.nn.MLP(4, 1, 5, 2, activation=jax.nn.relu, key=KEY)
    params, static = eqx.partition(module, eqx.is_inexact_array)

    @jax.jit
    def network(params, x):
        return jax.checkpoint(lambda p, x: jax.vmap(eqx.combine(p, static))(x))(params, x)

    found = unit_activity(network, params, X)
    z = np.asarray(
        X @ module.layers[0].weight.T
        + jnp.broadcast_to(jnp.asarray(module.layers[0].bias), (40, 5))
    )
    assert [one.active.shape for one in found.values()] == [(5,), (5,)]
    np.testing.assert_allclose(found["relu 1"].active, (z > 0).mean(axis=0), rtol=1e-6)


def test_steps_of_a_recurrent_network_are_observations():
    """Oracle: the loop written out, with numpy."""
    params = {"in": PARAMS["in"][:, 2:], "state": jnp.eye(4), "out": jnp.ones((4, 1))}
    x = jax.random.normal(KEY, (6, 5, 4))

    def network(params, x):
        def step(h, x):
            return jax.nn.relu(h @ params["state"] + x @ params["in"] - 1.0), None

        h, _ = jax.lax.scan(step, jnp.zeros((len(x), 4)), jnp.swapaxes(x, 0, 1))
        return h @ params["out"]

    found = unit_activity(network, params, x)["relu 1"]
    h, active = np.zeros((6, 4)), []
    for step in range(5):
        z = h + np.asarray(x[:, step] @ params["in"]) - 1.0
        h = np.maximum(z, 0)
        active.append(z > 0)
    np.testing.assert_allclose(found.active, np.mean(active, axis=(0, 1)), rtol=1e-6)
    assert found.num_observations == 30


def test_layers_in_a_loop_have_units_of_their_own():
    """Oracle: a bias of the second of three layers kills all its units."""
    params = {"w": jnp.stack([jnp.eye(4)] * 3), "b": jnp.array([[0.0], [-99.0], [0.0]])}

    def network(params, x):
        def layer(h, p):
            z = h @ p["w"] + jnp.broadcast_to(p["b"], h.shape)
            return h + jax.nn.relu(z), None

        return jax.lax.scan(layer, x, params)[0]

    found = unit_activity(network, params, X)["relu 1"]
    assert found.dead.tolist() == [False] * 4 + [True] * 4 + [False] * 4


def test_outputs_and_linear_networks_have_no_hidden_units():
    """Oracle: by definition."""
    assert unit_activity(lambda w, x: jax.nn.sigmoid(x @ w), jnp.ones((4, 2)), X) == {}
    assert unit_activity(lambda w, x: jnp.tanh(x) @ w, jnp.ones((4, 2)), X) == {}


def test_axes_of_units_follow_the_program():
    """Oracle: by hand."""
    (equation,) = jax.make_jaxpr(lambda x: jnp.transpose(x, (2, 0, 1)))(jnp.ones((2, 3, 4))).eqns
    assert moved(equation, [Units(True, frozenset({2}), 0)]).axes == {0}
    (equation,) = jax.make_jaxpr(lambda x: x.sum(axis=1))(jnp.ones((2, 3, 4))).eqns
    assert moved(equation, [Units(True, frozenset({2}), 0)]).axes == {1}
    assert reshaped((1, 6), (6,), frozenset({1})) == {0}
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        unit_activity(network_of(jnp.tanh), PARAMS, X, 0)
