"""Answers in files: an archive of arrays (npz), and what they are as a page of JSON. No pickle.

    answer.npz
        answer.json    the class, its fields, and the trees in them; arrays by name
        values.npy     …

`numpy.load(path)["values"]` reads an array without this library. What is loaded is checked first:
the size of the file before it is read, the sum of every part, the class (only an `Answer` of
theorylab), its fields, the sizes of all arrays. The same answer gives the same bytes.
"""

import dataclasses
import importlib
import io
import json
import math
import os
import re
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from theorylab.version import __version__

from .base import Answer, fields_of, made
from .entries import entries, is_array
from .reading import UNREADABLE, read_array, read_capped, read_json, read_members

FORMAT = "theorylab answer"
VERSION = 1
MAX_BYTES = 2**32
_PAGE = "answer.json"
_CLASS = re.compile(r"(theorylab(?:\.[a-z]\w*)+):([A-Z]\w*)")


def save(answer: Answer, path: Path) -> None:
    """Write an answer to a file, whole or not at all; `load` reads it.

    Args:
        answer: Of a class of theorylab, made of arrays, words, dicts, lists, tuples, answers.
        path: The file; one that is there already is replaced.

    Raises:
        ValueError: Something in it cannot be stored without pickle.
    """
    arrays: dict[str, np.ndarray] = {}
    page = {
        "format": FORMAT,
        "version": VERSION,
        "theorylab": __version__,
        "answer": _written(answer, "", arrays),
    }
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            _add(archive, _PAGE, json.dumps(page, indent=1, ensure_ascii=False).encode())
            for name, array in arrays.items():
                content = io.BytesIO()
                np.lib.format.write_array(content, array, allow_pickle=False)
                _add(archive, f"{name}.npy", content.getbuffer())
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.remove(draft)
        raise


def load(path: str | Path, max_bytes: int = MAX_BYTES) -> Any:
    """Read an answer that `Answer.save` wrote; it has the same class and the same numbers.

    Arrays keep their precision: float64 stays float64, even where JAX would make float32 of it.

    Args:
        path: The file.
        max_bytes: The size that a file may have.

    Raises:
        ValueError: The file is not one of an answer, or not whole, or too large.
        OSError: It cannot be opened.

    Example:
        >>> import tempfile
        >>> from theorylab.curvature import Sharpness
        >>> path = Path(tempfile.mkdtemp()) / "sharpness.npz"
        >>> Sharpness(jnp.asarray(2.56), jnp.asarray(2e-6), jnp.asarray(0.02)).save(path)
        >>> load(path)
        Sharpness(value=2.56 ± 0.02, residual=2e-6)
    """
    try:
        members = read_members(read_capped(Path(path), max_bytes))
        page = read_json(members.pop(_PAGE))
        if page["format"] != FORMAT or page["version"] != VERSION:
            raise ValueError(f"its format is {page['format']!r}, version {page['version']!r}")
        answer = _read(page["answer"], members)
        if not isinstance(answer, Answer):
            raise ValueError("it holds no answer")
    except OSError:
        raise
    except UNREADABLE as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else f"{error}"
        reason = " ".join(reason.split())[:200] or type(error).__name__
        must = "must be the whole file of an answer that theorylab saved"
        raise ValueError(f"{path} {must}: {reason}.") from None
    return answer


def _add(archive: zipfile.ZipFile, name: str, content: Any) -> None:
    """A part of the archive, as it is; the same whenever it is written."""
    archive.writestr(zipfile.ZipInfo(name), bytes(content))


def _written(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """A value as JSON; its arrays go aside."""
    inner = f"{name}." if name else ""
    if isinstance(value, Answer):
        words = f"{type(value).__module__}:{type(value).__name__}"
        if _class_of(words) is not type(value):
            raise ValueError(f"an answer must be of a class of theorylab to be saved, got {words}.")
        parts = fields_of(value).items()
        fields = {key: _written(each, f"{inner}{key}", arrays) for key, each in parts}
        return {"class": words, "fields": fields}
    if hasattr(value, "_asdict"):
        words = f"{type(value).__module__}:{type(value).__name__}"
        if _record_of(words) is not type(value):
            raise ValueError(f"{name} must be of a class of theorylab to be saved, got {words}.")
        parts = value._asdict().items()
        fields = {key: _written(each, f"{inner}{key}", arrays) for key, each in parts}
        return {"record": words, "fields": fields}
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) in (list, tuple):
        parts = [_written(each, f"{inner}{i}", arrays) for i, each in enumerate(value)]
        return {type(value).__name__: parts}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": {key: _written(v, f"{inner}{key}", arrays) for key, v in value.items()}}
    if is_array(value):
        return _array_written(value, name, arrays)
    raise ValueError(
        f"{name} must be made of arrays, numbers, words, dicts with words as keys, lists, tuples "
        f"and answers to be saved, got {type(value).__name__}."
    )


