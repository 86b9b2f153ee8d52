"""A module of Equinox as `apply(params, x)`: at inference, one input mapped over the batch.

    params, static = partition(inference_mode(module))       floating arrays, and the rest
    apply(params, x) = vmap(combine(params, static))(x)

A module with a state (running statistics of `BatchNorm`) is called with it, and what it returns as
its new state is left out.
"""

import inspect
from typing import Any

import jax
import jax.numpy as jnp

from theorylab.typing import Inputs, Params

from .bridged import Bridged, Outputs, arguments, checked, is_floating, named, picked, plain


def from_equinox(module: Any, state: Any = None, *, outputs: Outputs = None) -> Bridged:
    """Make `apply(params, x)` of an Equinox module, which takes a single input.

    Args:
        module: An `equinox.Module` that can be called; dropout in it is switched off.
        state: Its `equinox.nn.State`, if it has one: it is held.
        outputs: The part of the outputs that is wanted: a name, a place, or a function of them.

    Example:
        >>> import equinox
        >>> layer = equinox.nn.Linear(3, 2, key=jax.random.key(0))
        >>> network = from_equinox(layer)
        >>> network
        Bridged(2 arrays with 8 parameters; held: nothing)
        >>> network.apply(network.params, jnp.ones((5, 3))).shape
        (5, 2)
    """
    import equinox

    if not isinstance(module, equinox.Module) or not callable(module):
        told = module.__name__ if isinstance(module, type) else type(module).__name__
        raise TypeError(f"module must be an equinox.Module that can be called, got {told}.")
    evaluated = equinox.nn.inference_mode(module)
    params, static = equinox.partition(evaluated, is_floating)
    told = {"key": None} if _needs_key(module) else {}

    def one(params: Params, x: Inputs) -> Any:
        network: Any = equinox.combine(params, static)
        args, kwargs = arguments(x)
        if state is None:
            return plain(network(*args, **kwargs, **told))
        found, _ = network(*args, state, **kwargs, **told)
        return plain(found)

    def apply(params: Params, x: Inputs) -> Any:
        return picked(jax.vmap(one, in_axes=(None, 0))(params, x), outputs)

    held = {**named(equinox.filter(static, equinox.is_array))}
    if state is not None:
        held |= {f"state{name}": leaf for name, leaf in named(state).items()}
    return checked(Bridged(apply, params, {name: jnp.asarray(leaf) for name, leaf in held.items()}))


def _needs_key(module: Any) -> bool:
    """Whether a key must be told, and is of no use at inference."""
    key = inspect.signature(type(module).__call__).parameters.get("key")
    return key is not None and key.default is inspect.Parameter.empty
