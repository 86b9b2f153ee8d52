"""From text to the values of a config: what `--field value` means, checked without JAX."""

import math
import sys
from collections.abc import Mapping

from theorylab.experiments.entry import Entry, Field, Literals
from theorylab.experiments.tree import Tree

from .usage import Usage, nearest

MOST_OFFERS = 5  # names in an error
_TRUTH = {"true": True, "false": False}
_LARGEST = 2**63  # what an array of whole numbers can hold


def find(tree: Tree, name: str) -> Entry:
    """Read the experiment of that name; of an old name, say the new one."""
    name = name.removesuffix(".py").strip("/")
    if name in tree.renames:
        print(f"theorylab: {name} is now {tree.renames[name]}.", file=sys.stderr)
        name = tree.renames[name]
    names = tree.names()
    if name in names:
        return tree.entry(name)
    inside = [each for each in names if each.startswith(f"{name}/")]
    offer = (
        f" Did you mean {' or '.join(inside[:MOST_OFFERS])}?" if inside else nearest(name, names)
    )
    if len(inside) > MOST_OFFERS:
        offer += f" theorylab list --concept {name} shows all {len(inside)}."
    raise Usage(f"there is no experiment {name!r}.{offer or ' theorylab list shows them all.'}")


def configured(entry: Entry, preset: str, texts: Mapping[str, str]) -> dict[str, Literals]:
    """Every field of a config: those of the preset, and what the user changed.

    Args:
        entry: The experiment, read.
        preset: The name of the preset to start from.
        texts: The fields that the user set, as text.
    """
    if preset not in entry.presets:
        known = ", ".join(entry.presets)
        raise Usage(f"the preset of {entry.name} must be one of {known}, got {preset!r}.")
    fields = {field.name: field for field in entry.fields}
    for name in texts:
        if name not in fields:
            flags = [field.flag for field in entry.fields]
            wrong = "--" + name.replace("_", "-")
            offer = nearest(wrong, flags) or f" It has {', '.join(flags)}."
            raise Usage(f"{entry.name} has no field {wrong}.{offer}")
    changes = {name: value_of(fields[name], text) for name, text in texts.items()}
    return {**entry.presets[preset], **changes}


def value_of(field: Field, text: str) -> Literals:
    """Read the value of a field.

    Example:
        >>> value_of(Field("ratios", "tuple[float, ...]", (1.0,), ""), "1,3.5")
        (1.0, 3.5)
    """
    match field.type:
        case "int":
            return _whole(field, text)
        case "float":
            return _finite(field, text)
        case "bool":
            if text.lower() not in _TRUTH:
                raise Usage(f"{field.flag} must be true or false, got {text!r}.")
            return _TRUTH[text.lower()]
        case "str":
            return text
        case "tuple[int, ...]":
            return tuple(_whole(field, part) for part in _parts(text))
        case "tuple[float, ...]":
            return tuple(_finite(field, part) for part in _parts(text))
    if text not in field.choices:
        raise Usage(f"{field.flag} must be one of {', '.join(field.choices)}, got {text!r}.")
    return text


def _whole(field: Field, text: str) -> int:
    numbers = "whole numbers separated by commas" if "tuple" in field.type else "a whole number"
    try:
        value = int(text)
    except ValueError:
        raise Usage(f"{field.flag} must be {numbers}, got {text!r}.") from None
    if abs(value) >= _LARGEST:
        raise Usage(f"{field.flag} must be smaller than 2⁶³ in size, got {text}.")
    return value


def _finite(field: Field, text: str) -> float:
    numbers = "numbers separated by commas" if "tuple" in field.type else "a number"
    try:
        value = float(text)
    except ValueError:
        raise Usage(f"{field.flag} must be {numbers}, got {text!r}.") from None
    if not math.isfinite(value):
        raise Usage(f"{field.flag} must be finite, got {text}.")
    return value


def _parts(text: str) -> list[str]:
    """The elements of a tuple; a trailing comma and brackets as Python writes them are fine."""
    if text.strip() in ("()", "[]"):
        return []
    return [part.strip() for part in text.strip("()[] ").rstrip(",").split(",")]
