"""Networks of the user's own: what is asked of them, and that nothing else is."""

import inspect
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import ntk
from theorylab.models import linearize
from theorylab.models.own_network import (
    PrecisionWarning,
    as_static,
    check_finite,
    check_one_by_one,
    check_outputs,
    check_params,
    reduced,
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
    with pytest.raises(ValueError, match=r"inputs of shape \(4, 3\), .* TypeError: dot_general"):
        check_outputs(linear, WEIGHT[:2], X)  # wrong both ways: its own error


def test_outputs_that_are_no_matrix_get_a_hint():
    """Oracle: the same network through the hinted function passes."""
    cases: Any = (
        (lambda f: f[:, 0], r"got \(4,\)\. Give them a second axis .* f\[:, None\]"),
        (lambda f: f[:, None, :], r"got \(4, 1, 2\)\. Reduce them with outputs=.* f\[:, -1\]"),
        (lambda f: f[0], r"got \(2,\)\."),
        (lambda f: (f, f), r"one array \(n, k\), got a tuple: .* outputs=lambda f: f\[0\]"),
    )
    for outputs, hint in cases:
        with pytest.raises(ValueError, match=hint):
            ntk(lambda w, x, outputs=outputs: outputs(linear(w, x)), WEIGHT, X)
    network = reduced(lambda w, x: linear(w, x)[:, None, :], lambda f: f[:, -1])
    assert check_outputs(network, WEIGHT, X) == 2
    unchecked: Any = inspect.unwrap(reduced)  # the annotation would refuse it, too
    with pytest.raises(TypeError, match=r"outputs must be a function .* got a str"):
        unchecked(linear, "last")


def test_a_reduced_network_is_equal_to_another_of_the_same_parts():
    """So its compiled program is found again."""
    first = lambda f: f[:, :1]  # noqa: E731
    assert reduced(linear, first) == reduced(linear, first)
    assert hash(reduced(linear, first)) == hash(reduced(linear, first))
    assert reduced(linear, first) != reduced(linear, lambda f: f[:, :1])


def test_parameters_that_are_not_finite_are_named():
    bad = {"a": WEIGHT, "b": WEIGHT.at[0, 1].set(jnp.nan)}
    for measure in (check_finite, lambda w: ntk(lambda w, x: linear(w["b"], x), w, X)):
        with pytest.raises(ValueError, match=r"params must be finite, got NaN .* at \['b'\]"):
            measure(bad)
    with pytest.raises(ValueError, match=r"must be finite, got NaN or infinity\."):
        check_finite(jnp.array(jnp.inf))
    check_finite((jax.ShapeDtypeStruct((2,), "float32"), 1.5))
    jax.jit(check_finite)(bad["b"])


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_parameters_of_16_bits_are_taken_as_float32_and_it_is_said(kind):
    """Oracle: the kernel of the same weights in float32, though the network itself rounds."""
    half = WEIGHT.astype(kind)
    with pytest.warns(PrecisionWarning, match=f"params of {kind} are taken as float32"):
        found = ntk(linear, half, X.astype("float32"))
    assert found.dtype == jnp.float32
    exact = ntk(linear, half.astype("float32"), X.astype("float32"))
    np.testing.assert_array_equal(found, exact)
    rounding = lambda w, x: (x.astype(kind) @ w.astype(kind)).astype(kind)  # noqa: E731
    for method in ("jacobian", "products", "structured"):
        rough = ntk(rounding, half.astype("float32"), X.astype("float32"), method=method)
        assert rough.dtype == jnp.float32
        np.testing.assert_allclose(rough, exact, rtol=0.02, atol=0.05)


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
    equal = len(calls)
    check_one_by_one(counted, WEIGHT, jnp.ones((3, 3)))
    assert len(calls) == equal > 0
    check_one_by_one(counted, WEIGHT, X)
    seen = len(calls)
    assert seen > equal
    check_one_by_one(counted, WEIGHT, X.astype("float32"))  # would be another program
    assert len(calls) == seen


def test_a_method_is_looked_at_once_though_it_is_made_anew():
    """Oracle: how often it is traced. Another method of the object is looked at by itself."""
    calls = []

    class Model:
        def apply(self, w, x):
            calls.append(x.shape)
            return x @ w

        def coupled(self, w, x):
            return centred(w, x)

    model = Model()
    check_one_by_one(model.apply, WEIGHT, X)
    seen = len(calls)
    check_one_by_one(model.apply, WEIGHT, X)
    assert len(calls) == seen
    with pytest.raises(ValueError, match="treat every input by itself"):
        check_one_by_one(model.coupled, WEIGHT, X)


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
