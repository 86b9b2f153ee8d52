"""Programs that are equal, equation by equation, are compiled once.

Two programs are equal if they have the same equations in the same order: the same primitives with
the same settings, of the same variables and of literals that are equal bit by bit. What they read
from outside (`counted.hoisted`) are arguments, so other values need no other program. The last 64
programs are kept. What cannot be compared (a setting without a hash, a large constant inside of a
loop's body) is compiled by itself; functions among settings are equal only if they are the same.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun
from jaxtyping import Array

_KEPT = 64
_LARGEST = 1024  # bytes of a constant that is compared

Program = Callable[[list[Any], Array], Array]


class _Incomparable(Exception):
    """A part of a program has nothing to compare it by."""


class _Written:
    """A program with its constants as arguments; equal to others that are written alike."""

    def __init__(self, jaxpr: Jaxpr, negative: bool) -> None:
        self.jaxpr, self.negative = jaxpr, negative
        self.text = _jaxpr_key(jaxpr), negative
        self._hash = hash(self.text)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Written) and self.text == other.text


def compiled(jaxpr: Jaxpr, negative: bool = False) -> Program:
    """The program (constants, vector) ↦ ± its first result, compiled when it is first called.

    Args:
        jaxpr: The program, with constants that are given when it is called.
        negative: Whether the sign is turned.

    Example: the same function written twice is one program.
        >>> first = jax.make_jaxpr(lambda v: 2.0 * v)(1.0)
        >>> second = jax.make_jaxpr(lambda v: 2.0 * v)(5.0)
        >>> compiled(first.jaxpr) is compiled(second.jaxpr)
        True
        >>> float(compiled(first.jaxpr, negative=True)([], 3.0))
        -6.0
    """
    try:
        return _kept(_Written(jaxpr, negative))
    except _Incomparable:
        return _program(jaxpr, negative)


@lru_cache(maxsize=_KEPT)
def _kept(written: _Written) -> Program:
    return _program(written.jaxpr, written.negative)


def _program(jaxpr: Jaxpr, negative: bool) -> Program:
    def program(constants: list[Any], vector: Array) -> Array:
        found = jaxpr_as_fun(ClosedJaxpr(jaxpr, constants))(vector)[0]
        return -found if negative else found

    return jax.jit(program)


def _jaxpr_key(jaxpr: Jaxpr) -> Any:
    """All that a program does, as nested tuples; variables by the order in which they come."""
    numbers: dict[Any, int] = {}

    def atom(value: Any) -> Any:
        if isinstance(value, Literal):
            return "literal", value.aval, _setting_key(value.val)
        return numbers.setdefault(value, len(numbers)), value.aval

    def equation(each: Any) -> Any:
        names = sorted(each.params)
        settings = tuple((name, _setting_key(each.params[name])) for name in names)
        ins, outs = tuple(map(atom, each.invars)), tuple(map(atom, each.outvars))
        return each.primitive, _hashable(each.ctx), settings, ins, outs

    entered = tuple(map(atom, [*jaxpr.constvars, *jaxpr.invars]))
    equations = tuple(map(equation, jaxpr.eqns))
    return len(jaxpr.constvars), entered, equations, tuple(map(atom, jaxpr.outvars))


def _setting_key(value: Any) -> Any:
    """What a setting is, with its type: 1, 1.0 and True are three."""
    kind = type(value)
    match value:
        case ClosedJaxpr():
            return kind, _jaxpr_key(value.jaxpr), _setting_key(tuple(value.consts))
        case Jaxpr():
            return kind, _jaxpr_key(value)
        case np.ndarray() | np.generic() | jax.Array():
            if value.nbytes > _LARGEST or jnp.issubdtype(value.dtype, jax.dtypes.extended):
                raise _Incomparable
            return kind, value.dtype, value.shape, np.asarray(value).tobytes()
        case float() | complex():  # −0.0 is not 0.0, and NaN is NaN
            return kind, repr(value)
        case tuple() | list():
            return kind, tuple(map(_setting_key, value))
        case dict():
            return kind, tuple((_setting_key(name), _setting_key(value[name])) for name in value)
        case _:
            return kind, _hashable(value)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError as error:
        raise _Incomparable from error
    return value
