"""Networks whose outputs depend on more than their input, and those that are let pass."""

import itertools
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import ntk
from theorylab.models.independence import check_deterministic
from theorylab.models.own_network import check_one_by_one

X = jax.random.normal(jax.random.key(0), (4, 3))
WEIGHT = jax.random.normal(jax.random.key(1), (3, 16))
KEY = jax.random.key(2)


def dropped(w, x, key=KEY):
    """Live dropout with one key: every place of the batch has its own mask."""
    return (x @ w) * jax.random.bernoulli(key, 0.5, (len(x), 16))


def shared(w, x, key=KEY):
    """One mask for the whole batch, as of a module that is mapped with one key."""
    return (x @ w) * jax.random.bernoulli(key, 0.5, (1, 16))


def drawing():
    """A mask that is drawn anew at every call."""
    rng = np.random.default_rng(0)
    return lambda w, x: (x @ w) * jnp.asarray(rng.random((1, 16)) < 0.5)


def counting():
    """A number in place of an array of them."""
    calls = itertools.count(1)
    return lambda w, x: (x @ w) * next(calls)


class Splitting:
    """A key that is split at every call, and kept: the trace leaks."""

    def __init__(self):
        self.key = KEY

    def __call__(self, w, x):
        """The outputs."""
        self.key, mine = jax.random.split(self.key)
        return shared(w, x, mine)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda w, x: dropped(w, x), "itself, .* at another place in the batch. Dropout"),
        (lambda w, x: (x @ w) / jnp.sum(x**2), "itself, .* when another input is beside it. Batch"),
        (lambda w, x: jnp.cumsum(x @ w, 0), "at another place in the batch"),
        (lambda w, x: (x - x[:1]) @ w + 1, "at another place in the batch"),
        (shared, "one function .* with another key. Dropout"),
        (partial(lambda w, x, rngs: shared(w, x, rngs["a"]), rngs={"a": KEY}), "another key"),
        (drawing(), "one function .* when it is called again. Dropout"),
        (counting(), "one function .* when it is called again"),
        (Splitting(), "a pure function, whose calls leave nothing behind"),
        (lambda w, x: jnp.log(-jnp.exp(x @ w)), "finite outputs, got NaN or infinity at x1"),
    ],
)
def test_what_depends_on_more_than_the_input_is_refused(network, message):
    with pytest.raises(ValueError, match=message):
        check_one_by_one(network, WEIGHT, X)
    with pytest.raises(ValueError, match=message):  # not remembered as well
        ntk(network, WEIGHT, X)


def test_dropout_is_seen_even_at_one_input_and_at_equal_ones():
    for inputs in (X[:1], jnp.ones((3, 3))):
        with pytest.raises(ValueError, match="at another place in the batch"):
            check_one_by_one(lambda w, x: dropped(w, x), WEIGHT, inputs)


def test_fixed_random_features_and_closures_pass():
    """A network may draw with a key of its own, if that is part of it."""
    features = jax.random.normal(KEY, (3, 3))
    for network in (
        lambda w, x: jnp.cos(x @ jax.random.normal(KEY, (3, 3))) @ w,
        lambda w, x: jnp.cos(x @ features) @ w,
        jax.jit(lambda w, x: jnp.where(x > 0, x, 0.0) @ w),
        lambda w, x, scale=2.0: scale * x @ w,
    ):
        check_one_by_one(network, WEIGHT, X)


def test_equinox_dropout_is_refused_until_inference_mode():
    """Oracle: the kernel of the module without dropout."""
    keys = jax.random.split(KEY, 2)
    layers = [eqx.nn.Linear(3, 8, key=keys[0]), eqx.nn.Dropout(0.5), eqx.nn.Linear(8, 2, key=KEY)]
    model = eqx.nn.Sequential(layers)
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def live(params, x):
        return jax.vmap(eqx.combine(params, static))(x, key=jax.random.split(KEY, len(x)))

    with pytest.raises(ValueError, match="Dropout does that: switch it off"):
        ntk(live, params, X)
    still = eqx.nn.inference_mode(model)
    params, static = eqx.partition(still, eqx.is_inexact_array)
    found = ntk(lambda params, x: jax.vmap(eqx.combine(params, static))(x), params, X)
    bare = eqx.nn.Sequential([layers[0], layers[2]])
    params, rest = eqx.partition(bare, eqx.is_inexact_array)
    expected = ntk(lambda params, x: jax.vmap(eqx.combine(params, rest))(x), params, X)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_an_objective_may_have_batch_statistics_but_must_be_one_function():
    centred = X - X.mean(axis=0, keepdims=True)
    check_deterministic(lambda w: jnp.sum((centred @ w) ** 2), WEIGHT)
    check_deterministic(lambda w: jnp.sum(dropped(w, X)), WEIGHT)  # one mask: one function
    network = drawing()
    with pytest.raises(ValueError, match=r"must be one function .* when it is called again"):
        check_deterministic(lambda w: jnp.sum(network(w, X)), WEIGHT)
