"""What a library function answers: a small frozen record of named arrays.

    class Sharpness(Answer):
        value: Float[Array, ""]
        residual: Float[Array, ""]

A subclass is a frozen dataclass and a pytree of JAX, so an answer can be jitted, mapped and
scanned. Fields of the types int, float, str and bool, and those made by `fixed`, are no arrays:
they stay as they are when an answer is mapped.
"""

import dataclasses
from collections.abc import Hashable
from typing import Any, TypeVar, dataclass_transform

import jax

Kind = TypeVar("Kind", bound="Answer")

_FIXED = "fixed"
_PLAIN = (int, float, str, bool)


def fixed(**options: Any) -> Any:
    """A field that is no array: how an answer was computed, or what its numbers are called."""
    return dataclasses.field(metadata={_FIXED: True}, **options)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(fixed,))
class Answer:
    """The base of what library functions answer.

    Example:
        >>> class Norm(Answer):
        ...     value: jax.Array
        ...     name: str = "Euclidean"
        >>> norm = Norm(jax.numpy.array([1.0, 2.0]))
        >>> jax.tree.map(lambda leaf: 2 * leaf, norm).value.tolist()
        [2.0, 4.0]
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Make it a frozen dataclass, and a pytree."""
        super().__init_subclass__(**options)
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
        jax.tree_util.register_pytree_with_keys(cls, _children, _builder(cls), _leaves)

    def replace(self: Kind, **changes: Any) -> Kind:
        """The same with other values of some fields."""
        return _made(type(self), {**_values(self), **changes})

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in _values(self).items())
        return f"{type(self).__name__}({told})"


def _values(answer: Answer) -> dict[str, Any]:
    return {field.name: getattr(answer, field.name) for field in _fields(type(answer))}


def _fields(cls: type[Answer]) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(cls)  # type: ignore[arg-type]  # every subclass is a dataclass


def _is_fixed(field: dataclasses.Field) -> bool:
    return field.metadata.get(_FIXED, False) or field.type in _PLAIN


def _split(answer: Answer) -> tuple[list[tuple[str, Any]], tuple[Hashable, ...]]:
    """Names and values of the arrays, and what is fixed."""
    fields = [(field, getattr(answer, field.name)) for field in _fields(type(answer))]
    arrays = [(field.name, value) for field, value in fields if not _is_fixed(field)]
    return arrays, tuple(value for field, value in fields if _is_fixed(field))


def _children(answer: Answer) -> tuple[list[tuple[Any, Any]], tuple[Hashable, ...]]:
    arrays, rest = _split(answer)
    return [(jax.tree_util.GetAttrKey(name), value) for name, value in arrays], rest


def _leaves(answer: Answer) -> tuple[list[Any], tuple[Hashable, ...]]:
    arrays, rest = _split(answer)
    return [value for _, value in arrays], rest


def _builder(cls: type[Answer]) -> Any:
    def build(rest: tuple[Hashable, ...], children: Any) -> Answer:
        """JAX puts whatever it likes into a tree, so nothing is checked."""
        arrays, others = iter(children), iter(rest)
        values = {
            field.name: next(others if _is_fixed(field) else arrays) for field in _fields(cls)
        }
        return _made(cls, values)

    return build


def _made(cls: Any, values: dict[str, Any]) -> Any:
    answer = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(answer, name, value)
    return answer
