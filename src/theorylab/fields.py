"""The domains of an experiment's settings: types that say what a field of `Config` must be.

    class Config(Seeded):
        width: Count = 512                          a whole number, at least 1
        ratios: Several[Positive] = (0.5, 3.0)      one or more positive numbers
        widths: Increasing[Count] = (64, 256)       two or more, each greater than the one before
        activation: Literal["relu", "erf"] = "relu" one of these words
        rank: Annotated[int, within(2, 64)] = 8     a whole number from 2 to 64

`Checked` holds every field to its type when a config is made, and the command line reads the same
types, so that help, errors and checks say the same. Conditions between fields stay in
`__post_init__`, which calls `super().__post_init__()` first. Nothing heavy is imported here.
"""

import dataclasses
import itertools
import math
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

T = TypeVar("T")

LARGEST = 2**31 - 1  # sizes of arrays and loops are counted in 32 bits
MOST = 1000  # entries of a field with several values


@dataclass(frozen=True)
class Domain:
    """A condition on a value, and the words that say it."""

    words: str
    holds: Callable[[Any], bool]


@cache
def within(low: int | float, high: int | float = math.inf) -> Domain:
    """The numbers from `low` to `high`, both among them, for fields that have limits of their own.

    Example:
        >>> fitted("rank", Annotated[int, within(2, 64)], 65)
        Traceback (most recent call last):
        ValueError: rank must be a whole number, from 2 to 64, got 65.
    """
    words = f"at least {low}" if high == math.inf else f"from {low} to {high}"
    return Domain(words, lambda v: low <= v <= high)


def _grows(values: tuple[Any, ...]) -> bool:
    return all(one < other for one, other in itertools.pairwise(values))


Whole = Annotated[int, Domain("at least 0", lambda v: v >= 0)]
Count = Annotated[int, Domain("at least 1", lambda v: v >= 1)]
Plural = Annotated[int, Domain("at least 2", lambda v: v >= 2)]
Odd = Annotated[int, Domain("odd and at least 1", lambda v: v >= 1 and v % 2 == 1)]
Seed = Annotated[int, Domain("at least 0", lambda v: v >= 0)]

Real = float
Positive = Annotated[float, Domain("positive", lambda v: 0 < v < math.inf)]
NonNegative = Annotated[float, Domain("at least 0", lambda v: 0 <= v < math.inf)]
AboveOne = Annotated[float, Domain("above 1", lambda v: 1 < v < math.inf)]
Fraction = Annotated[float, Domain("from 0 to 1", lambda v: 0 <= v <= 1)]
OpenFraction = Annotated[float, Domain("between 0 and 1", lambda v: 0 < v < 1)]

Several = Annotated[tuple[T, ...], Domain("one or more", lambda v: len(v) >= 1)]
Increasing = Annotated[
    tuple[T, ...], Domain("two or more and increasing", lambda v: len(v) >= 2 and _grows(v))
]

ImageSet = Literal["digits", "mnist5k", "mnist", "fashion_mnist", "cifar10", "svhn", "usps"]
Classes = Annotated[
    tuple[int, ...],
    Domain("two different classes from 0 to 9", lambda v: len(v) == 2 and _are_classes(v)),
]
SeveralClasses = Annotated[
    tuple[int, ...],
    Domain("two to ten different classes from 0 to 9", lambda v: len(v) >= 2 and _are_classes(v)),
]

# Networks for images by the names that they have in `theorylab.models`, and what they learn where
# catapults are watched.
ImageNetwork = Literal["mlp", "cnn", "wide_resnet", "vit", "myrtle"]
TaskData = Literal["contrast", "rank-2", "rank-4", "images"]


def _are_classes(values: tuple[int, ...]) -> bool:
    return len(set(values)) == len(values) and set(values) <= set(range(10))


@dataclass(frozen=True)
class Shape:
    """A field's type, taken apart: what kind of value, how many, and the conditions on it."""

    kind: type  # int, float, bool or str, of each entry
    several: bool  # whether it is a tuple
    choices: tuple[str, ...]  # what a Literal allows
    whole: tuple[Domain, ...]  # conditions on the value, as a whole
    each: tuple[Domain, ...]  # conditions on every entry of a tuple

    @property
    def words(self) -> str:
        """What must hold, as help and errors say it.

        Example:
            >>> shape(Increasing[Count]).words
            'whole numbers, two or more and increasing, each at least 1'
            >>> shape(ImageSet).words[:20]
            'one of digits, mnist'
        """
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        kinds = _MANY if self.several else _ONE
        conditions = [domain.words for domain in self.whole]
        conditions += [f"each {domain.words}" for domain in self.each]
        return ", ".join([kinds[self.kind], *conditions])


