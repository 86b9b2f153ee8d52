"""The plan of a sweep: an experiment, a preset, fixed values, axes and seeds ─► a set of keys.

    Plan(asked, settings)     settings: key ─► Request, duplicates merged, in the order of the axes

Nothing is imported to plan: keys and domains are read off the files. What was asked is JSON, so
that the store remembers a sweep by its name:

    <root>/.sweeps/<name>.json
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from theorylab.answers.reading import UNREADABLE, read_capped, read_json
from theorylab.experiments.entry import Literals
from theorylab.experiments.tree import Tree
from theorylab.lab.failure import Refused, one_line
from theorylab.lab.key import code, key_of
from theorylab.lab.outcome_files import to_json
from theorylab.lab.requests import Found, Notice, Request, find, nearest, python_value, request
from theorylab.lab.store import Store
from theorylab.lab.writing import write_whole

from .axes import MOST_VALUES, Axis, axis, listed_values, points
from .names import FOLDER, checked_name, names

FORMAT = 1
SEED = "seed"
_MOST = 2**26  # bytes of a remembered plan


@dataclass(frozen=True)
class Asked:
    """What a sweep was asked for, as JSON has it."""

    experiment: str  # its name, or the path of a file of the user's
    preset: str
    fixed: dict[str, Any]  # fields ─► the value of all settings
    over: dict[str, Any]  # fields ─► how they vary: a text, or a list of values
    seeds: int | None  # how many, from the fixed one on; None leaves the seed alone
    draw: int = 0  # the seed of what is drawn at random


@dataclass(frozen=True)
class Plan:
    """A sweep: what was asked for, and the settings that are meant, by their keys."""

    asked: Asked
    found: Found
    swept: tuple[str, ...]  # the fields that vary
    settings: dict[str, Request]

    @property
    def name(self) -> str:
        """A name made of what was asked for: the same request has the same name."""
        text = json.dumps(asdict(self.asked), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{self.found.entry.name.replace('/', '-')}-{digest}"

    def __len__(self) -> int:
        return len(self.settings)


def plan(tree: Tree, asked: Asked, notice: Notice) -> Plan:
    """Make the plan of a sweep.

    Raises:
        Refused: The experiment, the preset, a field, an axis or a value is not what it must be.
    """
    found = find(tree, asked.experiment, notice)
    entry = found.entry
    base = request(found, asked.preset, {name: _tupled(v) for name, v in asked.fixed.items()})
    fields = {field.name: field for field in entry.fields}
    request(found, asked.preset, dict.fromkeys(asked.over, None), lambda field, _: field.default)
    if twice := sorted(asked.fixed.keys() & asked.over.keys()):
        flag = fields[twice[0]].flag
        raise Refused(f"{flag} must be fixed or varied, got both.")
    axes = [axis(fields[name], given, python_value) for name, given in asked.over.items()]
    if asked.seeds is not None:
        axes.append(_seeds(base, asked))
    if not axes:
        raise Refused("a sweep needs a field that varies, or seeds, got neither.")
    code_now, settings = code(entry, found.module), {}
    for point in points(axes, asked.draw):
        values: dict[str, Literals] = {
            name: python_value(fields[name], value) for name, value in point.items()
        }
        each = Request(found, asked.preset, {**base.values, **values})
        settings.setdefault(key_of(code_now, each.config), each)
    return Plan(asked, found, tuple(each.field.name for each in axes), settings)


def fixed_values(found: Found, preset: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that all settings have, as JSON has them.

    Raises:
        Refused: There is no such preset or field, or a value is outside its domain.
    """
    made = request(found, preset, fields)
    return {name: made.config[name] for name in fields}


def jsonable(over: Mapping[str, Any]) -> dict[str, Any]:
    """Axes as Python users write them, as JSON has them: texts, or lists of values.

    Example:
        >>> jsonable({"width": range(2), "ratio": "1:5:1", "rate": 0.1})
        {'width': [0, 1], 'ratio': '1:5:1', 'rate': [0.1]}
    """
    if not isinstance(over, Mapping):
        raise Refused(f"over must map fields to their values, got {one_line(repr(over), 80)}.")
    return {name: axis if isinstance(axis, str) else _values(axis) for name, axis in over.items()}


def _values(axis: Any) -> list[Any]:
    """The values of an axis as JSON has them; what it has not is refused as the field has it."""
    listed = [
        value.tolist() if hasattr(value, "tolist") else value for value in listed_values(axis)
    ]
    return [list(value) if isinstance(value, tuple) else value for value in listed]


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _seeds(base: Request, asked: Asked) -> Axis:
    """The axis of seeds: so many, from the one that all settings have on."""
    field = next((field for field in base.entry.fields if field.name == SEED), None)
    if field is None:
        raise Refused(f"{base.entry.name} has no seed, so it has no seeds to vary.")
    if SEED in asked.over:
        raise Refused("--seed must be varied by --over or by --seeds, got both.")
    number = asked.seeds
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST_VALUES:
        raise Refused(f"seeds must be a whole number from 1 to {MOST_VALUES}, got {number!r}.")
    first = base.values[SEED]
    assert isinstance(first, int)
    return axis(field, range(first, first + number), python_value)


def remember(store: Store, plan: Plan, name: str) -> Path:
    """Keep a sweep under a name, with its keys.

    Raises:
        Refused: The name is none that a file can have.
    """
    folder = store.root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{checked_name(name)}.json"
    kept = {
        "format": FORMAT,
        "asked": asdict(plan.asked),
        "experiment": plan.found.entry.name,
        "swept": list(plan.swept),
        "keys": list(plan.settings),
    }
    write_whole(path, to_json(kept).encode())
    return path


@dataclass(frozen=True)
class Remembered:
    """A sweep that the store remembers."""

    name: str
    asked: Asked
    experiment: str
    swept: tuple[str, ...]
    keys: tuple[str, ...]


def recall(store: Store, name: str) -> Remembered:
    """Read a sweep that was remembered.

    Raises:
        Refused: There is none of this name, or it cannot be read.
    """
    path = store.root / FOLDER / f"{checked_name(name)}.json"
    if not path.exists():
        known = names(store.root)
        offer = nearest(name, known) or (f" It has {', '.join(known[:5])}." if known else "")
        raise Refused(f"the store has no sweep {name!r}.{offer}")
    try:
        kept = read_json(read_capped(path, _MOST))
        if kept["format"] != FORMAT:
            raise ValueError(f"its format is {kept['format']!r}")
        asked = Asked(**kept["asked"])
        keys, swept = _texts(kept["keys"]), _texts(kept["swept"])
        if not all(re.fullmatch("[0-9a-f]+", key) for key in keys):
            raise ValueError("its keys are none")
        experiment = kept["experiment"]
        if not re.fullmatch(r"\w[\w-]*(/\w[\w-]*)*", experiment):
            raise ValueError(f"its experiment is {experiment!r}")
        _check(asked)
    except UNREADABLE as error:
        raise Refused(f"the sweep {name!r} cannot be read ({error}).") from None
    return Remembered(name, asked, experiment, swept, keys)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise TypeError("a list of texts is none")
    return tuple(value)


def _check(asked: Asked) -> None:
    """What anybody may have written has the types that it must have."""
    kinds = {"experiment": str, "preset": str, "fixed": Mapping, "over": Mapping, "draw": int}
    for name, kind in kinds.items():
        if not isinstance(getattr(asked, name), kind):
            raise TypeError(f"{name} is no {kind.__name__}")
    if not isinstance(asked.seeds, int | None):
        raise TypeError("seeds is no number")
