"""Inputs of a bridged PyTorch module: an example to read it with, and all that come later.

An example is an array (n, ...), a tuple or a dictionary of such. Later inputs have its tree and its
shapes, but any n; whole numbers stay whole, and real ones take the type of the parameters.
"""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .torch_arrays import as_jax, kind_of
from .torch_graph import Types

SEVERAL = (7, 11, 13, 17, 19, 23)  # numbers of inputs to read a module with: none of its sizes


class Example(NamedTuple):
    """What a module is read with: tensors in their tree, with shapes and types by place."""

    tree: Any
    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]

    @property
    def structure(self) -> Any:
        """The tree without its leaves."""
        return jax.tree.structure(self.tree)

    def with_number(self, number: int) -> Any:
        """The same tree with this many inputs: those of the example, over and over."""
        return jax.tree.map(lambda leaf: leaf[[i % len(leaf) for i in range(number)]], self.tree)

    def unlike(self) -> int:
        """A number of inputs that no other axis has: one in common would count as the same."""
        sizes = {size for shape in self.shapes for size in shape[1:]}
        return next((number for number in SEVERAL if number not in sizes), 29)


def example_of(given: Any, parameters: Mapping[str, Any]) -> Example:
    """An example as tensors, checked.

    Args:
        given: Tensors or arrays, alone, in a tuple or in a dictionary.
        parameters: Of the module: real numbers of other libraries take their type and device.
    """
    torch = importlib.import_module("torch")
    like = next(iter(parameters.values()))

    def tensor(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().to(like.device)
        if not hasattr(leaf, "shape"):
            raise TypeError(
                "example must hold tensors or arrays with the first axis n, got a"
                f" {type(leaf).__name__}."
            )
        made = torch.as_tensor(np.array(leaf), device=like.device)
        return made.to(like.dtype) if made.is_floating_point() else made

    tree = jax.tree.map(tensor, given)
    leaves = jax.tree.leaves(tree)
    if not leaves:
        raise ValueError("example must hold at least one tensor, such as torch.zeros(2, 3).")
    shapes = tuple(tuple(leaf.shape) for leaf in leaves)
    if any(not shape or not shape[0] or shape[0] != shapes[0][0] for shape in shapes):
        told = " and ".join(map(str, shapes))
        raise ValueError(f"example must have one first axis, n >= 1 inputs, got {told}.")
    return Example(tree, shapes, tuple(kind_of(leaf.dtype) for leaf in leaves))


def inputs_like(example: Example, x: Any) -> list[Array]:
    """The arrays of inputs in the example's order, if they have its tree and shapes, but for n.

    Args:
        example: What the module was read with.
        x: Inputs.
    """
    leaves, structure = jax.tree.flatten(x)
    leaves = [as_jax(leaf) if hasattr(leaf, "detach") else jnp.asarray(leaf) for leaf in leaves]
    if structure != example.structure:
        raise ValueError(
            f"x must be a tree like the example's, {example.structure}, got {structure}."
        )
    for leaf, shape in zip(leaves, example.shapes, strict=True):
        if leaf.shape[1:] != shape[1:] or not leaf.ndim:
            wanted = ", ".join(["n", *map(str, shape[1:])])
            raise ValueError(
                f"x must have the example's shape ({wanted}{',' if len(shape) == 1 else ''}), got"
                f" {leaf.shape}; for another one make another bridge."
            )
    return leaves


def converted(leaf: Array, kind: str, types: Types) -> Array:
    """An input in the type that the module takes.

    Args:
        leaf: The input.
        kind: The type of the example.
        types: Of what is computed.

    Example:
        >>> converted(jnp.ones(3), "int64", Types({}, {}))
        Traceback (most recent call last):
        ...
        TypeError: x must be whole numbers here, like the example, got an array of float64.
    """
    wanted = types[kind]
    if leaf.dtype == wanted:
        return leaf
    if not jnp.issubdtype(wanted, jnp.floating) and jnp.issubdtype(leaf.dtype, jnp.floating):
        raise TypeError(
            f"x must be whole numbers here, like the example, got an array of {leaf.dtype}."
        )
    return leaf.astype(wanted)
