"""Networks on token ids, differentiated by the rows that tokens look up."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features import agop, agop_product, agop_sketch
from theorylab.features.split import split_at
from theorylab.models import Transformer

KEY = jax.random.key(0)
MODEL = Transformer(7, 3, context=4, width=4, depth=1, num_heads=2)
PARAMS = MODEL.init(KEY)
IDS = jax.random.randint(jax.random.key(1), (5, 4), 0, 7)
PAIR: Any = (  # the table is replaced by the rows, which new ids look up one after the other
    lambda params, x: params.read[x],
    lambda params, e, x: MODEL.apply(
        params._replace(read=e.reshape(-1, 4)), jnp.arange(x.size).reshape(x.shape)
    ),
)


def last(f):
    return f[:, -1]


def by_hand(rest, rows):
    """Oracle: dense Jacobians, input by input, by the rows that it looks up."""
    total = 0
    for one in rows:
        jacobian = jax.jacobian(lambda e: rest(e[None])[0])(one).reshape(-1, one.size)
        total += jacobian.T @ jacobian
    return total / len(rows)


@pytest.fixture(scope="module")
def expected():
    def rest(e):
        return last(PAIR[1](PARAMS, e, jnp.zeros((1, 4), int)))

    return by_hand(rest, PARAMS.read[IDS])


@pytest.mark.parametrize("at", ["read", ("read",), PAIR])
def test_the_agop_at_an_embedding_by_name_path_and_pair(expected, at):
    """Oracle: Jacobians by the table's rows, where the network's table is exchanged for them."""
    found = agop(MODEL.apply, PARAMS, IDS, 2, at=at, outputs=last)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


def test_products_and_sketches_at_an_embedding(expected):
    directions = jax.random.normal(KEY, (16, 2))
    product = agop_product(MODEL.apply, PARAMS, IDS, at="read", outputs=last)
    np.testing.assert_allclose(product(directions), expected @ directions, rtol=1e-9, atol=1e-12)
    sketch = agop_sketch(MODEL.apply, PARAMS, IDS, 15, KEY, at="read", outputs=last)
    np.testing.assert_allclose(sketch.factor @ sketch.factor.T, expected, rtol=1e-7, atol=1e-10)


def test_tied_weights_are_constant_where_they_are_not_looked_up():
    """Oracle: a network with two tables of equal values, split by hand."""

    def tied(table, ids):
        return jnp.tanh(table.at[ids].get()).mean(axis=1) @ table.T

    table = jax.random.normal(KEY, (7, 3))
    rest = lambda e: jnp.tanh(e).mean(axis=1) @ table.T  # noqa: E731
    found = agop(lambda w, x: tied(w["table"], x), {"table": table}, IDS, at="table")
    np.testing.assert_allclose(found, by_hand(rest, table[IDS]), rtol=1e-11)


def test_rows_that_are_looked_up_twice_are_two_vectors():
    """Oracle: the same network of both sets of rows, beside each other."""
    table = {"table": jax.random.normal(KEY, (7, 2)), "out": jnp.arange(1.0, 5.0)[None]}

    def network(w, ids):
        first, second = w["table"][ids[:, :3]], w["table"][ids[:, 3]]
        return (first * second[:, None] ** 2).sum(axis=(1, 2))[:, None] * w["out"]

    def rest(e):
        first, second = e[:, :6].reshape(-1, 3, 2), e[:, 6:]
        return (first * second[:, None] ** 2).sum(axis=(1, 2))[:, None] * table["out"]

    rows = table["table"][IDS].reshape(5, -1)
    found = agop(network, table, IDS, at="table")
    np.testing.assert_allclose(found, by_hand(rest, rows), rtol=1e-11)


def test_masks_are_held_and_real_numbers_of_a_tree_are_one_vector():
    """Oracle: the same network on one array of numbers; ids beside it by their rows."""
    x = jax.random.normal(KEY, (5, 3))
    weights = {"table": jax.random.normal(KEY, (7, 2)), "out": jnp.arange(5.0)[:, None]}
    tree = {"ids": IDS[:, 0], "left": x[:, :1], "right": x[:, 1:]}

    def network(w, tree):
        rows = jnp.concatenate([w["table"][tree["ids"]], tree["left"], tree["right"]], axis=1)
        return jnp.sin(rows) @ w["out"]

    whole = agop(
        lambda w, x: jnp.sin(x) @ w["out"],
        weights,
        jnp.concatenate([weights["table"][IDS[:, 0]], x], axis=1),
    )
    np.testing.assert_allclose(agop(network, weights, tree), whole[2:, 2:], rtol=1e-12)
    np.testing.assert_allclose(agop(network, weights, tree, at="table"), whole[:2, :2], rtol=1e-12)


def test_an_equinox_embedding_is_found_by_its_path():
    """Oracle: its rows, by hand."""
    embedding, linear = eqx.nn.Embedding(7, 3, key=KEY), eqx.nn.Linear(3, 2, key=KEY)
    params, static = eqx.partition((embedding, linear), eqx.is_inexact_array)

    def apply(params, ids):
        table, out = eqx.combine(params, static)
        return jax.vmap(lambda one: out(jnp.tanh(jax.vmap(table)(one)).sum(axis=0)))(ids)

    rest = lambda e: jax.vmap(linear)(jnp.tanh(e).sum(axis=1))  # noqa: E731
    expected = by_hand(rest, embedding.weight[IDS])
    for at in ((0, "weight"), "0.weight"):
        np.testing.assert_allclose(agop(apply, params, IDS, at=at), expected, rtol=1e-11)


def scanned(w, ids):
    """Rows are looked up inside a loop."""
    step = lambda h, t: (jnp.tanh(h @ w["mix"] + w["table"][t]), None)  # noqa: E731
    return jax.lax.scan(step, jnp.zeros((len(ids), 2)), ids.T)[0]


LOOPED = {"mix": jnp.eye(2), "table": jnp.ones((7, 2))}


@pytest.mark.parametrize(
    ("apply", "params", "at", "message"),
    [
        (
            MODEL.apply,
            PARAMS,
            None,
            r"real numbers .* got int64, .* not take .*at='embedding'",
        ),
        (lambda w, x: (x == 3) @ w, jnp.ones((4, 1)), None, r"rounds or compares: .* would be 0"),
        (MODEL.apply, PARAMS, "reed", r"name an array of params, got 'reed'; there are read, "),
        (MODEL.apply, PARAMS, "layers", r"one array .* got 'layers', where it does so in none"),
        (MODEL.apply, PARAMS, "positions", r"rows of its own, got 'positions': .* the same"),
        (scanned, LOOPED, "table", r"outside of loops and branches, .* inside a scan"),
        (MODEL.apply, PARAMS, (), r"the name or the path .* got \(\)"),
        (
            MODEL.apply,
            PARAMS,
            (PAIR[0], lambda w, e, x: 2 * PAIR[1](w, e, x)),
            r"must be the network: .* got other values",
        ),
        (MODEL.apply, PARAMS, (PAIR[0], lambda w, e, x: e), r"outputs of shape \(1, 4, 4\) in"),
        (lambda w, x: MODEL.apply(w, x["ids"]), PARAMS, "tree", "got bool, int64"),
    ],
)
def test_what_cannot_be_differentiated_is_told(apply, params, at, message):
    inputs: Any = {"ids": IDS, "mask": IDS > 2} if at == "tree" else IDS
    with pytest.raises(ValueError, match=message):
        agop(apply, params, inputs, at=None if at == "tree" else at)


def test_a_split_is_the_network():
    """Oracle: the network itself."""
    split = split_at(MODEL.apply, PARAMS, IDS, "read")
    whole = split.rest(PARAMS, split.embed(PARAMS, IDS), IDS)
    np.testing.assert_allclose(whole, MODEL.apply(PARAMS, IDS), rtol=1e-12)
