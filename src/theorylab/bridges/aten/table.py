"""The table of PyTorch's operations: the name in a graph ─► a function of JAX.

    @operation("aten.mm.default")
    def _mm(a, b): ...

A function takes all arguments of the operation's schema by position, defaults filled in; types of
arrays come as JAX's. What has another type than in PyTorch is converted by whoever calls, so a
function cares about values only. Layouts, devices and formats of memory come as None.

PyTorch adds axes in front as it likes; JAX may be told to refuse that, so `level` adds them.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp

Operation = TypeVar("Operation", bound=Callable[..., Any])

OPERATIONS: dict[str, Callable[..., Any]] = {}


def operation(*names: str) -> Callable[[Operation], Operation]:
    """Enter a function in the table under the names of its overloads.

    Args:
        *names: As in a graph, such as "aten.add.Tensor".

    Example: every name stands for one function.
        >>> operation("aten.mm.default")(jnp.matmul)
        Traceback (most recent call last):
        ...
        ValueError: aten.mm.default must be entered once, got it again.
    """

    def enter(function: Operation) -> Operation:
        for name in names:
            if name in OPERATIONS:
                raise ValueError(f"{name} must be entered once, got it again.")
            OPERATIONS[name] = function
        return function

    return enter


def level(*values: Any) -> tuple[Any, ...]:
    """The values with axes of size 1 in front, so that all arrays have the same rank.

    Args:
        *values: Arrays; numbers stay as they are.

    Example:
        >>> [entry.shape for entry in level(jnp.ones((2, 3)), jnp.ones(3))]
        [(2, 3), (1, 3)]
    """
    rank = max((jnp.ndim(value) for value in values), default=0)
    return tuple(
        jnp.reshape(value, (1,) * (rank - jnp.ndim(value)) + jnp.shape(value))
        if 0 < jnp.ndim(value) < rank
        else value
        for value in values
    )


def axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """Axes counted from 0; none given are all of them.

    Args:
        axes: One axis, several, or None.
        rank: How many there are.

    Example:
        >>> axes_of(-1, 3), axes_of([], 2)
        ((2,), (0, 1))
    """
    if axes is None or (isinstance(axes, list | tuple) and not axes):
        return tuple(range(rank))
    given = axes if isinstance(axes, list | tuple) else (axes,)
    return tuple(axis % max(rank, 1) for axis in given)
