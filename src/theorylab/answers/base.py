"""The base of what a library function answers: a small frozen record of named arrays.

    class Sharpness(Answer, errors={"value": "residual"}):
        value: Float[Array, ""]
        residual: Float[Array, ""]

A subclass is a frozen dataclass and a pytree of JAX, so an answer can be jitted, mapped and
scanned. Fields of the types int, float, str and bool, and those made by `fixed`, are no arrays:
they stay as they are when an answer is mapped.

    repr(answer)         Sharpness(value=2.56 ± 2e-6): short, also of large arrays and of tracers
    answer.plot()        a figure of matplotlib
    answer.to_pandas()   a table with one row for each entry
    answer.save(path)    one file, which `theorylab.answers.load` reads
"""

import dataclasses
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar, dataclass_transform

import jax

from theorylab.typing import Axes, DataFrame, Figure

from .text import as_html, as_text

Kind = TypeVar("Kind", bound="Answer")

_FIXED = "fixed"
_PLAIN = (int, float, str, bool, "int", "float", "str", "bool")


def fixed(**options: Any) -> Any:
    """A field that is no array: how an answer was computed, or what its numbers are called."""
    return dataclasses.field(metadata={_FIXED: True}, **options)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(fixed,))
class Answer:
    """The base of what library functions answer.

    A subclass may say what belongs together, as arguments of the class:

        errors   the field with the error of another one: {"values": "residuals"}
        labels   what a figure calls a field: {"values": "eigenvalue λ"}
        axes     what the axes of the first field are called: ("rank",)

    and how it is drawn, by a method `draw` of its own.

    Example:
        >>> class Norm(Answer, errors={"value": "error"}):
        ...     value: jax.Array
        ...     error: jax.Array
        ...     name: str = "Euclidean"
        >>> norm = Norm(jax.numpy.array(2.5604), jax.numpy.array(2e-3))
        >>> norm
        Norm(value=2.56 ± 0.002, name='Euclidean')
        >>> float(jax.tree.map(lambda leaf: 2 * leaf, norm).error)
        0.004...
        >>> value, error, name = norm
        >>> name
        'Euclidean'
    """

    _errors: ClassVar[Mapping[str, str]] = {}
    _labels: ClassVar[Mapping[str, str]] = {}
    _axes: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls,
        errors: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        axes: tuple[str, ...] | None = None,
        **options: Any,
    ) -> None:
        """Make it a frozen dataclass, and a pytree."""
        super().__init_subclass__(**options)
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
        jax.tree_util.register_pytree_with_keys(cls, _children, _builder(cls), _leaves)
        cls._errors = cls._errors if errors is None else dict(errors)
        cls._labels = cls._labels if labels is None else dict(labels)
        cls._axes = cls._axes if axes is None else axes
        names = {field.name for field in _fields(cls)}
        told = {*cls._labels, *cls._errors, *cls._errors.values()}
        if unknown := sorted(told - names):
            raise TypeError(f"{cls.__name__} must have the fields that it tells about: {unknown}.")

    def replace(self: Kind, **changes: Any) -> Kind:
        """The same with other values of some fields."""
        values = fields_of(self)
        if unknown := sorted(changes.keys() - values.keys()):
            name = type(self).__name__
            raise TypeError(f"replace must name fields of {name}, {list(values)}, got {unknown}.")
        return made(type(self), {**values, **changes})

    def draw(self, axes: Axes) -> None:
        """Draw the first array on axes of matplotlib: by rank, as a curve, or as an image."""
        from .figure import draw_first

        draw_first(axes, fields_of(self), self._errors, self._labels, self._axes)

    def plot(self) -> Figure:
        """A figure, which a notebook shows and `savefig` writes to a file."""
        from .figure import drawn

        return drawn(**{type(self).__name__: self.draw})

    def to_pandas(self) -> DataFrame:
        """A table with one row for each entry of the first array.

        Its columns are the numbers of the entry along every axis, the arrays of the same shape, and
        what holds for all of them: scalars and words. Arrays of other shapes are left out.
        """
        from .table import as_frame

        return as_frame(_told(self), self._axes)

    def save(self, path: str | Path) -> None:
        """Write it to one file, an archive of arrays (npz) with a page of JSON; see `load`.

        Args:
            path: The file; it is written aside and renamed, so that it is there whole or not at
                all. One that is there already is replaced.
        """
        from .files import save

        save(self, Path(path))

    def __iter__(self) -> Iterator[Any]:
        """The fields in their order: `values, vectors, residuals = eigenpairs(...)`."""
        return iter(fields_of(self).values())

    def __repr__(self) -> str:
        return as_text(type(self).__name__, _told(self), self._errors)

    def _repr_html_(self) -> str:
        """What a notebook shows: a table, in the colours of the page around it."""
        return as_html(type(self).__name__, _told(self), self._errors)


def fields_of(answer: Answer) -> dict[str, Any]:
    """The values of an answer by name.

    Example:
        >>> class Size(Answer):
        ...     width: int
        >>> fields_of(Size(3))
        {'width': 3}
    """
    return {field.name: getattr(answer, field.name) for field in _fields(type(answer))}


def made(cls: type[Kind], values: Mapping[str, Any]) -> Kind:
    """An answer of these values, whatever they are: JAX puts what it likes into a tree.

    Example:
        >>> class Size(Answer):
        ...     width: int
        >>> made(Size, {"width": "as traced"})
        Size(width='as traced')
    """
    answer = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(answer, name, value)
    return answer


def _fields(cls: type[Answer]) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(cls)  # type: ignore[arg-type]  # every subclass is a dataclass


def _told(answer: Answer) -> dict[str, Any]:
    """What there is to read: not what is missing, nor what `fixed` left at its default."""
    fields = [(field, getattr(answer, field.name)) for field in _fields(type(answer))]
    return {
        field.name: value
        for field, value in fields
        if value is not None and not (field.metadata.get(_FIXED, False) and value == field.default)
    }


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
        arrays, others = iter(children), iter(rest)
        values = {
            field.name: next(others if _is_fixed(field) else arrays) for field in _fields(cls)
        }
        return made(cls, values)

    return build