_ONE = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text"}
_MANY = {int: "whole numbers", float: "finite numbers", bool: "true or false each", str: "texts"}


@cache
def shape(hint: Any) -> Shape:
    """Take the type of a field apart.

    Args:
        hint: `int`, `Count`, `Several[Positive]`, `Literal["a", "b"]`, ...

    Raises:
        TypeError: No field can have it.
    """
    base, domains = _without_domains(hint)
    if typing.get_origin(base) is Literal:
        choices = typing.get_args(base)
        if all(isinstance(choice, str) for choice in choices):
            return Shape(str, False, choices, domains, ())
    if base in _ONE:
        return Shape(base, False, (), domains, ())
    if typing.get_origin(base) is tuple and typing.get_args(base)[1:] == (...,):
        kind, each = _without_domains(typing.get_args(base)[0])
        if kind in (int, float):
            return Shape(kind, True, (), domains, each)
    raise TypeError(f"a field must be a number, a text, a choice or several numbers, got {hint}.")


def _without_domains(hint: Any) -> tuple[Any, tuple[Domain, ...]]:
    """A type without its conditions, and these."""
    if typing.get_origin(hint) is not Annotated:
        return hint, ()
    base, *notes = typing.get_args(hint)
    return base, tuple(note for note in notes if isinstance(note, Domain))


def fitted(name: str, hint: Any, value: Any) -> Any:
    """Give a value the type of its field: a list is a tuple, 1 is 1.0 where a float is meant.

    Args:
        name: The field's, for the error.
        hint: Its type.
        value: What it was given.

    Raises:
        ValueError: It is outside the field's domain; says what must hold and what came.

    Example:
        >>> fitted("ratios", Several[Positive], [1, 3])
        (1.0, 3.0)
        >>> fitted("width", Count, 0)
        Traceback (most recent call last):
        ValueError: width must be a whole number, at least 1, got 0.
    """
    expected = shape(hint)
    entries = value if isinstance(value, list | tuple) else [value]
    if expected.kind is int and any(type(each) is int and abs(each) > LARGEST for each in entries):
        raise ValueError(f"{name} must be below 2³¹ in size, got {_shown(value)}.")
    if expected.several:
        entries = tuple(value) if isinstance(value, list | tuple) else None
        valid = entries is not None and len(entries) <= MOST
        made: Any = tuple(_one(expected.kind, entry) for entry in entries or ()) if valid else None
        valid = valid and None not in made
    else:
        made = _one(expected.kind, value)
        valid = made is not None and (not expected.choices or made in expected.choices)
    if not valid or not _holds(expected, made):
        raise ValueError(f"{name} must be {expected.words}, got {_shown(value)}.")
    return made


def _one(kind: type, value: Any) -> Any:
    """One entry as its kind has it, or None if it is none."""
    if kind is float and type(value) is int and abs(value) <= 2**53:
        value = float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        return None
    return value


def _holds(expected: Shape, value: Any) -> bool:
    entries = value if expected.several else ()
    return all(domain.holds(value) for domain in expected.whole) and all(
        domain.holds(entry) for domain in expected.each for entry in entries
    )


def _shown(value: Any) -> str:
    """A value on one short line."""
    if isinstance(value, str):
        value = " ".join(value.split())
    text = " ".join(repr(value).split()) if not isinstance(value, float) else str(value)
    return text if len(text) <= 80 else text[:79] + "…"


@dataclass(frozen=True)
class Checked:
    """Settings whose fields are held to their types when they are made."""

    def __post_init__(self) -> None:
        for name, hint in hints(type(self)).items():
            object.__setattr__(self, name, fitted(name, hint, getattr(self, name)))


@dataclass(frozen=True)
class Seeded(Checked):
    """Settings of an experiment that repeats itself with other random seeds."""

    num_seeds: Count = 10  # independent repetitions
    seed: Seed = 0  # of all randomness


@cache
def hints(config: type) -> dict[str, Any]:
    """The types of a config's fields, with their domains.

    Example:
        >>> list(hints(Seeded))
        ['num_seeds', 'seed']
    """
    known = typing.get_type_hints(config, include_extras=True)
    return {field.name: known[field.name] for field in dataclasses.fields(config)}


__all__ = [
    "AboveOne",
    "Checked",
    "Classes",
    "Count",
    "Domain",
    "Fraction",
    "ImageNetwork",
    "ImageSet",
    "Increasing",
    "NonNegative",
    "Odd",
    "OpenFraction",
    "Plural",
    "Positive",
    "Real",
    "Seed",
    "Seeded",
    "Several",
    "SeveralClasses",
    "TaskData",
    "Whole",
    "within",
]
