"""Networks of the user's own: what is asked of them, and that nothing else is."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import ntk
from theorylab.models import linearize
from theorylab.models.own_network import (
    as_static,
    check_one_by_one,
    check_outputs,
    check_params,
)

X = jax.random.normal(jax.random.key(0), (4, 3))
WEIGHT = jnp.array([[1.0, 0.5], [-2.0, 1.0], [0.5, 3.0]])


def linear(w, x):
    return x @ w


def centred(w, x):
    """Batch statistics, the simplest."""
    return (x - x.mean(axis=0, keepdims=True)) @ w


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"w": WEIGHT, "activation": jnp.tanh}, r"got .* at \['activation'\]; .*eqx\.partition"),
        ((WEIGHT, 3), r"got int at \[1\]"),
        ([jnp.arange(3)], r"got an array of int64 at \[0\]"),
        ([jax.random.key(0)], r"got an array of key<fry> at \[0\]"),
    ],
)
def test_leaves_that_are_no_floating_arrays_are_named_with_their_place(params, message):
    with pytest.raises(TypeError, match=f"floating arrays only, {message}"):
        check_params(params)
    with pytest.raises(TypeError, match=f"floating arrays only, {message}"):
        linearize(linear, params)


def test_floating_arrays_their_shapes_and_numbers_pass():
    """Traced ones, too."""
    check_params({"w": WEIGHT, "f": np.ones(2, np.float32), "h": jnp.ones(2, jnp.bfloat16)})
    check_params((jax.ShapeDtypeStruct((2,), "float32"), 1.5, None))
    jax.jit(check_params)(WEIGHT)
    with pytest.raises(ValueError, match="at least one array, got an empty tree"):
        check_params(())


def test_a_network_of_one_input_is_told_to_map():
    one: Any = lambda w, x: w.T @ x  # noqa: E731
    with pytest.raises(ValueError, match=r"shape \(n, 3\), got .* one input \(3,\): .*jax\.vmap"):
        check_outputs(one, WEIGHT, X)
    with pytest.raises(ValueError, match=r"jax\.vmap"):
        ntk(one, WEIGHT, X)
    assert check_outputs(jax.vmap(one, in_axes=(None, 0)), WEIGHT, X) == 2
    with pytest.raises(TypeError, match="dot_general"):  # wrong both ways: its own error
        check_outputs(linear, WEIGHT[:2], X)


def test_outputs_that_depend_on_other_inputs_are_told():
    """Also if each batch has one input; with equal inputs nothing can be seen."""
    check_one_by_one(linear, WEIGHT, X)
    with pytest.raises(ValueError, match=r"treat every input by itself.*BatchNorm"):
        check_one_by_one(centred, WEIGHT, X)
    with pytest.raises(ValueError, match="treat every input by itself"):
        check_one_by_one(centred, WEIGHT, X[:1], X[1:2])
    check_one_by_one(centred, WEIGHT, X[:1])
    check_one_by_one(centred, WEIGHT, jnp.ones((3, 3)))


def test_a_network_is_looked_at_once_for_every_shape():
    """Oracle: how often it is traced; equal inputs do not count as a look."""
    calls = []

    def counted(w, x):
        calls.append(x.shape)
        return x @ w

    check_one_by_one(counted, WEIGHT, jnp.ones((3, 3)))
    assert calls == []
    check_one_by_one(counted, WEIGHT, X)
    seen = len(calls)
    assert seen > 0
    check_one_by_one(counted, WEIGHT, X.astype("float32"))  # would be another program
    assert len(calls) == seen


def test_nothing_is_looked_at_inside_a_compiled_program():
    def inside(w, x):
        check_one_by_one(centred, w, x)
        return w

    jax.jit(inside)(WEIGHT, X)
    jax.vmap(lambda w: inside(w, X))(WEIGHT[None])


def test_a_network_without_a_hash_is_wrapped():
    class Unhashable:
        __hash__: Any = None

        def __call__(self, w, x):
            return x @ w

    assert as_static(linear) is linear
    wrapped = as_static(Unhashable())
    hash(wrapped)
    np.testing.assert_array_equal(wrapped(WEIGHT, X), X @ WEIGHT)


def test_an_equinox_module_works_when_its_arrays_are_taken_apart():
    """Oracle: the kernel of its dense Jacobian."""
    module = eqx.nn.MLP(3, 2, width_size=4, depth=1, key=jax.random.key(1))
    with pytest.raises(TypeError, match=r"got .* at \.activation; .*eqx\.partition"):
        ntk(lambda module, x: jax.vmap(module)(x), module, X)
    params, static = eqx.partition(module, eqx.is_inexact_array)
    apply = lambda params, x: jax.vmap(eqx.combine(params, static))(x)  # noqa: E731
    rows = [leaf.reshape(4, 2, -1) for leaf in jax.tree.leaves(jax.jacrev(apply)(params, X))]
    jacobian = jnp.concatenate(rows, axis=2)
    expected = jnp.einsum("iap,jap->ij", jacobian, jacobian) / 2
    np.testing.assert_allclose(ntk(apply, params, X), expected, rtol=1e-11, atol=1e-13)
