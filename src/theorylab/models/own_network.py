"""A network of the user's own, checked where it enters: `apply(params, x)` is all that is asked.

    params   any tree of floating arrays, finite; those of 16 bits are computed with in float32
    apply    (params, inputs) ─► outputs (n, k), and every input is treated by itself:
             f(x) is the same, whatever other inputs are beside x
    inputs   an array (n, ...), or a tree of arrays that share their first axis
    outputs  a function of the outputs that reduces them to (n, k), where they are not

With batch statistics f(x) depends on the other inputs; then what is defined of one input (a tangent
kernel, a gradient by the input) is not defined at all, and would come out as 0. What looks at
values is in `independence`, and is not done while a program is being compiled.
"""

import inspect
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array

from theorylab.typing import Apply, Inputs, Params, Reduction

from .independence import check_deterministic, check_independence
from .inputs import check_pair, is_finite, is_traced, num_inputs, one_input

_HALF = ("bfloat16", "float16")


class PrecisionWarning(UserWarning):
    """Parameters of 16 bits were taken as float32.

    Example:
        >>> issubclass(PrecisionWarning, UserWarning)
        True
    """


class OwnNetwork(NamedTuple):
    """A network that was checked, with its parameters and inputs, ready to be compiled.

    Example:
        >>> entered(lambda w, x: x @ w, jnp.ones((3, 2)), jnp.ones((5, 3))).x2 is None
        True
    """

    apply: Apply
    params: Params
    x1: Inputs
    x2: Inputs | None


@dataclass(frozen=True)
class Reduced:
    """A network whose outputs are reduced by a function; equal if both parts are.

    Example: the last of four positions.
        >>> network = Reduced(lambda w, x: x * w, outputs=lambda f: f[:, -1])
        >>> network(2.0, jnp.ones((5, 4, 3))).shape
        (5, 3)
    """

    apply: Apply
    outputs: Reduction

    def __call__(self, params: Params, x: Inputs) -> Array:
        """The reduced outputs.

        Args:
            params: The parameters.
            x: The inputs.
        """
        return self.outputs(self.apply(params, x))


def entered(
    apply: Apply,
    params: Params,
    x1: Inputs,
    x2: Inputs | None = None,
    outputs: Reduction | None = None,
    only_floats: bool = True,
) -> OwnNetwork:
    """Check all that the user gave: parameters, inputs, and that inputs are treated by themselves.

    Args:
        apply: The network: (params, inputs) ─► outputs.
        params: Its parameters; those of 16 bits become float32, with a warning.
        x1: Inputs: an array (n, ...), or a tree of arrays with the same first axis.
        x2: Other inputs of the same shape.
        outputs: What reduces the outputs to (n, k); None: they are so.
        only_floats: Whether params must be floating arrays, because derivatives are taken by them.

    Example:
        >>> network = entered(lambda w, x: x @ w, jnp.ones((3, 2)), jnp.ones((5, 3)))
        >>> network.apply(network.params, network.x1).shape
        (5, 2)
    """
    check_pair(x1, x2)
    if only_floats:
        check_params(params)
    check_finite(params)
    network = reduced(apply, outputs)
    params, x1, x2 = in_float32(params), widened(x1), None if x2 is None else widened(x2)
    check_one_by_one(network, params, x1, x2)
    return OwnNetwork(network, params, x1, x2)


def entered_as_batch(
    apply: Apply, params: Params, x: Inputs, outputs: Reduction | None = None
) -> OwnNetwork:
    """The same for what is defined of a whole batch, which may have batch statistics.

    Args:
        apply: The network: (params, inputs) ─► outputs.
        params: Its parameters; those of 16 bits become float32, with a warning.
        x: Inputs: an array (n, ...), or a tree of arrays with the same first axis.
        outputs: What reduces the outputs to (n, k); None: they are so.

    Example:
        >>> centred = lambda w, x: w * (x - x.mean())
        >>> entered_as_batch(centred, 2.0, jnp.ones((3, 1))).params
        2.0
    """
    check_pair(x, None)
    check_params(params)
    check_finite(params)
    network, params, x = reduced(apply, outputs), in_float32(params), widened(x)
    if not is_traced(params, x):
        output_shapes(network, params, x)
        check_called_again(network, params, x)
    return OwnNetwork(network, params, x, None)