def _array_written(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    array = entries(value)
    if array is None or array.dtype.kind not in "biufcU":
        raise ValueError(f"{name} must have entries that are numbers or text, got {value.dtype}.")
    if array.dtype != value.dtype:  # bfloat16 and its kin, which NumPy does not write
        array = np.asarray(value).view(f"u{value.dtype.itemsize}")
    key = name if re.fullmatch(r"[\w.]{1,100}", name, re.ASCII) else f"array {len(arrays)}"
    key = f"array {len(arrays)}" if key in arrays or key.startswith(".") else key
    arrays[key] = array
    made_by = "jax" if isinstance(value, jax.Array) else "numpy"
    return {"array": key, "dtype": str(value.dtype), "by": made_by}


def _read(words: Any, members: dict[str, bytes]) -> Any:
    """The value that was written so."""
    if not isinstance(words, dict):
        return words
    match words:
        case {"class": str(name), "fields": dict(fields)}:
            return _answer(name, {key: _read(each, members) for key, each in fields.items()})
        case {"record": str(name), "fields": dict(fields)}:
            return _record(name, {key: _read(each, members) for key, each in fields.items()})
        case {"float": str(text)} if text in ("nan", "inf", "-inf"):
            return float(text)
        case {"list": list(parts)}:
            return [_read(part, members) for part in parts]
        case {"tuple": list(parts)}:
            return tuple(_read(part, members) for part in parts)
        case {"dict": dict(parts)}:
            return {key: _read(part, members) for key, part in parts.items()}
        case {"array": str(name), "dtype": str(dtype), "by": str(made_by)}:
            return _array_read(members[f"{name}.npy"], name, dtype, made_by)
    raise ValueError(f"it has a value of no known kind, {list(words)[:3]}")


def _array_read(content: bytes, name: str, dtype: str, made_by: str) -> Any:
    array = read_array(content)
    if str(array.dtype) != dtype:
        told = jnp.dtype(dtype)
        if told.kind != "V" or told.hasobject or array.dtype != np.dtype(f"u{told.itemsize}"):
            raise ValueError(f"{name} is of type {array.dtype}, and not {dtype}")
        array = array.view(told)
    if made_by != "jax":
        return array
    with jax.enable_x64(True):
        return jnp.asarray(array)


def _answer(words: str, values: dict[str, Any]) -> Answer:
    """An answer of a class of theorylab, with all its fields and no others."""
    cls = _class_of(words)
    if cls is None:
        raise ValueError(f"{words[:80]!r} is no class of answers of theorylab {__version__}")
    known = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    optional = {name for name, field in known.items() if field.default is not dataclasses.MISSING}
    if not known.keys() - optional <= values.keys() <= known.keys():
        raise ValueError(f"{cls.__name__} has the fields {list(known)}, got {list(values)[:20]}")
    return made(cls, {name: values.get(name, field.default) for name, field in known.items()})


def _record(words: str, values: dict[str, Any]) -> Any:
    """A named tuple inside of an answer, of a class of theorylab."""
    cls = _record_of(words)
    if cls is None or set(cls._fields) != values.keys():
        raise ValueError(f"{words[:80]!r} is no record of theorylab {__version__} with its fields")
    return cls(**values)


def _class_of(words: str) -> type[Answer] | None:
    """The class of answers of this name in a module of theorylab; None if there is none."""
    cls = _defined(words)
    return cls if cls is not None and issubclass(cls, Answer) and cls is not Answer else None


def _record_of(words: str) -> Any:
    """The class of named tuples of this name in a module of theorylab; None if there is none."""
    cls = _defined(words)
    return cls if cls is not None and issubclass(cls, tuple) and hasattr(cls, "_fields") else None


def _defined(words: str) -> type | None:
    """The class that a module of theorylab defines under this name; None if there is none."""
    found = _CLASS.fullmatch(words)
    if found is None:
        return None
    try:
        cls = getattr(importlib.import_module(found[1]), found[2], None)
    except ImportError:
        return None
    return cls if isinstance(cls, type) and cls.__module__ == found[1] else None
