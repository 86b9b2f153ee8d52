"""A network of the user's own, checked where it enters: `apply(params, x)` is all that is asked.

    params   any tree of floating arrays
    apply    (params, inputs (n, ...)) ─► outputs (n, k), and every input is treated by itself:
             f(x) is the same, whatever other inputs are beside x

With batch statistics f(x) depends on the other inputs; then what is defined of one input (a tangent
kernel, a gradient by the input) is not defined at all, and would come out as 0.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from theorylab.typing import Apply, Params

_ROUNDING = 1e-3  # relative; both outputs come from one program, so even coarse numbers agree
# What was found to treat every input by itself, at inputs of which shapes: looked at only once.
_KNOWN: WeakKeyDictionary[Apply, set[tuple[int, ...]]] = WeakKeyDictionary()


def check_params(params: Any) -> None:
    """Raise unless params are a tree with at least one leaf, all floating arrays or their shapes.

    Example:
        >>> check_params({"weight": jnp.ones(3), "activation": jnp.tanh})
        Traceback (most recent call last):
        ...
        TypeError: params must hold floating arrays only, got ... at ['activation']; ...
    """
    leaves = jax.tree.leaves_with_path(params)
    if not leaves:
        raise ValueError("params must hold at least one array, got an empty tree.")
    for path, leaf in leaves:
        kind = getattr(leaf, "dtype", None)
        if not (isinstance(leaf, float) or (kind and jnp.issubdtype(kind, jnp.floating))):
            got = f"an array of {kind}" if kind else type(leaf).__name__
            raise TypeError(
                f"params must hold floating arrays only, got {got} at {jax.tree_util.keystr(path)};"
                " keep the rest outside, for an Equinox module by"
                " params, static = eqx.partition(model, eqx.is_inexact_array)."
            )


def check_outputs(apply: Apply, params: Params, x: Array) -> int:
    """The number of outputs k; raises unless there are outputs (n, k) at n inputs.

    Nothing is computed: shapes are enough.

    Example:
        >>> check_outputs(lambda params, x: x @ params, jnp.ones((3, 2)), jnp.ones((5, 3)))
        2
    """
    shape = _shape(apply, params, x)
    if len(shape) != 2 or shape[0] != len(x) or shape[1] < 1:
        raise ValueError(
            f"apply must give outputs of shape (n, k) for {len(x)} inputs, got {shape}."
        )
    return shape[1]


def check_one_by_one(apply: Apply, params: Params, x1: Array, x2: Array | None = None) -> None:
    """Raise if the outputs at an input depend on the inputs beside it, as with batch statistics.

    The network is run at the first of x1, beside itself and beside the last of x2 (or of x1), once
    for every network and shape. Inside a compiled program there are no values to look at, and
    nothing is done.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, ...).
        params: Its parameters.
        x1: Inputs.
        x2: Other inputs of the same shape.

    Example:
        >>> centred = lambda params, x: params * (x - x.mean(axis=0, keepdims=True))
        >>> check_one_by_one(centred, jnp.array(1.0), jnp.array([[1.0], [2.0]]))
        Traceback (most recent call last):
        ...
        ValueError: apply must treat every input by itself, ...
    """
    second, shape = x1 if x2 is None else x2, x1.shape[1:]
    traced = any(isinstance(leaf, Tracer) for leaf in (x1, second, *jax.tree.leaves(params)))
    if traced or shape in _shapes_known(apply):
        return
    one, other = x1[:1], second[-1:]
    if np.array_equal(one, other):  # nothing could be seen
        return
    difference = float(_difference_beside(as_static(apply), params, one, other))
    if difference > _ROUNDING:
        raise ValueError(
            "apply must treat every input by itself, got outputs at x1[0] that change by"
            f" {100 * difference:.2g} % when another input is beside it. Batch statistics do that"
            " (BatchNorm): run it with fixed statistics, or use a network without."
        )
    with suppress(TypeError):  # what has no hash, or cannot be referred to, is looked at again
        _KNOWN.setdefault(apply, set()).add(shape)


def as_static(apply: Apply) -> Apply:
    """Give the network itself if it can be hashed, so that its compiled program is found again.

    A network without a hash is wrapped, and compiled at every call.

    Example:
        >>> apply = lambda params, x: x @ params
        >>> as_static(apply) is apply
        True
    """
    try:
        hash(apply)
    except TypeError:
        return lambda params, x: apply(params, x)
    return apply


def _shapes_known(apply: Apply) -> set[tuple[int, ...]]:
    try:
        return _KNOWN.get(apply, set())
    except TypeError:
        return set()


@partial(jax.jit, static_argnums=0)
def _difference_beside(apply: Callable, params: Params, one: Array, other: Array) -> Array:
    """By how much the outputs at one input change beside another, relative to the largest."""
    _shape(apply, params, one)
    # Beside itself and beside the other: one program in turn, so that rounding is the same.
    pairs = jnp.stack([jnp.concatenate([one, one]), jnp.concatenate([one, other])])
    itself, beside = jax.lax.map(lambda pair: apply(params, pair)[0], pairs)
    size = jnp.maximum(jnp.abs(itself).max(), jnp.abs(beside).max())
    return jnp.abs(itself - beside).max() / jnp.where(size > 0, size, 1)


def _shape(apply: Apply, params: Params, x: Array) -> tuple[int, ...]:
    """The shape of the outputs; an error that helps if the network takes single inputs only."""
    try:
        return jax.eval_shape(apply, params, x).shape
    except (TypeError, ValueError) as error:
        one = x.shape[1:]
        if not _takes(apply, params, jax.ShapeDtypeStruct(one, x.dtype)):
            raise
        raise ValueError(
            f"apply must take inputs of shape ({', '.join(['n', *map(str, one)])}), got a network"
            f" of one input {one}: give jax.vmap(apply, in_axes=(None, 0))."
        ) from error


def _takes(apply: Apply, params: Params, x: jax.ShapeDtypeStruct) -> bool:
    try:
        jax.eval_shape(apply, params, x)
    except Exception:  # whatever a network of the user's may raise
        return False
    return True
