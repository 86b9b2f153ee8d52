"""The transformer against itself in plain NumPy, with its cache, its loops and its symmetries."""

import math
from dataclasses import replace
from operator import itemgetter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import Transformer, greedy_decode, rotary

KEY = jax.random.key(3)
TOKENS = jax.random.randint(jax.random.key(1), (2, 6), 0, 7)
MODEL = Transformer(7, 7, context=6, width=8, depth=2, num_heads=2, num_neurons=12)


def perturbed(model):
    """Weights of which none is 0 or 1, so that each of them matters."""
    leaves, tree = jax.tree.flatten(model.init(KEY))
    rng = np.random.default_rng(0)
    return jax.tree.unflatten(
        tree, [leaf + 0.3 * rng.standard_normal(leaf.shape) for leaf in leaves]
    )


PARAMS = perturbed(MODEL)


def by_hand(model, params, tokens):
    """One sequence, place by place and head by head."""

    def normalized(norm, row):
        return (row - row.mean()) / np.sqrt(row.var() + 1e-5) * norm[0] + norm[1]

    def softmax(scores):
        shares = np.exp(scores - scores.max())
        return shares / shares.sum()

    params = jax.tree.map(np.asarray, params)
    rows = [params.read[token] + params.positions[i] for i, token in enumerate(tokens)]
    width, e = model.width, model.head_width
    layers = [jax.tree.map(itemgetter(i), params.layers) for i in range(model.depth)]
    for layer in layers * model.num_loops:
        mixed = [normalized(layer.before_attention, row) @ layer.mix for row in rows]
        new = []
        for i, row in enumerate(rows):
            heads = []
            for head in range(model.num_heads):
                q, k, v = (
                    slice(part * width + head * e, part * width + (head + 1) * e)
                    for part in range(3)
                )
                seen = mixed[: i + 1] if model.causal else mixed
                shares = softmax(np.array([mixed[i][q] @ m[k] for m in seen]) / math.sqrt(e))
                heads.append(sum(s * m[v] for s, m in zip(shares, seen, strict=True)))
            row = row + np.concatenate(heads) @ layer.combine
            inner = normalized(layer.before_neurons, row) @ layer.up + layer.up_bias
            new.append(row + np.maximum(inner, 0) @ layer.down + layer.down_bias)
        rows = new
    return np.array([normalized(params.before_output, row) @ params.output for row in rows])


@pytest.mark.parametrize("causal", [True, False])
def test_outputs_are_those_of_plain_loops(causal):
    """Oracle: NumPy, one place and one head at a time."""
    model = replace(MODEL, causal=causal, num_loops=2, activation="relu")
    outputs = jax.jit(model.apply)(PARAMS, TOKENS)
    for sequence, found in zip(np.asarray(TOKENS), outputs, strict=True):
        np.testing.assert_allclose(found, by_hand(model, PARAMS, sequence), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("positions", ["learned", "rotary", "none"])
def test_cache_changes_nothing(positions):
    """Oracle: `apply` on the whole sequence, read here in pieces of 3, 1 and 2."""
    model = replace(MODEL, positions=positions, num_loops=2)
    params = perturbed(model)
    cache, parts = model.init_cache(2), []
    for piece in (TOKENS[:, :3], TOKENS[:, 3:4], TOKENS[:, 4:]):
        outputs, cache = model.extend(params, cache, piece)
        parts.append(outputs)
    np.testing.assert_allclose(
        jnp.concatenate(parts, axis=1), model.apply(params, TOKENS), rtol=1e-9
    )
    assert int(cache.length) == 6
    with pytest.raises(ValueError, match=r"context has 6 positions, got 6 \+ 1"):
        model.extend(params, cache, TOKENS[:, :1])


def test_continued_takes_the_most_likely_token():
    """Oracle: `apply` on the whole sequence after every token."""
    tokens = TOKENS[:, :2]
    for _ in range(3):
        new = MODEL.apply(PARAMS, tokens)[:, -1].argmax(axis=-1)
        tokens = jnp.concatenate([tokens, new[:, None]], axis=1)
    np.testing.assert_array_equal(greedy_decode(MODEL, PARAMS, TOKENS[:, :2], 3), tokens[:, 2:])


def test_rotary_products_depend_on_the_distance():
    """Oracle: invariance under a common shift of positions; position 0 rotates nothing."""
    q, k = jax.random.normal(KEY, (2, 1, 4, 1, 6))
    positions = jnp.arange(4)

    def products(shift):
        both = [rotary(x, positions + shift) for x in (q, k)]
        return jnp.einsum("bnhe,bmhe->nm", *both)

    np.testing.assert_allclose(products(0), products(11), rtol=1e-10)
    assert jnp.abs(products(0) - jnp.einsum("bnhe,bmhe->nm", q, k)).max() > 0.1
    np.testing.assert_array_equal(rotary(q, 0 * positions), q)


def test_without_places_order_is_not_seen():
    """Oracle: a permutation of the positions permutes the outputs."""
    model = Transformer(3, 2, context=5, width=8, causal=False, reads="vectors", positions="none")
    params, x = model.init(KEY), jax.random.normal(KEY, (1, 5, 3))
    order = jnp.array([3, 0, 4, 1, 2])
    found = model.apply(params, x[:, order])
    np.testing.assert_allclose(found, model.apply(params, x)[:, order], rtol=1e-9)


def test_attention_maps_are_shares_of_what_is_seen():
    maps = np.asarray(replace(MODEL, num_loops=2).attention(PARAMS, TOKENS))
    assert maps.shape == (4, 2, 2, 6, 6)
    np.testing.assert_allclose(maps.sum(axis=-1), 1)
    assert not np.triu(maps, 1).any()
    assert np.tril(maps).min() >= 0


def test_start_has_size_one():
    """The rows that leave the stack at the start stay of the size of what was read."""
    model = Transformer(64, 64, context=32, width=64, depth=4)
    tokens = jax.random.randint(KEY, (4, 32), 0, 64)
    outputs = model.apply(model.init(KEY), tokens)
    assert 0.5 < float(outputs.std()) < 2


def test_unknown_tokens_are_not_numbers():
    assert jnp.isnan(MODEL.apply(PARAMS, TOKENS.at[0, 0].set(7)))[0].all()


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="num_heads must divide the width 8, got 3"):
        replace(MODEL, num_heads=3)
    with pytest.raises(ValueError, match="even width, got width 6 / 2 heads = 3"):
        Transformer(7, 7, context=6, width=6, num_heads=2, positions="rotary")
    # Under test the annotations are checked first, with an error of their own.
    with pytest.raises((ValueError, TypeError), match="sine"):
        replace(MODEL, positions="sine")
    with pytest.raises(ValueError, match="context must be at least 1, got 0"):
        replace(MODEL, context=0)
    with pytest.raises(ValueError, match="between 1 and 6 positions, the context, got 0"):
        MODEL.apply(PARAMS, TOKENS[:, :0])
    with pytest.raises(ValueError, match="between 1 and 6 positions, the context, got 12"):
        MODEL.apply(PARAMS, jnp.tile(TOKENS, 2))
    with pytest.raises(ValueError, match="whole numbers"):
        MODEL.apply(PARAMS, TOKENS.astype(float)[:, :, None])
    with pytest.raises(ValueError, match="only a causal transformer"):
        replace(MODEL, causal=False).init_cache(1)
    with pytest.raises(ValueError, match="num_new must be at least 1"):
        greedy_decode(MODEL, PARAMS, TOKENS, 2)