def reduced(apply: Apply, outputs: Reduction | None) -> Apply:
    """The network with its outputs reduced, if asked for; it can be a key of compiled programs.

    Example:
        >>> apply = lambda w, x: x * w
        >>> reduced(apply, None) is apply
        True
    """
    if outputs is None:
        return as_static(apply)
    if not callable(outputs):
        raise TypeError(
            "outputs must be a function of the outputs, such as lambda f: f[:, -1],"
            f" got a {type(outputs).__name__}."
        )
    network = Reduced(apply, outputs)
    return as_static(network)


def check_params(params: Any, name: str = "params") -> None:
    """Raise unless params are a tree with at least one leaf, all floating arrays or their shapes.

    Args:
        params: The parameters.
        name: What an error calls them.

    Example:
        >>> check_params({"weight": jnp.ones(3), "activation": jnp.tanh})
        Traceback (most recent call last):
        ...
        TypeError: params must hold floating arrays only, got ... at ['activation']; ...
    """
    leaves = jax.tree.leaves_with_path(params)
    if not leaves:
        raise ValueError(f"{name} must hold at least one array, got an empty tree.")
    for path, leaf in leaves:
        kind = getattr(leaf, "dtype", None)
        if not (isinstance(leaf, float) or (kind and jnp.issubdtype(kind, jnp.floating))):
            got = f"an array of {kind}" if kind else type(leaf).__name__
            place = f" at {jax.tree_util.keystr(path)}" if path else ""
            raise TypeError(
                f"{name} must hold floating arrays only, got {got}{place};"
                " keep the rest outside, for an Equinox module by"
                " params, static = eqx.partition(model, eqx.is_inexact_array)."
            )


def check_finite(params: Params, name: str = "params") -> None:
    """Raise if params hold NaN or infinity, where there are values to look at.

    Args:
        params: The parameters.
        name: What an error calls them.

    Example:
        >>> check_finite({"weight": jnp.array([1.0, jnp.nan])})
        Traceback (most recent call last):
        ...
        ValueError: params must be finite, got NaN or infinity at ['weight'].
    """
    for path, leaf in jax.tree.leaves_with_path(params):
        absent = isinstance(leaf, Tracer | jax.ShapeDtypeStruct)
        if not absent and not is_finite(leaf):
            place = jax.tree_util.keystr(path)
            raise ValueError(
                f"{name} must be finite, got NaN or infinity{' at ' if place else ''}{place}."
            )


def in_float32(params: Params) -> Params:
    """The parameters, with those of 16 bits as float32; a warning says so.

    Second derivatives, eigenvalues and kernels lose their digits in 16 bits.

    Example: nothing is done to other parameters.
        >>> params = {"weight": jnp.ones(3)}
        >>> in_float32(params) is params
        True
    """
    kinds = {str(kind) for leaf in jax.tree.leaves(params) if (kind := _dtype(leaf)) in _HALF}
    if not kinds:
        return params
    warnings.warn(
        f"params of {' and '.join(sorted(kinds))} are taken as float32: the result is that of the"
        " network with these weights, computed in float32.",
        PrecisionWarning,
        stacklevel=5,
    )
    return widened(params)


def with_float32_outputs(apply: Apply, params: Params, x: Inputs) -> Apply:
    """The network, with outputs of 16 bits as float32; for use while a program is compiled.

    Example:
        >>> half = lambda w, x: (x @ w).astype(jnp.bfloat16)
        >>> w, x = jnp.ones((3, 2), jnp.float32), jnp.ones((5, 3), jnp.float32)
        >>> with_float32_outputs(half, w, x)(w, x).dtype
        dtype('float32')
    """
    found = jax.eval_shape(apply, params, x)
    if _dtype(found) not in _HALF:
        return apply
    return lambda params, x: apply(params, x).astype(jnp.float32)


def check_outputs(apply: Apply, params: Params, x: Inputs) -> int:
    """The number of outputs k; raises unless there are outputs (n, k) at n inputs.

    Nothing is computed: shapes are enough.

    Example:
        >>> check_outputs(lambda params, x: x @ params, jnp.ones((3, 2)), jnp.ones((5, 3)))
        2
    """
    found, n = output_shapes(apply, params, x), num_inputs(x)
    shape = getattr(found, "shape", None)
    if shape is None:
        raise ValueError(
            f"apply must give one array (n, k), got a {type(found).__name__}: choose from it with"
            " outputs=, such as outputs=lambda f: f[0]."
        )
    if len(shape) != 2 or shape[0] != n or shape[1] < 1:
        raise ValueError(
            f"apply must give outputs of shape (n, k) for {n} inputs, got {shape}.{_hint(shape, n)}"
        )
    return shape[1]


