"""Which axes of a value stand for units: those that come from the axes of a weight.

    h = gW:  (…, c) × (c, m) ─► (…, m)      the last axis counts units, all others observations
    convolution                              the axis of channels
    bias, scale                              leave it as it is

Every equation of a program moves these axes in its own way; here is how.
"""

import math
from typing import NamedTuple

from jax.extend.core import JaxprEqn

from theorylab.kernels.finite.uses import shape_of

from .elementwise import ELEMENTWISE


class Units(NamedTuple):
    """What is known of a value: whether inputs and parameters enter, and its axes of units.

    Example: a weight is all units until it meets an input.
        >>> Units(from_inputs=False, axes=frozenset({0, 1}), leaf=3).leaf
        3
    """

    from_inputs: bool
    axes: frozenset[int] = frozenset()
    leaf: int | None = None  # of the parameters: the weight that was applied last


def moved(equation: JaxprEqn, given: list, result: int = 0) -> Units:
    """What is known of the result of an equation.

    Args:
        equation: What is computed.
        given: What is known of its inputs.
        result: Which of its results.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> (equation,) = jax.make_jaxpr(jax.lax.dot)(jnp.ones((5, 2)), jnp.ones((2, 3))).eqns
        >>> moved(equation, [Units(True), Units(False, frozenset({0, 1}), leaf=0)])
        Units(from_inputs=True, axes=frozenset({1}), leaf=0)
    """
    data = any(units.from_inputs for units in given)
    name, settings = equation.primitive.name, equation.params
    chief = _chief(given)
    leaf = given[chief].leaf if chief is not None else None
    if chief is None:
        return Units(data)
    if name == "dot_general":
        return _product(equation, given)
    if name == "conv_general_dilated":
        weighs = given[1].axes and not given[1].from_inputs
        channel = int(settings["dimension_numbers"].out_spec[1])
        return Units(data, frozenset({channel}), given[1].leaf) if weighs else Units(data)
    if name in ELEMENTWISE:
        return Units(data, _shared(given, data), leaf)
    axes, before = given[chief].axes, shape_of(equation.invars[chief])
    after = shape_of(equation.outvars[result])
    return Units(data, _of_one(name, settings, axes, before, after), leaf)


def _chief(given: list[Units]) -> int | None:
    """The operand that units are taken from: one with inputs if there is one."""
    known = [i for i, units in enumerate(given) if units.axes]
    return next((i for i in known if given[i].from_inputs), known[0] if known else None)


def _shared(given: list[Units], data: bool) -> frozenset[int]:
    """The axes of a sum: those that all terms share; a parameter's only if the rest has none."""
    sets = [units.axes for units in given if units.axes and units.from_inputs == data]
    sets = sets or [units.axes for units in given if units.axes]
    common = frozenset.intersection(*sets)
    return common or sets[0]


def _product(equation: JaxprEqn, given: list[Units]) -> Units:
    """A product with a weight has its axes anew; one of two values that know inputs keeps them."""
    summed, batched = equation.params["dimension_numbers"]
    shapes = [shape_of(atom) for atom in equation.invars]
    free = [
        [axis for axis in range(len(shapes[i])) if axis not in (*summed[i], *batched[i])]
        for i in range(2)
    ]
    # The axes of the result are those that run along, then what is free on both sides.
    places = {(i, axis): n for i in range(2) for n, axis in enumerate(batched[i])}
    order = [(0, axis) for axis in free[0]] + [(1, axis) for axis in free[1]]
    places |= {place: len(batched[0]) + n for n, place in enumerate(order)}
    weights = [i for i in range(2) if not given[i].from_inputs and given[i].axes]
    data = any(units.from_inputs for units in given)
    chosen = weights if data and weights else [0, 1]
    axes = frozenset(n for (i, axis), n in places.items() if i in chosen and axis in given[i].axes)
    if len(chosen) == 2 and not any(axis in given[i].axes for i in chosen for axis in free[i]):
        return Units(data)  # scores of attention: along its axes of heads there are no units
    leaves = [given[i].leaf for i in chosen if given[i].leaf is not None]
    return Units(data, axes, leaves[0] if leaves else None)


def _of_one(
    name: str,
    settings: dict,
    axes: frozenset[int],
    before: tuple[int, ...],
    after: tuple[int, ...],
) -> frozenset[int]:
    """Where the axes of one operand stand in the result."""
    if name == "broadcast_in_dim":
        return frozenset(int(settings["broadcast_dimensions"][axis]) for axis in axes)
    if name == "transpose":
        return frozenset(n for n, axis in enumerate(settings["permutation"]) if axis in axes)
    if name in ("reshape", "squeeze", "expand_dims"):
        return reshaped(before, after, axes)
    if name == "gather":
        numbers = settings["dimension_numbers"]
        gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
        kept = [axis for axis in range(len(before)) if axis not in gone]
        pairs = zip(kept, numbers.offset_dims, strict=True)
        return frozenset(int(place) for axis, place in pairs if axis in axes)
    gone = settings.get("axes")
    if (name.startswith("reduce_") or name in ("argmax", "argmin")) and gone is not None:
        kept = [axis for axis in range(len(before)) if axis not in gone]
        return frozenset(n for n, axis in enumerate(kept) if axis in axes)
    return axes if len(before) == len(after) else frozenset()


def reshaped(
    before: tuple[int, ...], after: tuple[int, ...], axes: frozenset[int]
) -> frozenset[int]:
    """Axes after a reshape: of what is merged or split, all parts are units if one was.

    Example: heads that are split, and images that are laid out flat.
        >>> sorted(reshaped((5, 12), (5, 3, 4), frozenset({1})))
        [1, 2]
        >>> sorted(reshaped((5, 4, 4, 2), (5, 32), frozenset({3})))
        [1]
    """
    found: set[int] = set()
    i = j = 0
    while i < len(before) and j < len(after) and 0 not in before:
        first, second = [i], [j]
        left, right = before[i], after[j]
        while left != right:
            if left < right:
                i += 1
                first.append(i)
                left *= before[i]
            else:
                j += 1
                second.append(j)
                right *= after[j]
        if axes.intersection(first) and math.prod(before[a] for a in first if a in axes) > 1:
            found.update(second)
        i, j = i + 1, j + 1
    return frozenset(found)
