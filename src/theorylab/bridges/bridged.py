"""A network of another framework as `apply(params, x)`: what every bridge gives.

    apply   (params, x) ─► outputs, a pure function of JAX
    params  a tree of floating arrays, all real and finite: what may be trained
    held    arrays by name that stay as they were: running statistics, buffers, whole numbers

Inputs are an array (n, ...) for a network of one argument, a tuple of arrays for several, a
dictionary for arguments by name. Outputs are one array, or dictionaries and tuples of arrays;
`outputs` picks from them.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from theorylab.models.own_network import check_finite
from theorylab.typing import Apply, Inputs, Params

Outputs = str | int | Callable[[Any], Any] | None  # a name, a place, a function, or all of them


class Bridged(NamedTuple):
    """A network of another framework: a function, its parameters, and what is held fixed.

    Example: it unpacks, and prints its sizes.
        >>> network = Bridged(lambda params, x: x @ params, jnp.ones((3, 2)), {})
        >>> network
        Bridged(1 array with 6 parameters; held: nothing)
        >>> apply, params, held = network
        >>> apply(params, jnp.ones((5, 3))).shape
        (5, 2)
    """

    apply: Apply
    params: Params
    held: dict[str, Array]

    def __repr__(self) -> str:
        leaves = jax.tree.leaves(self.params)
        total = sum(int(np.size(leaf)) for leaf in leaves)
        return (
            f"Bridged({_counted(len(leaves), 'array')} with {_counted(total, 'parameter')};"
            f" held: {_counted(len(self.held), 'array') if self.held else 'nothing'})"
        )


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def arguments(x: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How a network is called with inputs: arguments by place, arguments by name.

    Args:
        x: An array, a tuple of arguments, or a dictionary of arguments by name.

    Example:
        >>> arguments((1, 2)), arguments({"ids": 3}), arguments(4)
        (((1, 2), {}), ((), {'ids': 3}), ((4,), {}))
    """
    if isinstance(x, Mapping):
        return (), dict(x)
    if isinstance(x, tuple | list):
        return tuple(x), {}
    return (x,), {}


def plain(outputs: Any) -> Any:
    """Outputs as dictionaries, tuples and arrays; what a record leaves empty is left out.

    Args:
        outputs: What a network returned: an array, a mapping, a record, a sequence.

    Example:
        >>> plain([{"logits": 1, "cache": None}, 2])
        ({'logits': 1}, 2)
    """
    if isinstance(outputs, Mapping):
        return {name: plain(part) for name, part in outputs.items() if part is not None}
    if is_dataclass(outputs) and not isinstance(outputs, type):
        found = {field.name: getattr(outputs, field.name) for field in fields(outputs)}
        return plain(found)
    if isinstance(outputs, tuple | list):
        return tuple(map(plain, outputs))
    return outputs


def picked(found: Any, outputs: Outputs) -> Any:
    """The part of the outputs that is asked for.

    Args:
        found: What a network returned, as `plain` has it.
        outputs: A name or a place in it, a function of it, or None: all.

    Example:
        >>> picked({"logits": 1, "hidden": 2}, "logits"), picked((3, 4), lambda f: f[1])
        (1, 4)
    """
    if outputs is None:
        return found
    if callable(outputs):
        return outputs(found)
    try:
        return found[outputs]
    except (KeyError, IndexError, TypeError):
        there = list(found) if isinstance(found, dict) else f"a {type(found).__name__}"
        raise ValueError(
            f"outputs must name a part of what the network returns, {there}, got {outputs!r}."
        ) from None


def is_floating(leaf: Any) -> bool:
    """Whether this is an array of real numbers, of any number of bits.

    Example:
        >>> is_floating(jnp.ones(3)), is_floating(jnp.arange(3)), is_floating(jnp.tanh)
        (True, False, False)
    """
    kind = getattr(leaf, "dtype", None)
    return kind is not None and jnp.issubdtype(kind, jnp.floating)


def checked(network: Bridged) -> Bridged:
    """The network itself, if its parameters are real, finite, and at least one.

    Args:
        network: What a bridge has made.

    Example:
        >>> checked(Bridged(abs, {"bias": jnp.array([jnp.nan])}, {}))
        Traceback (most recent call last):
        ...
        ValueError: params must be finite, got NaN or infinity at ['bias'].
    """
    if not jax.tree.leaves(network.params):
        raise ValueError("the network must have floating parameters, got none.")
    check_finite(network.params)
    return network


def named(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by their paths.

    Args:
        tree: Any tree.

    Example:
        >>> named({"norm": {"mean": 0.0}})
        {"['norm']['mean']": 0.0}
    """
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree.leaves_with_path(tree)}
