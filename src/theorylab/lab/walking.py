"""Where outcomes are in a store: folders named like keys that have no folders inside.

    dynamics/catapult/0123456789abcdef      an outcome
    toys/bead/fade                          an outcome, and no `bead`: it has a folder inside

What begins with a dot is the store's own. Links are followed, each folder is entered once.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

KEY = re.compile(r"[0-9a-f]{1,64}")
SET_ASIDE = re.compile(r"[0-9a-f]+\.damaged-[0-9]+")  # the name of an outcome that was set aside
_DEEPEST = 64


def subfolders(folder: str | Path) -> list[os.DirEntry[str]]:
    """The folders inside a folder of the store, but hidden ones and outcomes that were set aside.

    Raises:
        OSError: It cannot be read.
    """
    with os.scandir(folder) as entries:
        return [entry for entry in entries if _is_folder(entry)]


def is_outcome(folder: str | Path) -> bool:
    """Whether a folder is named like a key and has no others inside, whole or not."""
    if not KEY.fullmatch(os.path.basename(folder)):
        return False
    try:
        with os.scandir(folder) as entries:
            return not any(_leads_to_folder(entry) for entry in entries)
    except OSError:
        return False


def outcome_folders(root: Path) -> Iterator[os.DirEntry[str]]:
    """Every outcome of a store, whole or not."""
    waiting, seen = [(str(root), 0)], set()
    while waiting:
        folder, depth = waiting.pop()
        try:
            state, inside = os.stat(folder), subfolders(folder)
        except OSError:
            continue
        if (state.st_dev, state.st_ino) in seen:
            continue
        seen.add((state.st_dev, state.st_ino))
        for entry in inside:
            if depth and is_outcome(entry.path):  # an outcome belongs to an experiment
                yield entry
            elif depth < _DEEPEST:
                waiting.append((entry.path, depth + 1))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder in which, or as which, an outcome may be."""
    try:
        entry.name.encode()
    except UnicodeEncodeError:  # no name of an experiment
        return False
    own = entry.name.startswith(".") or SET_ASIDE.fullmatch(entry.name)
    return not own and _leads_to_folder(entry)


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False