def _hint(shape: tuple[int, ...], n: int) -> str:
    """What `outputs` could be."""
    if shape[:1] != (n,) or 0 in shape:
        return ""
    if len(shape) == 1:
        return " Give them a second axis with outputs=lambda f: f[:, None]."
    return (
        " Reduce them with outputs=, such as outputs=lambda f: f[:, -1] for the last position or"
        " outputs=lambda f: f.reshape(len(f), -1) for all."
    )


def check_one_by_one(apply: Apply, params: Params, x1: Inputs, x2: Inputs | None = None) -> None:
    """Raise if the outputs at an input depend on more than the input, as with batch statistics.

    The network is run on three pairs of inputs, once for every network and shape. Inside a compiled
    program there are no values to look at, and nothing is done.

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
    check_independence(apply, params, x1, x2, _lasting(apply), output_shapes)


def check_called_again(apply: Apply, params: Params, x: Inputs) -> None:
    """Raise if the network gives something else when it is called again.

    Args:
        apply: The network: (params, inputs) ─► outputs.
        params: Its parameters.
        x: Inputs; batch statistics are nothing to mind here.

    Example:
        >>> check_called_again(lambda w, x: w * (x - x.mean()), 2.0, jnp.ones((3, 1)))
    """
    check_deterministic(apply, params, x, name=_lasting(apply))


def _lasting(apply: Apply) -> tuple[Any, Any]:
    """What stays of a network between calls: an object, and a part of it."""
    owner, part = (apply.apply, apply.outputs) if isinstance(apply, Reduced) else (apply, None)
    if inspect.ismethod(owner):  # made anew at every look at it
        return owner.__self__, (owner.__func__, part)
    return owner, part


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


def output_shapes(apply: Apply, params: Params, x: Inputs) -> Any:
    """Shapes and types of the outputs; an error that helps if the network does not take inputs.

    Example:
        >>> output_shapes(lambda w, x: x @ w, jnp.ones((3, 2)), jnp.ones((5, 3))).shape
        (5, 2)
    """
    try:
        return jax.eval_shape(apply, params, x)
    except Exception as error:  # whatever a network of the user's may raise
        shapes = jax.tree.map(lambda leaf: tuple(leaf.shape), x)
        if _takes(apply, params, one_input(x)):
            wanted, one = _shown(x, "n, "), _shown(x, "")
            raise ValueError(
                f"apply must take inputs of shape {wanted}, got a network of one input {one}:"
                " give jax.vmap(apply, in_axes=(None, 0))."
            ) from error
        raise ValueError(
            f"apply must take these params and inputs of shape {shapes}, but it raised"
            f" {type(error).__name__}: {' '.join(str(error).split())[:400]}"
        ) from error


def _shown(x: Inputs, before: str) -> str:
    """Shapes as (n, 3, 4), or (3, 4) of one input."""

    def one(leaf: Any) -> str:
        if not before:
            return str(tuple(leaf.shape[1:]))
        return f"({', '.join(['n', *map(str, leaf.shape[1:])])})"

    return " and ".join(map(one, jax.tree.leaves(x)))


def _takes(apply: Apply, params: Params, x: Any) -> bool:
    try:
        jax.eval_shape(apply, params, x)
    except Exception:  # whatever a network of the user's may raise
        return False
    return True


def _dtype(leaf: Any) -> str:
    return str(getattr(leaf, "dtype", ""))


def widened(tree: Any) -> Any:
    """A tree with its arrays of 16 bits as float32, without a word.

    Example:
        >>> widened({"x": jnp.ones(3, jnp.bfloat16), "ids": jnp.arange(3)})["x"].dtype
        dtype('float32')
    """
    if all(_dtype(leaf) not in _HALF for leaf in jax.tree.leaves(tree)):
        return tree
    wide = lambda leaf: leaf.astype(jnp.float32) if _dtype(leaf) in _HALF else leaf  # noqa: E731
    return jax.tree.map(wide, tree)
