"""Inputs of a network: an array (n, ...), or a tree of arrays that share their first axis, n.

A tree is what a language model reads: token ids (n, t) and a mask (n, t), as a dictionary or a
tuple. An entry of the first axis, taken from every array, is one input.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from theorylab.typing import Inputs


def num_inputs(x: Inputs) -> int:
    """The number n of inputs.

    Example:
        >>> num_inputs({"ids": jnp.zeros((5, 3), int), "mask": jnp.ones((5, 3), bool)})
        5
    """
    return jax.tree.leaves(x)[0].shape[0]


def one_input(x: Inputs) -> Any:
    """The shapes and types of one input.

    Example:
        >>> one_input((jnp.zeros((5, 3)), jnp.ones((5,))))[0].shape
        (3,)
    """
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), x)


def some_inputs(x: Inputs, start: Any, size: int) -> Inputs:
    """The inputs start, ..., start + size − 1; inside a compiled program start may be computed.

    Example:
        >>> some_inputs({"ids": jnp.arange(4)}, 1, 2)["ids"].tolist()
        [1, 2]
    """
    return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), x)


def map_inputs(function: Callable[[Any], Any], x: Inputs, most: int) -> Any:
    """The results of a function at every input, computed for some inputs at a time.

    All blocks have one size, so the function is compiled once: the last input fills the last block
    up. (`jax.lax.map` compiles a rest by itself, which takes as long again.)

    Args:
        function: Of a single input, to a tree of arrays.
        x: Inputs.
        most: How many are computed at once, at most.

    Example: seven inputs in blocks of three.
        >>> map_inputs(lambda x: 2 * x, jnp.arange(7.0), most=3).tolist()
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    """
    n = num_inputs(x)
    blocks = -(-n // max(1, min(most, n)))
    if blocks == 1:
        return jax.vmap(function)(x)
    size = -(-n // blocks)
    places = np.minimum(np.arange(blocks * size), n - 1)
    filled = x if len(places) == n else jax.tree.map(lambda leaf: jnp.asarray(leaf)[places], x)
    cut = lambda leaf: jnp.reshape(leaf, (blocks, size, *leaf.shape[1:]))  # noqa: E731
    found = jax.lax.map(jax.vmap(function), jax.tree.map(cut, filled))
    return jax.tree.map(lambda leaf: jnp.reshape(leaf, (-1, *leaf.shape[2:]))[:n], found)


def as_batch(one: Inputs) -> Inputs:
    """One input as a batch of one.

    Example:
        >>> as_batch((jnp.zeros(3),))[0].shape
        (1, 3)
    """
    return jax.tree.map(lambda leaf: leaf[None], one)


def is_traced(*trees: Any) -> bool:
    """Whether values are not there to look at, because a program is being compiled.

    Example:
        >>> is_traced({"w": jnp.ones(3)}, 1.0)
        False
    """
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))


def is_finite(leaf: Any) -> bool:
    """Whether an array has neither NaN nor infinity.

    Example:
        >>> is_finite(jnp.array([1.0, jnp.nan]))
        False
    """
    kind = getattr(leaf, "dtype", None)
    if not isinstance(leaf, float) and (kind is None or not jnp.issubdtype(kind, jnp.inexact)):
        return True
    return bool(np.isfinite(np.asarray(leaf)).all())


def check_inputs(x: Inputs, name: str = "x") -> None:
    """Raise unless x is an array (n, ...) or a tree of such, of real and finite numbers.

    Example:
        >>> check_inputs({"ids": jnp.zeros((5, 3), int), "mask": jnp.ones((4, 3), bool)})
        Traceback (most recent call last):
        ...
        ValueError: x must hold arrays with the same first axis n, got (5, 3) at ['ids'] and ...
    """
    leaves = jax.tree.leaves_with_path(x)
    if not leaves:
        raise ValueError(f"{name} must hold at least one array, got an empty tree.")
    for path, leaf in leaves:
        _check_array(leaf, _place(name, path))
    alone, first = not leaves[0][0], leaves[0][1].shape
    if len(first) < 1 + alone or first[0] < 1:
        place = _place(name, leaves[0][0])
        raise ValueError(f"{place} must have shape (n, ...) with n >= 1, got {first}.")
    for path, leaf in leaves:
        if leaf.shape[:1] != first[:1]:
            raise ValueError(
                f"{name} must hold arrays with the same first axis n, got {first} at"
                f" {jax.tree_util.keystr(leaves[0][0])} and {leaf.shape} at"
                f" {jax.tree_util.keystr(path)}."
            )
        # Inside a compiled program the values are not there to look at.
        if not isinstance(leaf, Tracer) and not is_finite(leaf):
            raise ValueError(f"{_place(name, path)} must be finite, got NaN or infinity.")


def check_pair(x1: Inputs, x2: Inputs | None) -> None:
    """Raise unless both are inputs, and of one shape.

    Example:
        >>> check_pair(jnp.ones((3, 2)), jnp.ones((4, 2)))
    """
    check_inputs(x1, "x1")
    if x2 is None or x2 is x1:
        return
    check_inputs(x2, "x2")
    first, second = (jax.tree.map(lambda leaf: leaf.shape[1:], x) for x in (x1, x2))
    if first != second:
        raise ValueError(f"x1 and x2 must hold inputs of one shape, got {first} and {second}.")


def _check_array(leaf: Any, place: str) -> None:
    if not hasattr(leaf, "ndim") or not hasattr(leaf, "shape"):
        raise TypeError(
            f"{place} must be an array, got a {type(leaf).__name__};"
            " jnp.asarray makes one of a list of numbers."
        )
    kind = leaf.dtype
    if not (
        jnp.issubdtype(kind, jnp.floating)
        or jnp.issubdtype(kind, jnp.integer)
        or jnp.issubdtype(kind, jnp.bool_)
    ):
        raise TypeError(f"{place} must hold real numbers, got an array of {kind}.")


def _place(name: str, path: tuple[Any, ...]) -> str:
    return name + jax.tree_util.keystr(path)
