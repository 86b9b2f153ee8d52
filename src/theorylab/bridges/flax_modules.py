"""A module of Flax as `apply(params, x)`, of Linen with its variables or of NNX.

    Linen   variables = {"params": ..., "batch_stats": ..., ...}: the first is trained, others held
    NNX     split(module, Param, ...): the parameters as a dictionary, all other state held

Dropout is off and running statistics are used: in NNX by attributes, in Linen by those arguments of
`__call__` that say so (`train=False`, `deterministic=True`, …), or those that are given.
"""

import importlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from theorylab.typing import Inputs, Params

from .bridged import Bridged, Outputs, arguments, checked, named, picked, plain
from .functions import evaluation, joined, parted


def from_flax(
    module: Any, variables: Any = None, *, outputs: Outputs = None, **options: Any
) -> Bridged:
    """Make `apply(params, x)` of a Flax module.

        network = from_flax(module, module.init(key, x))     Linen
        network = from_flax(nnx_module)                      NNX

    Args:
        module: A `flax.linen.Module`, or a `flax.nnx.Module`, which is not changed.
        variables: Of a Linen module: its collections, or the parameters alone.
        outputs: The part of the outputs that is wanted: a name, a place, or a function of them.
        **options: Arguments of `__call__`, such as `train=False`; switches that are found in its
            signature are set for evaluation by themselves.
    """
    families = {each.__module__.rpartition(".")[0] for each in type(module).__mro__}
    if isinstance(module, type):
        raise TypeError(f"module must be a module of Flax, got the class {module.__name__}.")
    if any(family.startswith("flax.nnx") for family in families):
        if variables is not None:
            raise ValueError("variables must be left out for a module of NNX, which has its own.")
        return _from_nnx(module, outputs, options)
    if any(family.startswith("flax.linen") for family in families):
        return _from_linen(module, variables, outputs, options)
    raise TypeError(f"module must be a module of Flax, got a {type(module).__name__}.")


def _from_linen(module: Any, variables: Any, outputs: Outputs, options: dict[str, Any]) -> Bridged:
    if not isinstance(variables, Mapping) or not variables:
        raise ValueError(
            "variables of a Linen module must be given, as from module.init(key, x), got"
            f" {'none' if variables is None else type(variables).__name__}."
        )
    collections = dict(variables) if "params" in variables else {"params": variables}
    kept, rest = parted(collections.pop("params"))
    told = evaluation(type(module).__call__) | options

    def apply(params: Params, x: Inputs) -> Any:
        args, kwargs = arguments(x)
        given = {"params": joined(params, rest), **collections}
        return picked(plain(module.apply(given, *args, **kwargs, **told)), outputs)

    held = {**named(collections), **named(rest)}
    return checked(Bridged(apply, kept, {name: jnp.asarray(leaf) for name, leaf in held.items()}))


def _from_nnx(module: Any, outputs: Outputs, options: dict[str, Any]) -> Bridged:
    nnx = importlib.import_module("flax.nnx")
    own = nnx.clone(module)
    own.set_attributes(deterministic=True, use_running_average=True, raise_if_not_found=False)
    graph, state, others = nnx.split(own, nnx.Param, ...)
    kept, rest = parted(nnx.to_pure_dict(state))

    def apply(params: Params, x: Inputs) -> Any:
        args, kwargs = arguments(x)
        filled = jax.tree.unflatten(
            jax.tree.structure(state), jax.tree.leaves(joined(params, rest))
        )
        network = nnx.merge(graph, filled, others, copy=True)
        return picked(plain(network(*args, **kwargs, **options)), outputs)

    held = {**named(nnx.to_pure_dict(others)), **named(rest)}
    arrays = {name: leaf for name, leaf in held.items() if not _is_key(leaf)}
    return checked(Bridged(apply, kept, {name: jnp.asarray(leaf) for name, leaf in arrays.items()}))


def _is_key(leaf: Any) -> bool:
    """Whether this is a random key, of which nothing in evaluation depends."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
