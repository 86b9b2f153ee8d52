"""An index of the experiments, kept in the cache: `list` reads again only what has changed.

    experiment ─► its file, and those that were read for it, each with its state ─► Outline

The state of a file is its times, inode and size. A row counts while all its files are in the state
in which they were read. Whatever is wrong with the index, the experiments themselves are read: an
index that is missing, damaged, of other code or in a folder that cannot be written costs a second.
It is written whole or not at all, so that several processes may write it at once.
"""

import hashlib
import json
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from theorylab import fields
from theorylab.claims import regime
from theorylab.experiments import entry, reader
from theorylab.experiments.entry import Entry, Outline, Place, State, Statement
from theorylab.experiments.reader import TreeError, state_of
from theorylab.experiments.tree import Tree

from .writing import write_whole

_MOST = 2**25  # bytes
_DIGITS = 64  # of the digest, which is the first line
# Two changes within a tick of the file system's clock may leave the same state.
_TICK = 2 * 10**9  # nanoseconds, as coarse as these clocks are
_CODE = (entry, reader, regime, fields)  # which make rows of files

_DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)

_Row = dict[str, Any]


def outlines(tree: Tree, cache_folder: Path, notice: Callable[[str], None]) -> list[Outline]:
    """What every experiment of a tree says of itself, from the index where that is current.

    Args:
        tree: The experiments.
        cache_folder: Where the index is kept.
        notice: Hears about an experiment that cannot be read, which is left out.
    """
    path = index_path(tree, cache_folder)
    code, now = _code_states(), cache(_state)
    kept = _rows(path, code)
    rows: dict[str, _Row] = {}
    found: list[Outline] = []
    began = time.time_ns()
    for name in tree.names():
        row = kept.get(name)
        outline = _current(name, row, now) if row is not None else None
        if outline is not None and row is not None:
            rows[name] = row
        else:
            read = _read(tree, name, notice)
            if read is None:
                continue
            outline = read
            if _is_settled(read.files, began):
                rows[name] = _row(read)
        found.append(outline)
    if rows != kept:
        _write(path, {"code": code, "rows": rows})
    return found


def index_path(tree: Tree, cache_folder: Path) -> Path:
    """Where the index of a tree is kept; every checkout has its own."""
    name = hashlib.sha256(str(tree.root).encode()).hexdigest()[:16]
    return cache_folder / "index" / f"{name}.json"


def _read(tree: Tree, name: str, notice: Callable[[str], None]) -> Entry | None:
    """Read an experiment; if that cannot be done, a line says why."""
    try:
        return tree.entry(name)
    except TreeError as error:
        notice(f"{error} Left out.")
    except OSError as error:
        notice(f"{name} cannot be read: {error.strerror}. Left out.")
    return None


def _state(path: str) -> State | None:
    """The state of a file now; None if there is none."""
    try:
        return state_of(Path(path))
    except (OSError, ValueError):
        return None


def _is_settled(files: Mapping[Path, State], began: int) -> bool:
    """Whether a later change would show: no file was changed while, or just before, it was read."""
    return all(max(state[:2]) < began - _TICK for state in files.values())


def _code_states() -> list[State | None]:
    """The states of the code that reads experiments: what older code kept is not used."""
    return [_state(str(module.__file__)) for module in _CODE] + [_state(__file__)]


def _row(read: Entry) -> _Row:
    """An experiment as the index keeps it."""
    return {
        "files": {str(path): list(state) for path, state in read.files.items()},
        "title": read.title,
        "description": read.description,
        "claims": [_texts(claim) for claim in read.claims],
    }


def _texts(claim: Statement) -> list[str]:
    """A claim as a list of texts, its source first."""
    texts = vars(claim) | vars(claim.source)
    return [texts[name] for name in (*_PLACE, *_STATEMENT)]


_PLACE = tuple(Place.__dataclass_fields__)
_STATEMENT = tuple(name for name in Statement.__dataclass_fields__ if name != "source")


def _current(name: str, row: _Row, now: Callable[[str], State | None]) -> Outline | None:
    """What a row says, if its files have not changed and it is what a row must be."""
    try:
        files: dict[str, list[int]] = row["files"]
        if not files or any(list(now(path) or ()) != state for path, state in files.items()):
            return None
        title, description, claims = row["title"], row["description"], row["claims"]
        texts = [title, description, *(text for claim in claims for text in claim)]
        if not all(isinstance(text, str) for text in texts):
            return None
        return Outline(name, title, description, tuple(map(_statement, claims)))
    except _DAMAGED:
        return None


def _statement(texts: list[str]) -> Statement:
    """A claim of its texts."""
    place, rest = texts[: len(_PLACE)], texts[len(_PLACE) :]
    return Statement(source=Place(*place), **dict(zip(_STATEMENT, rest, strict=True)))


def _rows(path: Path, code: list[State | None]) -> dict[str, _Row]:
    """The rows of an index; none if it is missing, damaged or of other code."""
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode) or state.st_size > _MOST:
            return {}
        content = path.read_bytes()
        said, text = content[:_DIGITS], content[_DIGITS + 1 :]
        if said != hashlib.sha256(text).hexdigest().encode():
            return {}
        index = json.loads(text)
        is_mine = index["code"] == [state and list(state) for state in code]
        rows = index["rows"]
    except _DAMAGED:
        return {}
    return rows if is_mine and isinstance(rows, dict) else {}


def _write(path: Path, index: Mapping[str, Any]) -> None:
    """Keep an index, if the cache can be written."""
    text = json.dumps(index).encode()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
