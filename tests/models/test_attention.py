"""Attention of finite networks, with all its scales, mechanisms and embeddings, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import NTK, Masked, SelfAttention, network
from theorylab.models.attention import attention_weights
from theorylab.models.parameters import Parameter
from theorylab.models.positional import PositionalEmbedding

RNG = np.random.default_rng(0)
TOKENS = RNG.normal(size=(2, 2, 3, 4))  # 2 × 3 positions, 4 channels
LINES = RNG.normal(size=(2, 5, 3))  # 5 positions, 3 channels
MASK = np.array([[[0, 0, 1], [0, 1, 0]], [[0, 0, 0], [0, 0, 1]]], dtype=bool)
DECAYING = {"decay": lambda distance: jnp.exp(-0.4 * distance), "norm": 1.5}


def drawn(model):
    """Parameters from NumPy."""
    rng = np.random.default_rng(1)
    leaf = lambda node: isinstance(node, Parameter)  # noqa: E731
    return jax.tree.map(lambda p: rng.normal(size=p.shape), model.parameters, is_leaf=leaf)


def covariance():
    """R by a loop over pairs of positions."""
    places = [(row, column) for row in range(2) for column in range(3)]
    distance = [[abs(a - c) ** 1.5 + abs(b - d) ** 1.5 for c, d in places] for a, b in places]
    return np.exp(-0.4 * np.array(distance))


def softmax(logits):
    weights = np.exp(logits)
    return weights / weights.sum(axis=-1, keepdims=True)


PHI = {
    "softmax": softmax,
    "identity": lambda logits: logits,
    "abs": np.abs,
    "relu": lambda logits: np.maximum(logits, 0),
}


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("scaling", "power"), [("root", -0.5), ("linear", -1.0)])
def test_plain_attention_is_its_formula(tied, scaling, power):
    """Oracle: head by head and input by input in NumPy."""
    layer = SelfAttention(4, num_heads=2, head_width=6, scaling=scaling, tied=tied)
    model = network(layer, (5, 3), NTK(weight_scale=1.5, bias_scale=0.3), bias="normal")
    p = drawn(model)
    params = jax.tree.map(jnp.asarray, p)
    expected = []
    for x in LINES:
        heads = []
        for head in range(2):
            columns = slice(6 * head, 6 * head + 6)
            query, key, value = (
                1.5 * x @ p[name][:, columns] / np.sqrt(3)
                for name in ("query", "query" if tied else "key", "value")
            )
            heads.append(softmax(query @ key.T * 6**power) @ value)
        expected.append(
            1.5 * np.concatenate(heads, axis=1) @ p["output"] / np.sqrt(12) + 0.3 * p["bias"]
        )
    np.testing.assert_allclose(model.apply(params, jnp.asarray(LINES)), expected, rtol=1e-12)
    assert ("key" in model.parameters) != tied


def test_self_attention_on_images_sees_every_position():
    """Oracle: the same positions in one axis."""
    layer = SelfAttention(4, 2, 3)
    image, line = network(layer, (2, 3, 3)), network(layer, (6, 3))
    params = jax.tree.map(jnp.asarray, drawn(line))
    x = RNG.normal(size=(2, 2, 3, 3))
    expected = line.apply(params, jnp.asarray(x.reshape(2, 6, 3))).reshape(2, 2, 3, 4)
    np.testing.assert_allclose(image.apply(params, jnp.asarray(x)), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "embedding"),
    [
        ({"mechanism": "softmax"}, {"in_values": True, **DECAYING}),
        ({"mechanism": "softmax", "tied": True}, {"join": "concatenate", "channels": 5}),
        ({"mechanism": "identity", "scaling": "linear"}, {"join": "concatenate", **DECAYING}),
        ({"mechanism": "relu", "value_width": 7}, {"join": "concatenate", "in_values": True}),
        ({"mechanism": "abs", "scaling": "linear", "tied": True}, {}),
    ],
)
def test_attention_is_its_formula(settings, embedding):
    """Oracle: head by head and input by input in NumPy, over the keys that are there."""
    scales = {"query_scale": 1.2, "key_scale": 0.7, "value_scale": 0.9, "output_scale": 1.6}
    embedding = PositionalEmbedding(scale=0.8, **embedding)
    layer = SelfAttention(3, 2, 6, bias_scale=0.4, embedding=embedding, **scales, **settings)
    model = network(layer, (2, 3, 4), NTK(weight_scale=1.5, bias_scale=0.3), bias="normal")
    p = drawn(model)
    params = jax.tree.map(jnp.asarray, p)
    found = model.apply(params, Masked(jnp.asarray(TOKENS), jnp.asarray(MASK)))
    root = np.linalg.cholesky(covariance()) if embedding.decay else np.eye(6)
    power, width = (-0.5 if layer.scaling == "root" else -1.0), layer.value_width
    for one, mask, output in zip(TOKENS, MASK, found, strict=True):
        there = ~mask.ravel()
        x = one.reshape(6, 4)[there]
        rows = 0.8 * (root @ p["embedding"])[there]
        seen = x + rows if embedding.join == "sum" else np.concatenate([x, rows], axis=1)
        valued, heads = seen if embedding.in_values else x, []
        for head in range(2):
            columns = slice(6 * head, 6 * head + 6)
            query = 1.2 * seen @ p["query"][:, columns]
            key = 0.7 * seen @ p["query" if layer.tied else "key"][:, columns]
            logits = query @ key.T / seen.shape[1] * 6**power
            value = 0.9 * valued @ p["value"][:, width * head : width * (head + 1)]
            weights = (
                softmax(logits) if layer.mechanism == "softmax" else PHI[layer.mechanism](logits)
            )
            heads.append(weights @ value / np.sqrt(valued.shape[1]))
        expected = 1.6 * np.concatenate(heads, axis=1) @ p["output"] / np.sqrt(2 * width)
        output = np.asarray(output).reshape(6, 3)
        np.testing.assert_allclose(output[there], expected + 0.4 * p["bias"], rtol=1e-10)
        assert not np.any(output[~there])


def test_no_key_at_all_is_no_nan():
    """Oracle: all keys count the same, or nothing."""
    logits, missing = jnp.array([[1.0, 2.0]]), jnp.array([[True, True]])
    assert attention_weights(logits, missing).tolist() == [[0.5, 0.5]]
    assert attention_weights(logits, missing, "relu").tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SelfAttention(1, 0, 1), "num_heads must be at least 1, got 0"),
        (lambda: SelfAttention(1, 1, 1, value_width=-1), "value_width must be at least 0, got -1"),
        (lambda: PositionalEmbedding(scale=0.0), "scale must be positive and finite, got 0.0"),
        (lambda: PositionalEmbedding(channels=3), "channels must not be given .* got 3"),
        (lambda: PositionalEmbedding("concatenate", channels=0), "channels must be at least 1"),
        (lambda: SelfAttention(1, 1, 1, key_scale=-1.0), "key_scale must be positive and finite"),
        (
            lambda: PositionalEmbedding(decay=lambda distance: distance).root((3,)),
            r"decay must make a positive definite matrix of .* \(3,\), got one with .* -",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
