"""What is to be run: an experiment and the value of every field, checked without importing it.

    "dynamics/catapult", or a file of the user's own ─► Entry ─► Request

What is wrong is `Refused` before any work is done, in the same words in the shell and in Python.
"""

import difflib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from theorylab.experiments.entry import Entry, Field, Literals
from theorylab.experiments.reader import read
from theorylab.experiments.tree import Tree
from theorylab.fields import fitted

from .failure import Refused, one_line

Value = (
    bool | int | float | str | list[int] | list[float]
)  # of one field of a config, as JSON has it

OWN = "own"  # what the names of experiments outside the tree begin with
MOST_OFFERS = 5  # names in an error

Notice = Callable[[str], None]  # hears one line about something the user should know
Reading = Callable[[Field, Any], Literals]  # from what the user gave to the value of a field


class _Uncompiled(importlib.machinery.SourceFileLoader):
    """Reads a module from its source alone.

    Kept bytecode counts as current if second and size are the same, so that a file that was
    changed twice in one second could be run as it was.
    """

    def path_stats(self, path: str) -> Any:
        """Say nothing of the file's age: then no bytecode is looked for, and none is written."""
        raise OSError(f"{path} is read anew")


def fresh_module(name: str, path: Path) -> ModuleType:
    """Run a file of the user's as a module, from its source as it is now.

    Args:
        name: The name of the module.
        path: The file.
    """
    loader = _Uncompiled(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Found:
    """An experiment that was found, not imported yet."""

    entry: Entry
    module: str  # the name under which it is imported
    own: bool = False  # whether it is a file of the user's, in no tree

    def load(self) -> ModuleType:
        """Import it, and JAX with it; a file of the user's is read anew each time."""
        if not self.own:
            return importlib.import_module(self.module)
        return fresh_module(self.module, self.entry.path)


@dataclass(frozen=True)
class Request:
    """One experiment with one config."""

    found: Found
    preset: str
    values: dict[str, Literals]  # every field

    @property
    def entry(self) -> Entry:
        """The experiment, read."""
        return self.found.entry

    @property
    def is_preset(self) -> bool:
        """Whether the user changed nothing."""
        return self.values == self.entry.presets[self.preset]

    @property
    def config(self) -> dict[str, Value]:
        """Every field as JSON has it: a tuple is a list."""
        return as_json(self.values)


def find(tree: Tree, name: str | Path, notice: Notice) -> Found:
    """Find an experiment: by its name in the tree, by an old name, or in a file of the user's.

    Args:
        tree: The experiments.
        name: "dynamics/catapult", or the path of a file that ends in .py.
        notice: Hears the new name, if the name is an old one.

    Raises:
        Refused: There is none, with the nearest names; or the file is not named as it must be.
        TreeError: It cannot be read.
    """
    path = Path(name).expanduser()
    if path.suffix == ".py" and path.is_file():
        path, root = path.resolve(), tree.root.resolve()
        if not path.is_relative_to(root):
            return _own(path)
        name = path.relative_to(root).as_posix()
    elif isinstance(name, Path):
        raise Refused(f"there is no file {one_line(name)}.")
    name = str(name).removesuffix(".py").strip("/")
    if name in tree.renames:
        notice(f"{name} is now {tree.renames[name]}.")
        name = tree.renames[name]
    names = tree.names()
    if name in names:
        return Found(tree.entry(name), tree.module(name))
    inside = [each for each in names if each.startswith(f"{name}/")]
    offer = (
        f" Did you mean {' or '.join(inside[:MOST_OFFERS])}?" if inside else nearest(name, names)
    )
    if len(inside) > MOST_OFFERS:
        offer += f" theorylab list --concept {name} shows all {len(inside)}."
    raise Refused(f"there is no experiment {name!r}.{offer or ' theorylab list shows them all.'}")


def request(
    found: Found, preset: str, changes: Mapping[str, Any], reading: Reading | None = None
) -> Request:
    """Take a preset and change some of its fields.

    Args:
        found: The experiment.
        preset: The name of the preset to start from.
        changes: The fields that the user set.
        reading: Makes a field's value of what the user gave; Python's own values unless told.

    Raises:
        Refused: There is no such preset or field, or a value is outside its domain.
    """
    entry = found.entry
    if preset not in entry.presets:
        known = ", ".join(entry.presets)
        raise Refused(f"the preset of {entry.name} must be one of {known}, got {preset!r}.")
    fields = {field.name: field for field in entry.fields}
    for name in changes:
        if name not in fields:
            flags = [field.flag for field in entry.fields]
            wrong = "--" + name.replace("_", "-")
            offer = nearest(wrong, flags) or f" It has {', '.join(flags)}."
            raise Refused(f"{entry.name} has no field {wrong}.{offer}")
    read_value = reading or python_value
    values = {name: read_value(fields[name], value) for name, value in changes.items()}
    return Request(found, preset, {**entry.presets[preset], **values})


def python_value(field: Field, value: Any) -> Literals:
    """The value of a field as Python users write it: lists, ranges, arrays and single numbers too.

    Example:
        >>> from theorylab.fields import Positive, Several
        >>> ratios = Field("ratios", Several[Positive], (1.0,))
        >>> python_value(ratios, range(1, 3)), python_value(ratios, 3)
        ((1.0, 2.0), (3.0,))
    """
    if hasattr(value, "tolist"):  # an array, or a number of NumPy or JAX
        value = value.tolist()
    if isinstance(value, range):
        value = tuple(value)
    if field.shape.several and isinstance(value, int | float) and not isinstance(value, bool):
        value = (value,)
    try:
        return fitted(field.flag, field.hint, value)
    except ValueError as error:
        raise Refused(str(error)) from None


def as_json(values: Mapping[str, Any]) -> dict[str, Value]:
    """The fields of a config as JSON has them: a tuple is a list."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def nearest(word: str, words: Iterable[str]) -> str:
    """Offer the words that look like one that is wrong: " Did you mean ...?", or nothing.

    Example:
        >>> nearest("catapul", ["dynamics/catapult", "bias/diagonal_network"])
        ' Did you mean dynamics/catapult?'
        >>> nearest("sgd", ["features/agop/sgd", "features/agop/teacher"])
        ' Did you mean features/agop/sgd?'
        >>> nearest("zzz", ["width"])
        ''
    """
    # A name is recognised by its last parts too: catapult is dynamics/catapult.
    known: dict[str, list[str]] = {}
    for each in words:
        parts = each.split("/")
        for first in range(len(parts)):
            known.setdefault("/".join(parts[first:]), []).append(each)
    close = difflib.get_close_matches(word, known, n=6, cutoff=0.55)
    if word in known:  # said in short
        close = [word]
    offers = list(dict.fromkeys(each for part in close for each in known[part]))[:3]
    return f" Did you mean {' or '.join(offers)}?" if offers else ""


def _own(path: Path) -> Found:
    """A file of the user's: an experiment named `own/<stem>`."""
    if not path.stem.isidentifier():
        must = "letters, digits and _ before .py"
        raise Refused(f"the name of an experiment's file must be {must}, got {path.name!r}.")
    entry = replace(read(path), name=f"{OWN}/{path.stem}")
    return Found(entry, f"theorylab_own_{path.stem}", own=True)
