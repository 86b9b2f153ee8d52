"""Inputs of a network: arrays, and trees of arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models.inputs import (
    check_inputs,
    check_pair,
    map_inputs,
    num_inputs,
    one_input,
    some_inputs,
)

TREE = {"ids": jnp.arange(10).reshape(5, 2), "length": (jnp.ones(5), np.zeros((5, 3, 1)))}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("text", "x must be an array, got a str"),
        (None, "at least one array, got an empty tree"),
        ([[1.0, 2.0]], r"x\[0\]\[0\] must be an array, got a float; jnp.asarray makes one"),
        (np.array([["a"]]), "x must hold real numbers, got an array of <U1"),
        (jnp.ones((2, 2)) * 1j, "x must hold real numbers, got an array of complex128"),
        (jnp.ones(3), r"x must have shape \(n, ...\) with n >= 1, got \(3,\)"),
        (jnp.ones((0, 3)), r"x must have shape \(n, ...\) with n >= 1, got \(0, 3\)"),
        ({"a": jnp.ones(3), "b": jnp.ones((2, 4))}, r"got \(3,\) at \['a'\] and \(2, 4\) at"),
        ((jnp.ones(2), jnp.array([1.0, jnp.inf])), r"x\[1\] must be finite"),
    ],
)
def test_what_are_no_inputs_is_named_in_words(inputs, message):
    with pytest.raises((TypeError, ValueError), match=message):
        check_inputs(inputs)


def test_arrays_and_trees_with_one_first_axis_pass():
    """Also while a program is compiled, where there are no values."""
    check_inputs(TREE)
    check_inputs(jnp.ones((3, 2), jnp.bfloat16))
    jax.jit(lambda x: check_inputs(x))(TREE)
    check_pair(TREE, some_inputs(TREE, 1, 2))
    with pytest.raises(ValueError, match="x1 and x2 must hold inputs of one shape"):
        check_pair(TREE, TREE | {"ids": jnp.zeros((5, 3), int)})


def test_some_inputs_are_rows_of_every_array():
    """Oracle: indexing."""
    assert num_inputs(TREE) == 5
    assert [leaf.shape for leaf in jax.tree.leaves(one_input(TREE))] == [(2,), (), (3, 1)]
    found = some_inputs(TREE, 2, 2)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[2:4]), found, TREE)


@pytest.mark.parametrize("most", [1, 3, 4, 7, 100])
def test_blocks_of_inputs_are_one_program_whatever_is_left_over(most):
    """Oracle: `jax.vmap`. The function is traced once, also where 7 inputs leave a rest."""
    traced = []

    def function(one):
        traced.append(one)
        return {"sum": one["a"].sum() + one["b"], "row": 2 * one["a"]}

    x = {"a": jnp.arange(21.0).reshape(7, 3), "b": jnp.arange(7)}
    found = jax.jit(lambda x: map_inputs(function, x, most))(x)
    assert len(traced) == 1
    expected = {"sum": x["a"].sum(axis=1) + x["b"], "row": 2 * x["a"]}
    jax.tree.map(np.testing.assert_array_equal, found, expected)
