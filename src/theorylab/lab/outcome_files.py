"""The files of one outcome: how they are made, and read back with suspicion.

config.json  findings.json  outcome.json    what a person reads
arrays.npz   figure.svg                     what was measured
manifest.json                               SHA-256 of all of these
"""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from theorylab.answers.reading import read_arrays, read_capped, read_json

from .failure import one_line
from .outcome import Outcome
from .outcome_json import outcome_json, outcome_of

# What an outcome consists of, and how many bytes of it are read at most.
WORDS = {"config.json": 2**20, "findings.json": 2**24, "outcome.json": 2**22}
READ_BY_PEOPLE = WORDS | {"figure.svg": 2**26}
FILES = READ_BY_PEOPLE | {"arrays.npz": 2**32}
MANIFEST = "manifest.json"
MOST_OF_MANIFEST = 2**16


def to_json(value: Any) -> str:
    """JSON for people: indented, letters as they are; non-finite numbers are refused."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def contents(outcome: Outcome) -> dict[str, bytes]:
    """The files of an outcome; the same outcome gives the same bytes."""
    words = outcome_json(outcome)
    arrays = io.BytesIO()
    np.savez(arrays, allow_pickle=False, **outcome.arrays)  # pyright: ignore[reportArgumentType]
    contents = {
        "config.json": to_json(words.pop("config")).encode(),
        "findings.json": to_json(words.pop("findings")).encode(),
        "outcome.json": to_json(words).encode(),
        "figure.svg": outcome.figure.encode(),
        "arrays.npz": arrays.getvalue(),
    }
    for name, content in contents.items():
        if len(content) > FILES[name]:
            raise ValueError(f"{name} must have at most {FILES[name]} bytes, got {len(content)}.")
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return contents | {MANIFEST: to_json(sums).encode()}


def read_outcome(folder: Path, names: dict[str, int]) -> Outcome:
    """Read the named files of an outcome; raises one of UNREADABLE unless they are whole."""
    return parsed(read_files(folder, names), folder.name)


def read_files(folder: Path, names: dict[str, int]) -> dict[str, bytes]:
    """Read the manifest and the named files of an outcome, of at most so many bytes each."""
    sizes = {MANIFEST: MOST_OF_MANIFEST} | names
    return {name: read_capped(folder / name, most) for name, most in sizes.items()}


def parsed(contents: dict[str, bytes], key: str) -> Outcome:
    """Make an outcome of its manifest and the files that were read.

    Args:
        contents: The files by name; the arrays and the figure may be missing.
        key: What its key must be.

    Raises:
        One of UNREADABLE: They are not whole, or of another outcome.
    """
    sums = read_json(contents[MANIFEST])
    for name, content in contents.items():
        if name != MANIFEST and sums[name] != hashlib.sha256(content).hexdigest():
            raise ValueError(f"{name} does not fit its checksum")
    words = read_json(contents["outcome.json"])
    words["config"] = read_json(contents["config.json"])
    words["findings"] = read_json(contents["findings.json"])
    if words["key"] != key:
        raise ValueError(f"outcome.json is of another outcome, {words['key']!r}")
    arrays = read_arrays(contents["arrays.npz"]) if "arrays.npz" in contents else {}
    figure = contents["figure.svg"].decode() if "figure.svg" in contents else ""
    return outcome_of(words, arrays, figure)


def reason(folder: Path, error: BaseException) -> str:
    """Name what cannot be read, and why."""
    return f"the outcome in {folder} is damaged ({what_is_wrong(error)})"


def what_is_wrong(error: BaseException) -> str:
    """Why an outcome cannot be read, in a few words."""
    if isinstance(error, OSError):
        file = f"{Path(error.filename).name}: " if error.filename else ""
        return one_line(f"{file}{error.strerror or error}")
    if isinstance(error, KeyError):
        return one_line(f"there is no {error}")
    return one_line(f"{error}" or type(error).__name__)
