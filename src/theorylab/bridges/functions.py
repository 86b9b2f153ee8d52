"""Plain functions, and models that take their parameters by name: what may not be trained is held.

    function(params, x) with a tree of any leaves ─► apply(params, x) with floating arrays

A leaf that is no floating array (a whole number, a name, a function) is taken out of the tree and
put back before the function is called.
"""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from theorylab.typing import Inputs, Params

from .bridged import Bridged, Outputs, arguments, checked, is_floating, named, picked, plain

# What a network in evaluation mode is told, by the names that frameworks have for it.
EVALUATION: dict[str, bool] = {
    "deterministic": True,
    "inference": True,
    "is_training": False,
    "train": False,
    "training": False,
    "use_running_average": True,
}


def from_function(function: Any, params: Any, *, outputs: Outputs = None) -> Bridged:
    """Make `apply(params, x)` of a function whose parameters hold more than floating arrays.

    Args:
        function: (params, inputs) ─► outputs.
        params: Any tree; NumPy's arrays and floats become arrays of JAX.
        outputs: The part of the outputs that is wanted: a name, a place, or a function of them.

    Example: a number of layers among the parameters.
        >>> def deep(params, x):
        ...     for _ in range(params["depth"]):
        ...         x = jnp.tanh(x @ params["weight"])
        ...     return x
        >>> network = from_function(deep, {"weight": jnp.eye(2), "depth": 3})
        >>> network.params["depth"] is None
        True
        >>> network.apply(network.params, jnp.zeros((1, 2))).tolist()
        [[0.0, 0.0]]
    """
    if not callable(function):
        raise TypeError(
            f"function must be called with (params, x), got a {type(function).__name__}."
        )
    kept, held = parted(params)

    def apply(params: Params, x: Inputs) -> Any:
        return picked(function(joined(params, held), x), outputs)

    arrays = {name: jnp.asarray(leaf) for name, leaf in named(held).items() if _is_array(leaf)}
    return checked(Bridged(apply, kept, arrays))


def from_huggingface(
    model: Any,
    params: Any = None,
    *,
    outputs: Outputs = "logits",
    **options: Any,
) -> Bridged:
    """Make `apply(params, x)` of a model that is called as `model(ids, params=params)`.

    So are the models of Hugging Face's transformers in Flax; those in PyTorch are modules of
    PyTorch (`from_torch`). Of switches such as `train`, those that the model has are set for
    evaluation.

    Args:
        model: Called with inputs by place or by name, and its parameters as `params`.
        params: The parameters; None: `model.params`.
        outputs: The part of the outputs that is wanted: a name, a place, or a function of them.
        **options: Further arguments of the model.

    Example: the scores are one field of what the model returns.
        >>> def model(ids, params, train=True):
        ...     return {"logits": params["embedding"][ids] * (0 if train else 1)}
        >>> network = from_huggingface(model, {"embedding": jnp.arange(3.0)})
        >>> network.apply(network.params, jnp.array([[2, 1]])).tolist()
        [[2.0, 1.0]]
    """
    if not callable(model):
        raise TypeError(f"model must be called with inputs, got a {type(model).__name__}.")
    given = getattr(model, "params", None) if params is None else params
    if given is None:
        raise ValueError("params must be given, or be model.params, got neither.")
    told = evaluation(model) | options

    def call(params: Params, x: Inputs) -> Any:
        args, kwargs = arguments(x)
        return plain(model(*args, **kwargs, params=params, **told))

    return from_function(call, given, outputs=outputs)


def evaluation(function: Callable[..., Any]) -> dict[str, bool]:
    """Those of a function's arguments that switch dropout and batch statistics off.

    Args:
        function: A network.

    Example:
        >>> evaluation(lambda x, train=True: x)
        {'train': False}
    """
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of what is written in C
        return {}
    return {name: value for name, value in EVALUATION.items() if name in names}


def parted(tree: Any) -> tuple[Any, Any]:
    """A tree's floating arrays, and the rest of it; where one has a leaf the other has None.

    Args:
        tree: Any tree.

    Example:
        >>> parted({"weight": 1.5, "name": "dense"})
        ({'name': None, 'weight': Array(1.5, dtype=float64...)}, {'name': 'dense', 'weight': None})
    """
    kept = jax.tree.map(
        lambda leaf: jnp.asarray(leaf) if isinstance(leaf, float) or is_floating(leaf) else None,
        tree,
    )
    rest = jax.tree.map(
        lambda leaf: None if isinstance(leaf, float) or is_floating(leaf) else leaf, tree
    )
    return kept, rest


def joined(kept: Any, rest: Any) -> Any:
    """The tree of which these are the two parts.

    Args:
        kept: The floating arrays.
        rest: The other leaves.

    Example:
        >>> joined({"weight": 1.5, "name": None}, {"weight": None, "name": "dense"})
        {'name': 'dense', 'weight': 1.5}
    """
    is_none = lambda leaf: leaf is None  # noqa: E731
    choose = lambda first, second: second if first is None else first  # noqa: E731
    return jax.tree.map(choose, kept, rest, is_leaf=is_none)


def _is_array(leaf: Any) -> bool:
    kind = getattr(leaf, "dtype", None)
    whole = isinstance(leaf, int | bool)
    return whole or any(jnp.issubdtype(kind, each) for each in (np.integer, jnp.bool_) if kind)
