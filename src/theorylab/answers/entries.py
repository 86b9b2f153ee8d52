"""What is in the fields of an answer: the entries of arrays, and the names of leaves."""

from collections.abc import Iterator, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any

import numpy as np


def is_array(value: Any) -> bool:
    """Whether a value has a shape and a type, if perhaps no entries.

    Example:
        >>> is_array(np.ones(2)), is_array(1.0)
        (True, False)
    """
    return hasattr(value, "shape") and hasattr(value, "dtype")


def entries(value: Any) -> np.ndarray | None:
    """The entries on the host; None where there are none: of a tracer, a deleted array, or keys.

    Example:
        >>> entries(np.float32(2.0)), entries("word")
        (array(2., dtype=float32), None)
    """
    if isinstance(value, np.ndarray | np.generic | float | int):
        return np.asarray(value)
    import jax  # loaded already, by whoever made the array
    from jax.core import Tracer

    if not isinstance(value, jax.Array) or isinstance(value, Tracer):
        return None
    if value.is_deleted() or jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        return None
    found = np.asarray(value)
    return found.astype(np.float32) if found.dtype.kind == "V" else found  # such as bfloat16


def leaves(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Everything by one name; what is inside of a field is called "field.name".

    Example:
        >>> leaves({"steps": np.arange(2), "records": {"loss": 0.5}, "pair": (1, 2)})
        {'steps': array([0, 1]), 'records.loss': 0.5, 'pair.0': 1, 'pair.1': 2}
    """
    return dict(_named(fields, ""))


def _named(fields: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if is_array(value):
            yield f"{prefix}{name}", value
        elif (inner := _inside(value)) is not None:
            yield from _named(inner, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", value


def _inside(value: Any) -> Mapping[Any, Any] | None:
    """The parts of a record, dict, list or tuple by name; None of anything else."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclass_fields(value)}
    if isinstance(value, Mapping):
        return value
    return dict(enumerate(value)) if isinstance(value, list | tuple) else None
