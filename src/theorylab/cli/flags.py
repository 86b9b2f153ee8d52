"""From text to the values of a config: what `--field value` means, checked without JAX."""

from theorylab.experiments.entry import Field, Literals
from theorylab.fields import fitted

from .usage import Usage

_TRUTH = {"true": True, "false": False}


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
