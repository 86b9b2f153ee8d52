"""`theorylab forget`: delete outcomes from the store, and say which."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from theorylab.experiments.reader import TreeError
from theorylab.experiments.tree import Tree
from theorylab.lab.requests import OWN, nearest

from .commands import Parsed
from .usage import Usage, notice

if TYPE_CHECKING:
    from theorylab.lab import Store

_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")


def forget(tree: Tree, parsed: Parsed) -> int:
    """Delete all outcomes of some experiments, the damaged ones, or those of other code."""
    if not parsed.words and not {"--damaged", "--old"} & set(parsed.options):
        raise Usage("forget needs names of experiments, --damaged or --old, got none.")

    from .running import store_of  # NumPy, which is not needed to complain

    store, dry = store_of(parsed), "--dry-run" in parsed.options
    if not store.root.is_dir():
        raise Usage(f"forget needs a store, there is none in {store.root}.")
    chosen: dict[Path, None] = {}
    for word in parsed.words:
        chosen |= dict.fromkeys(_named(store, tree.renames.get(word, word), word))
    if "--damaged" in parsed.options:
        chosen |= dict.fromkeys((*store.set_aside(), *store.damaged()))
    if "--old" in parsed.options:
        chosen |= dict.fromkeys(_old(store, tree))
    for folder in chosen:
        name = folder.relative_to(store.root)
        size = sum(file.lstat().st_size for file in folder.rglob("*"))
        if not dry:
            store.delete(folder)
        print(f"{'would delete' if dry else 'deleted'} {name} ({size / 1e6:.1f} MB)")
    if not chosen:
        notice("there is nothing to forget.")
    return 0


def _named(store: "Store", name: str, word: str) -> list[Path]:
    """The outcomes of one experiment, those set aside among them; it need not be in the tree."""
    everything = [*store.folders(), *store.set_aside()]
    names = sorted({str(each.parent.relative_to(store.root)) for each in everything})
    found = [each for each in everything if each.parent == store.root / name]
    if not _NAME.fullmatch(name) or not found:
        raise Usage(f"the store has no outcome of {word!r}.{nearest(name, names)}")
    return found


def _old(store: "Store", tree: Tree) -> Iterator[Path]:
    """The outcomes that no run would read any more; of files of the user's own none is known."""
    from theorylab.lab.key import key

    names = tree.names()
    for folder, outcome in store.readable():
        name = outcome.experiment
        if name.startswith(f"{OWN}/"):
            continue
        try:
            entry = tree.entry(name) if name in names else None
        except TreeError:
            continue  # it may be mended
        if entry is None or key(entry, tree.module(name), outcome.config) != outcome.key:
            yield folder
