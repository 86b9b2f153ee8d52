"""What an experiment says of itself: title, formula, fields, presets and claims.

`reader` fills these records from the experiment's file, without importing it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from theorylab.fields import Shape, shape

Literals = bool | int | float | str | tuple[int, ...] | tuple[float, ...]
Config = Mapping[str, Literals]

State = tuple[int, int, int, int]  # of a file: when it was changed, which one it is, its size

PRESETS = ("smoke", "default", "paper")
KINDS = ("claim", "control", "printed", "corrected", "found", "check")  # of a claim
ROOT = "experiments"  # the name of a tree's folder
# What the command line and `theorylab.run` take besides fields.
RESERVED = ("preset", "out", "json", "force", "help", "store", "progress")


@dataclass(frozen=True)
class Place:
    """A `Source`, read: a document, a system that it describes, and the place in the document."""

    key: str
    system: str
    place: str

    def __str__(self) -> str:
        return f"{self.key} · {self.system} · {self.place}"


@dataclass(frozen=True)
class Statement:
    """A `Claim`, read: everything but its judge."""

    statement: str
    source: Place
    kind: str = "claim"
    formula: str = ""
    quote: str = ""
    regime: str = ""
    expected: str = ""
    why: str = ""
    demand: str = ""


@dataclass(frozen=True)
class Field:
    """A field of `Config`, which is a flag of the command line."""

    name: str
    hint: Any = field(repr=False)  # its type, of `theorylab.fields`
    default: Literals
    help: str = ""  # the comment beside it

    @cached_property
    def shape(self) -> Shape:
        """Its type, taken apart."""
        return shape(self.hint)

    @property
    def type(self) -> str:
        """What Python calls it: "int", "tuple[float, ...]" or "Literal['a', 'b']"."""
        if self.choices:
            return f"Literal[{', '.join(map(repr, self.choices))}]"
        name = self.shape.kind.__name__
        return f"tuple[{name}, ...]" if self.shape.several else name

    @property
    def domain(self) -> str:
        """What a value must be, in words."""
        return self.shape.words

    @property
    def choices(self) -> tuple[str, ...]:
        """What a `Literal` allows; empty for every other type."""
        return self.shape.choices

    @property
    def flag(self) -> str:
        """How it is written on the command line: num_seeds is `--num-seeds`."""
        return "--" + self.name.replace("_", "-")


@dataclass(frozen=True)
class Outline:
    """What lists tell of one experiment."""

    name: str  # "dynamics/catapult"
    title: str
    description: str
    claims: tuple[Statement, ...]

    @property
    def concept(self) -> str:
        """The folder it lives in."""
        return self.name.partition("/")[0]

    @property
    def keys(self) -> tuple[str, ...]:
        """The documents its claims come from."""
        return tuple(sorted({claim.source.key for claim in self.claims}))


@dataclass(frozen=True)
class Entry(Outline):
    """One experiment, read."""

    path: Path
    precision: str
    formula: str
    summary: str  # the docstring of Config: what is run
    fields: tuple[Field, ...]
    presets: Mapping[str, Config]  # every field of every preset, "default" among them
    sources: Mapping[str, str] = field(default_factory=dict)  # author and title, of its own ones
    files: Mapping[Path, State] = field(default_factory=dict)  # all that was read for it
    batched: tuple[str, ...] = ()  # fields on which no compiled program depends


def name_of(path: Path) -> str:
    """An experiment's name is its path below its tree, the nearest folder named `experiments`.

    Example:
        >>> name_of(Path("lab/experiments/features/agop/sgd.py"))
        'features/agop/sgd'
        >>> name_of(Path("elsewhere/mine.py"))  # in no tree
        'mine'
    """
    folders = path.parts[:-1]
    if ROOT not in folders:
        return path.stem
    below = len(folders) - folders[::-1].index(ROOT)
    return "/".join((*folders[below:], path.stem))
