"""The bridge for a network, told from its kind; no framework is imported to find out."""

from typing import Any

from .bridged import Bridged, Outputs
from .equinox_modules import from_equinox
from .flax_modules import from_flax
from .functions import from_function
from .torch_modules import from_torch

FRAMEWORKS = {  # where a framework defines its modules ─► its name
    "torch.nn": "torch",
    "flax.linen": "flax",
    "flax.nnx": "flax",
    "equinox": "equinox",
}


def bridge(network: Any, given: Any = None, *, outputs: Outputs = None) -> Bridged:
    """Make `apply(params, x)` of a network, whichever framework it comes from.

    Args:
        network: A module of PyTorch, Flax or Equinox, or a function of (params, x).
        given: What its bridge needs beside it: an example of the inputs for PyTorch, variables for
            Flax Linen, the state for Equinox, parameters for a function; nothing for NNX.
        outputs: The part of the outputs that is wanted: a name, a place, or a function of them.

    Example: a function.
        >>> import jax.numpy as jnp
        >>> bridge(lambda params, x: x @ params, jnp.ones((3, 2)))
        Bridged(1 array with 6 parameters; held: nothing)
    """
    match framework_of(network):
        case "torch":
            if given is None:
                raise ValueError("given must be an example of the inputs for PyTorch, got none.")
            return from_torch(network, given, outputs=outputs)
        case "flax":
            return from_flax(network, given, outputs=outputs)
        case "equinox":
            return from_equinox(network, given, outputs=outputs)
        case _:
            return from_function(network, given, outputs=outputs)


def framework_of(network: Any) -> str | None:
    """The framework whose module this is: "torch", "flax", "equinox", or None.

    Args:
        network: Anything.

    Example:
        >>> import equinox
        >>> framework_of(equinox.nn.Identity()), framework_of(max)
        ('equinox', None)
    """
    for each in type(network).__mro__:
        for place, name in FRAMEWORKS.items():
            if f"{each.__module__}.".startswith(f"{place}."):
                return name
    return None
