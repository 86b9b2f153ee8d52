"""What a user gave, checked before any work: an error says what must hold and what came.

`theorylab.models.own_network` checks the network itself, and `targets` the targets; here stands
what is asked of a check-up besides: names, numbers, arrays that are there, on one device.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from theorylab.lab.requests import nearest
from theorylab.models.inputs import check_inputs
from theorylab.models.own_network import check_finite, check_params, output_shapes, reduced
from theorylab.typing import Apply, Inputs, Params, Reduction

OPTIMIZERS = ("sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop")
_ARRAYS = (jax.Array, np.ndarray, np.generic)


def check_names(names: Iterable[str], known: Collection[str]) -> None:
    """Raise unless all that is told of a network has a name that a check-up knows.

    Args:
        names: Of what is told.
        known: Those that are known.

    Example:
        >>> check_names(["learning_rat"], ["learning_rate", "loss"])
        Traceback (most recent call last):
        ...
        TypeError: examine must be told names out of learning_rate, loss, got learning_rat. Did ...
    """
    for name in names:
        if name not in known:
            offer = nearest(name, known)
            raise TypeError(
                f"examine must be told names out of {', '.join(known)}, got {name}.{offer}"
            )


def check_network(
    apply: Apply, params: Params, x: Inputs, outputs: Reduction | None = None
) -> None:
    """Raise unless a network has a function, parameters and inputs that can be looked at.

    Args:
        apply: The network.
        params: Its parameters.
        x: Inputs.
        outputs: What reduces the outputs to (n, k).

    Example:
        >>> check_network(lambda w, x: x @ w, jnp.ones((2, 1)), jnp.ones((0, 2)))
        Traceback (most recent call last):
        ...
        ValueError: x must have shape (n, ...) with n >= 1, got (0, 2).
    """
    if not callable(apply):
        got = f"got a {type(apply).__name__}"
        raise TypeError(f"apply must be a function (params, x) ─► outputs, {got}.")
    if type(apply).__module__.partition(".")[0] == "torch" or hasattr(apply, "state_dict"):
        raise TypeError(
            "apply must be a function of JAX, (params, x) ─► outputs, got a module of PyTorch:"
            " theorylab.bridges makes one of it."
        )
    check_there("params", params)
    check_there("x", x)
    check_params(params)
    check_inputs(x, "x")
    check_finite(params)
    check_one_device(params=params, x=x)
    kind = getattr(output_shapes(reduced(apply, outputs), params, x), "dtype", None)
    if kind is not None and not jnp.issubdtype(kind, jnp.floating):
        raise TypeError(f"apply must give real floating outputs, got {kind}.")


def check_there(name: str, tree: Any) -> None:
    """Raise if an array is of another library, has no values, or was deleted.

    Example:
        >>> check_there("params", jax.ShapeDtypeStruct((2,), jnp.float32))
        Traceback (most recent call last):
        ...
        TypeError: params must hold arrays of JAX or NumPy, got a ShapeDtypeStruct.
    """
    for path, leaf in jax.tree.leaves_with_path(tree):
        place = f" at {jax.tree_util.keystr(path)}" if path else ""
        if not isinstance(leaf, _ARRAYS) and hasattr(leaf, "shape"):
            device = f" on {leaf.device}" if hasattr(leaf, "device") else ""
            got = f"got a {type(leaf).__name__}{device}{place}"
            raise TypeError(f"{name} must hold arrays of JAX or NumPy, {got}.")
        if isinstance(leaf, jax.Array) and leaf.is_deleted():
            raise ValueError(
                f"{name} must hold arrays that are there, got one that was deleted{place} (donated"
                " to a compiled program)."
            )


def check_one_device(**trees: Any) -> None:
    """Raise unless all arrays that are bound to a device are bound to the same.

    Args:
        **trees: By name.

    Example:
        >>> check_one_device(params=jnp.ones(2), x=jnp.ones(3))
    """
    bound = [
        (name, frozenset(leaf.devices()))
        for name, tree in trees.items()
        for leaf in jax.tree.leaves(tree)
        if isinstance(leaf, jax.Array) and getattr(leaf, "committed", False)
    ]
    if len({devices for _, devices in bound}) > 1:
        places = dict.fromkeys(f"{name} on {_named(devices)}" for name, devices in bound)
        must = f"{' and '.join(trees)} must be on one device"
        raise ValueError(f"{must}, got {', '.join(places)}; jax.device_put moves them.")


def check_alike(name: str, other: Params | None, params: Params) -> None:
    """Raise unless other parameters, if there are any, have the tree and shapes of these.

    Example:
        >>> check_alike("checkpoint", jnp.ones(3), jnp.ones(2))
        Traceback (most recent call last):
        ...
        ValueError: checkpoint must have the shapes of params, got (3,) where params have (2,).
    """
    if other is None:
        return
    check_there(name, other)
    check_params(other, name)
    check_finite(other, name)
    check_one_device(**{"params": params, name: other})
    if jax.tree.structure(other) != jax.tree.structure(params):
        got, must = (_size(tree) for tree in (other, params))
        raise ValueError(f"{name} must be a tree like params, {must}, got {got}.")
    for (path, leaf), own in zip(
        jax.tree.leaves_with_path(other), jax.tree.leaves(params), strict=True
    ):
        if np.shape(leaf) != np.shape(own):
            place = f" at {jax.tree_util.keystr(path)}" if path else ""
            raise ValueError(
                f"{name} must have the shapes of params, got {np.shape(leaf)}{place} where params"
                f" have {np.shape(own)}."
            )


def numbers_of(given: Mapping[str, Any]) -> dict[str, float | int | str | None]:
    """The numbers and words that were told of the training, as Python's own.

    Example:
        >>> numbers_of({"learning_rate": jnp.asarray(0.5), "batch_size": 32})
        {'learning_rate': 0.5, 'batch_size': 32}
        >>> numbers_of({"momentum": 2.0})
        Traceback (most recent call last):
        ...
        ValueError: momentum must be a number in [0, 1), got 2.0.
    """
    found: dict[str, float | int | str | None] = {}
    for name in ("learning_rate", "budget"):
        if given.get(name) is not None:
            found[name] = _number(name, given[name], "a positive number", lambda v: v > 0)
    if given.get("momentum") is not None:
        found["momentum"] = _number(
            "momentum", given["momentum"], "a number in [0, 1)", lambda v: 0 <= v < 1
        )
    if given.get("batch_size") is not None:
        must = "a whole number of at least 1"
        size = _number("batch_size", given["batch_size"], must, lambda v: v >= 1 and v == int(v))
        found["batch_size"] = int(size)
    optimizer = given.get("optimizer")
    if optimizer is not None and (not isinstance(optimizer, str) or optimizer not in OPTIMIZERS):
        raise ValueError(
            f"optimizer must be one of {', '.join(OPTIMIZERS)}, got {_told(optimizer)}."
        )
    return found


def _number(name: str, value: Any, must: str, holds: Any) -> float:
    """A number of Python, NumPy or JAX that holds to something; finite, and not a truth value."""
    real = isinstance(value, int | float | np.number | np.ndarray | jax.Array)
    if not real or isinstance(value, bool) or np.size(value) != 1:
        hint = " A schedule has a value at a step, schedule(step)." if callable(value) else ""
        raise TypeError(f"{name} must be {must}, got {_told(value)}.{hint}")
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be {must}, got {_told(value)}.")
    number = float(array.reshape(()))
    if not (math.isfinite(number) and holds(number)):
        raise ValueError(f"{name} must be {must}, got {number if np.ndim(value) else value}.")
    return number


def _told(value: Any) -> str:
    """What came, in a few letters."""
    if isinstance(value, str | bool | int | float):
        return repr(value)[:60]
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" if shape is None else f"an array of shape {tuple(shape)}"


def _size(tree: Any) -> str:
    leaves = jax.tree.leaves(tree)
    return f"{type(tree).__name__} of {len(leaves)} arrays"


def _named(devices: frozenset[Any]) -> str:
    return " and ".join(sorted(map(str, devices)))
