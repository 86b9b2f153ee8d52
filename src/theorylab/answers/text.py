"""Answers as a person reads them: a number with its error, an array by its shape and range.

    0.1235                            four digits of a number
    2.56 ± 2e-6                       a number to the place of its error
    [3 ± 2e-7, 1 ± 1e-7]              a short array
    float32[100, 3] in [-0.9, 2.1]    any other one

Errors are rounded up, to one digit, or to two if the first is a 1: a bound that is shown holds.
Nothing here needs the entries of an array that has none, as while JAX traces a function.
"""

import html
import math
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from .digits import DIGITS, number
from .entries import entries, is_array

SHORT = 6  # entries of an array that are written one by one
MANY = 2**24  # entries of an array of which not even the range is looked for
LONGEST = 60  # letters of a value that is neither a number nor an array


def with_error(value: float, error: float) -> str:
    """Write a number to the last place of its error.

    Example:
        >>> with_error(2.5600004, 2e-6), with_error(123.456, 1.32), with_error(0.3, 2.0)
        ('2.56 ± 2e-6', '123.5 ± 1.4', '0.3 ± 2')
        >>> with_error(2.5, math.inf), with_error(-1e-9, 3e-11), with_error(0.1, 0.0)
        ('2.5 ± ∞', '-1e-9 ± 3e-11', '0.1 ± 0')
    """
    if not (math.isfinite(value) and math.isfinite(error)) or error <= 0:
        return f"{number(value, 15 if error == 0 else DIGITS)} ± {number(error)}"
    place = math.floor(math.log10(error))
    if error < 2 * 10.0**place:
        place -= 1
    steps = math.ceil(error / 10.0**place - 1e-6)  # not one step more for what rounding adds
    rounded = float(f"{steps}e{place}")
    first = math.floor(math.log10(abs(value))) if value else place
    digits = min(15, max(1, first - place + 1))
    return f"{number(value, digits)} ± {number(rounded, 2)}"


def described(value: Any, error: Any = None, short: int = SHORT) -> str:
    """Write the value of a field, with its error if it has one.

    Args:
        value: A number, a word, an array, a record, or a tree of them.
        error: An array of the same shape, or None.
        short: How many entries of an array are written one by one.

    Example:
        >>> described(np.array([3.0, 1.0]), np.array([2e-7, 1e-7]))
        '[3 ± 2e-7, 1 ± 1e-7]'
        >>> described(np.arange(100.0)), described("NTK"), described(0.1)
        ('float64[100] in [0, 99]', "'NTK'", '0.1')
    """
    if hasattr(value, "_repr_html_"):  # an answer inside of an answer
        return repr(value)
    if is_dataclass(value) or value is None or isinstance(value, bool | int):
        return _cut(repr(value))
    if isinstance(value, float):
        return number(value, 6) if error is None else with_error(value, float(error))
    if not is_array(value):
        return _cut(repr(value)) if isinstance(value, str) else _tree(value)
    return _array(value, error, short)


def as_text(name: str, fields: Mapping[str, Any], errors: Mapping[str, str]) -> str:
    """A record on one line.

    Example:
        >>> as_text("Norm", {"value": 2.5600004, "error": 2e-6}, {"value": "error"})
        'Norm(value=2.56 ± 2e-6)'
    """
    told = (f"{field}={described(value, error)}" for field, value, error in _told(fields, errors))
    return f"{name}({', '.join(told)})"


def as_html(name: str, fields: Mapping[str, Any], errors: Mapping[str, str]) -> str:
    """A record as a table in HTML; it has no colours of its own, so that it suits every page.

    Example:
        >>> "<td>2.56 ± 2e-6</td>" in as_html("A", {"b": 2.56, "c": 2e-6}, {"b": "c"})
        True
    """
    rows = "".join(
        f'<tr><th scope="row">{html.escape(field)}</th>'
        f"<td>{html.escape(described(value, error, short=20))}</td></tr>"
        for field, value, error in _told(fields, errors)
    )
    style = "color: inherit; background: transparent; text-align: left"
    return f'<table style="{style}"><caption>{html.escape(name)}</caption>{rows}</table>'


def _told(fields: Mapping[str, Any], errors: Mapping[str, str]) -> Iterator[tuple[str, Any, Any]]:
    """Every field with its error; an error stands beside what it is the error of, if it fits."""
    fitting = {
        field: error
        for field, error in errors.items()
        if field in fields and fields.get(error) is not None
        if np.shape(fields[error]) == np.shape(fields[field])
    }
    for field, value in fields.items():
        if field not in fitting.values():
            yield field, value, fields[fitting[field]] if field in fitting else None


def _array(value: Any, error: Any, short: int) -> str:
    shape = ", ".join(map(str, value.shape))
    kind = f"{value.dtype}[{shape}]" if value.shape else f"{value.dtype}"
    values = entries(value) if math.prod(value.shape) <= MANY else None
    if values is None or values.size == 0:
        return kind
    errors = entries(error) if error is not None else None
    if values.ndim == 0 or (values.ndim == 1 and values.size <= short):
        margins = [None] * values.size if errors is None else np.ravel(errors)
        texts = list(map(_entry, np.ravel(values), margins))
        return f"[{', '.join(texts)}]" if values.ndim else texts[0]
    margin = f" ± at most {number(_up(errors), 2)}" if errors is not None else ""
    return f"{kind}{_range(values)}{margin}"


def _entry(value: Any, error: Any) -> str:
    """One entry of an array."""
    if isinstance(value, np.floating):
        return number(float(value), 6) if error is None else with_error(float(value), float(error))
    return str(value)


def _range(values: np.ndarray) -> str:
    """Between which numbers the entries are."""
    if values.dtype.kind == "b":
        return f", {np.count_nonzero(values)} true"
    if values.dtype.kind not in "iuf":
        return ""
    finite = values[np.isfinite(values)]
    lost = f", {values.size - finite.size} not finite" if finite.size < values.size else ""
    if finite.size == 0:
        return lost
    low, high = number(float(finite.min()), 3), number(float(finite.max()), 3)
    return f" in [{low}, {high}]{lost}"


def _up(errors: np.ndarray) -> float:
    """The largest error, rounded up to two digits."""
    most = float(errors.max())
    if not 0 < most < math.inf:
        return most
    place = math.floor(math.log10(most)) - 1
    return float(f"{math.ceil(most / 10.0**place - 1e-6)}e{place}")


def _tree(value: Any) -> str:
    """A tree of arrays by its size; anything else by its own words."""
    import jax  # loaded already, by whoever made the record

    leaves = jax.tree.leaves(value)
    if not leaves or not all(hasattr(leaf, "shape") for leaf in leaves):
        return _cut(repr(value))
    arrays = "array" if len(leaves) == 1 else "arrays"
    entries = sum(math.prod(leaf.shape) for leaf in leaves)
    return f"{type(value).__name__} of {len(leaves)} {arrays} with {entries:,} entries"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
