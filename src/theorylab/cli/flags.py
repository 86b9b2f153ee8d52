"""From text to the values of a config: what `--field value` means, checked without JAX."""

import sys
from collections.abc import Mapping

from theorylab.experiments.entry import Entry, Field, Literals
from theorylab.experiments.tree import Tree
from theorylab.fields import fitted

from .usage import Usage, nearest

MOST_OFFERS = 5  # names in an error
_TRUTH = {"true": True, "false": False}


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

    Raises:
        Usage: It is outside the field's domain; says what must hold and what came.

    Example:
        >>> from theorylab.fields import Positive, Several
        >>> value_of(Field("ratios", Several[Positive], (1.0,)), "1,3.5")
        (1.0, 3.5)
    """
    kind = field.shape.kind
    parts = _parts(text) if field.shape.several else [text]
    entries = [_entry(kind, part) for part in parts]
    try:
        return fitted(field.flag, field.hint, entries if field.shape.several else entries[0])
    except ValueError as error:
        hint = " Commas separate them." if field.shape.several else ""
        raise Usage(f"{error}{hint}") from None


def _entry(kind: type, text: str) -> Literals:
    """One entry as its kind has it; text that is none stays as it is, and is refused later."""
    if kind is bool:
        return _TRUTH.get(text.lower(), text)
    if kind is str:
        return text
    try:
        return kind(text)
    except ValueError:
        return text


def _parts(text: str) -> list[str]:
    """The elements of a tuple; a trailing comma and brackets as Python writes them are fine."""
    if text.strip() in ("()", "[]"):
        return []
    return [part.strip() for part in text.strip("()[] ").rstrip(",").split(",")]
