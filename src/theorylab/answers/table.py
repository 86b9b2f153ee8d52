"""Answers as tables: one row for each entry of the first array.

    values (k,), residuals (k,), vectors (k, p) ─► rank, values, residuals

Columns are the numbers of an entry along every axis, counted from 0, then the arrays of the same
shape, then what holds for all entries: scalars and words. Arrays of other shapes are left out.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from theorylab.typing import DataFrame

from .entries import entries, is_array, leaves

_USUAL = {1: ("index",), 2: ("row", "column")}


def axis_names(num_axes: int, axes: tuple[str, ...]) -> tuple[str, ...]:
    """What axes are called: the last ones as the class has it; those before are of a batch.

    Example:
        >>> axis_names(1, ("rank",)), axis_names(2, ("rank",)), axis_names(2, ())
        (('rank',), ('batch', 'rank'), ('row', 'column'))
    """
    own = axes if axes else _USUAL.get(num_axes, ())
    before = num_axes - len(own)
    if before <= 1:
        return ("batch",)[:before] + own if before >= 0 else own[-num_axes:] if num_axes else ()
    return (*(f"batch {number}" for number in range(before)), *own)


def columns(fields: Mapping[str, Any], axes: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """The columns of the table, as arrays of one length.

    Args:
        fields: The values of a record by name.
        axes: What the last axes of the first array are called.

    Example:
        >>> table = columns({"values": np.array([3.0, 1.0]), "steps": 20}, ("rank",))
        >>> {key: column.tolist() for key, column in table.items()}
        {'rank': [0, 1], 'values': [3.0, 1.0], 'steps': [20, 20]}
    """
    flat = leaves(fields)
    shape = next((tuple(value.shape) for value in flat.values() if is_array(value)), ())
    places = np.indices(shape).reshape(len(shape), math.prod(shape))
    table = dict(zip(axis_names(len(shape), axes), places, strict=True))
    for name, value in flat.items():
        column = _column(name, value, shape)
        if column is not None:
            table[name] = column
    return table


def as_frame(fields: Mapping[str, Any], axes: tuple[str, ...] = ()) -> DataFrame:
    """The table as a data frame of pandas.

    Raises:
        ModuleNotFoundError: pandas is not installed.

    Example:
        >>> as_frame({"values": np.array([3.0, 1.0])}, ("rank",)).columns.tolist()
        ['rank', 'values']
    """
    try:
        import pandas
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "to_pandas needs pandas, which is not installed: pip install pandas"
        ) from None
    return pandas.DataFrame(columns(fields, axes))


def _column(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """A column of the table, or None for an array that has another shape."""
    if is_array(value) and value.shape not in (shape, ()):
        return None
    if isinstance(value, str | bool | int | float):
        return np.repeat(np.asarray(value), math.prod(shape))
    found = entries(value)
    if found is None:
        if is_array(value):
            raise ValueError(f"{name} must have entries to be tabulated, got {value}.")
        return None
    return np.ravel(found) if found.shape == shape else np.repeat(found, math.prod(shape))
