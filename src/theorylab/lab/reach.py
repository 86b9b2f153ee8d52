"""What of a store and its cache nobody reads any more, and how large it is.

    outcomes of other code         no run of this installation has such a key
    outcomes that were set aside   because they were damaged
    drafts                         of processes that are gone
    blocks                         of runs whose outcome is there, or that nobody goes on with
    compiled programs              that nobody used for some days

What a file of the user's own gave is never other code: where the file is, is not known.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from theorylab.experiments.reader import TreeError
from theorylab.experiments.tree import Tree

from .blocks import FOLDER as BLOCKS
from .blocks import FORGOTTEN_AFTER
from .key import code, key_of
from .requests import OWN, Value
from .store import Store
from .walking import outcome_folders
from .writing import WRITING, is_abandoned

_DAY = 24 * 3600


class Garbage(NamedTuple):
    """A folder or a file that nobody reads any more."""

    path: Path
    why: str
    size: int  # bytes
    is_outcome: bool = False


def garbage(store: Store, tree: Tree, cache: Path, days: int) -> Iterator[Garbage]:
    """Everything that nobody reads any more.

    Args:
        store: The outcomes.
        tree: The experiments as they are now.
        cache: The cache folder, with compiled programs.
        days: After how many a compiled program that nobody used is garbage.
    """
    for folder in old_outcomes(store, tree):
        yield Garbage(folder, "of other code", size(folder), True)
    for folder in store.set_aside():
        yield Garbage(folder, "damaged, set aside", size(folder), True)
    for path in drafts(store.root):
        yield Garbage(path, "left by a process that is gone", size(path))
    for folder in finished_blocks(store):
        yield Garbage(folder, "blocks of a run that is over", size(folder))
    for file in unused_programs(cache, days):
        yield Garbage(file, f"compiled program, not used for {days} days", size(file))


def old_outcomes(store: Store, tree: Tree) -> Iterator[Path]:
    """The outcomes that no run of this installation would read."""
    names, codes = set(tree.names()), {}
    for folder, outcome in store.readable():
        name = outcome.experiment
        if name.startswith(f"{OWN}/"):
            continue
        if name not in codes:
            codes[name] = _code(tree, name) if name in names else {}
        if codes[name] is None:
            continue  # its file cannot be read: it may be mended
        if not codes[name] or not _is_key(outcome.key, codes[name], outcome.config):
            yield folder


def drafts(root: Path) -> Iterator[Path]:
    """What processes that are gone left half written, anywhere in the store's own folders."""
    for path in root.glob(f"{WRITING}*"):
        if is_abandoned(path):
            yield path
    for folder in root.glob(".*/"):
        if not folder.name.startswith(WRITING):
            for path in folder.rglob(f".*{WRITING}*"):
                if is_abandoned(path):
                    yield path


def finished_blocks(store: Store) -> Iterator[Path]:
    """The blocks of runs whose outcome was written after them, and of runs long given up."""
    folders = list((store.root / BLOCKS).glob("*/"))
    if not folders:
        return
    written = {}
    for entry in outcome_folders(store.root):
        with suppress(OSError):
            written[entry.name] = max(entry.stat().st_mtime, written.get(entry.name, 0.0))
    for folder in folders:
        with suppress(OSError):
            last = folder.stat().st_mtime
            if written.get(folder.name, -1.0) >= last or time.time() - last > FORGOTTEN_AFTER:
                yield folder


def unused_programs(cache: Path, days: int) -> Iterator[Path]:
    """The compiled programs that were neither made nor read for some days."""
    for file in sorted((cache / "compiled").glob("*")):
        with suppress(OSError):
            state = file.lstat()
            age = time.time() - max(state.st_atime, state.st_mtime)
            if not file.is_dir() and age > days * _DAY:
                yield file


def size(path: Path) -> int:
    """How many bytes a file has, or all files in a folder; of a link the link's own."""
    total = 0
    for file in (path, *(path.rglob("*") if path.is_dir() and not path.is_symlink() else ())):
        with suppress(OSError):
            total += 0 if file.is_dir() and not file.is_symlink() else file.lstat().st_size
    return total


def _is_key(key: str, code: dict[str, Any], config: dict[str, Value]) -> bool:
    """Whether a config has this key; one that no JSON can say has none."""
    try:
        return key_of(code, config) == key
    except ValueError:
        return False


def _code(tree: Tree, name: str) -> dict[str, Any] | None:
    """What the keys of an experiment share; None if its file cannot be read."""
    try:
        return code(tree.entry(name), tree.module(name))
    except TreeError:
        return None
