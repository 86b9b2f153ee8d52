"""Numbers of an architecture that are arrays: given to a compiled program, and differentiable.

A scale such as σ_w of a layer, σ_b of a parametrization or the slope of an activation may be a
number, which a program is compiled with, or an array of shape (), which it is given. So a kernel
can be differentiated in it, and no new value needs a new program.

    frame, arrays = without_arrays(tree)      a frame that can be hashed, with slots
    with_arrays(frame, arrays)                the tree again, of these arrays or others
"""

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from theorylab.typing import Scalar

_PLAIN = frozenset({float, int, bool, str, type(None)})


class Slot(NamedTuple):
    """Where an array stood in a frame."""

    number: int


def without_arrays(tree: Any) -> tuple[Any, tuple[Array, ...]]:
    """Take the arrays out of a tree of dataclasses and tuples, such as an architecture.

    Example:
        >>> from theorylab.models import Dense, Serial
        >>> tree = Serial(Dense(8, weight_scale=jax.numpy.array(1.5)), Dense(1))
        >>> frame, arrays = without_arrays(tree)
        >>> frame.layers[0].weight_scale, [float(array) for array in arrays]
        (Slot(number=0), [1.5])
    """
    found: list[Array] = []

    def take(array: Array) -> Slot:
        found.append(array)
        return Slot(len(found) - 1)

    frame = _mapped(tree, jax.Array | np.ndarray, take)
    return frame, tuple(found)


def with_arrays(frame: Any, arrays: tuple[Array, ...]) -> Any:
    """Put arrays into the slots of a frame.

    Example:
        >>> from theorylab.models import Dense
        >>> frame, arrays = without_arrays(Dense(8, weight_scale=jax.numpy.array(1.5)))
        >>> float(with_arrays(frame, (2 * arrays[0],)).weight_scale)
        3.0
    """
    return _mapped(frame, Slot, lambda slot: arrays[slot.number]) if arrays else frame


def as_dtype(tree: Any, dtype: Any) -> Any:
    """Give the floating arrays of a tree the precision of the inputs.

    Example:
        >>> from theorylab.models import NTK
        >>> as_dtype(NTK(weight_scale=jax.numpy.array(1.5)), "float16").weight_scale.dtype
        dtype('float16')
    """

    def cast(array: Array) -> Array:
        return array.astype(dtype) if jax.numpy.issubdtype(array.dtype, np.floating) else array

    return _mapped(tree, jax.Array | np.ndarray, cast)


def check_scale(name: str, scale: Scalar) -> None:
    """Raise unless a scale is positive and finite; inside a program it cannot be looked at.

    Example:
        >>> check_scale("weight_scale", -1.0)
        Traceback (most recent call last):
        ...
        ValueError: weight_scale must be positive and finite, got -1.0.
    """
    if np.shape(scale) != ():
        raise ValueError(f"{name} must be one number, got an array of shape {np.shape(scale)}.")
    if not isinstance(scale, Tracer) and not 0 < scale < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {scale}.")


def _mapped(node: Any, kind: Any, change: Callable[[Any], Any]) -> Any:
    """Change what is of this kind; what has nothing of it inside stays the same object."""
    if isinstance(node, kind):
        return change(node)
    if isinstance(node, tuple):
        if _PLAIN.issuperset(map(type, node)):  # a row of a graph may be long
            return node
        parts = [_mapped(part, kind, change) for part in node]
        if all(new is old for new, old in zip(parts, node, strict=True)):
            return node
        return type(node)(*parts) if hasattr(node, "_fields") else tuple(parts)
    if not dataclasses.is_dataclass(node) or isinstance(node, type):
        return node
    names = [field.name for field in dataclasses.fields(node) if hasattr(node, field.name)]
    changed = {name: _mapped(getattr(node, name), kind, change) for name in names}
    if all(new is getattr(node, name) for name, new in changed.items()):
        return node
    made = copy.copy(node)  # not through __init__, which would check a slot
    for name, new in changed.items():
        object.__setattr__(made, name, new)
    return made
