"""`theorylab forget`: delete outcomes from the store, and say which."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from theorylab.experiments.tree import Tree
from theorylab.lab.requests import nearest

from .commands import Parsed
from .requests import store_path
from .usage import Usage, notice

if TYPE_CHECKING:
    from theorylab.lab import Store

_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")


def forget(tree: Tree, parsed: Parsed) -> int:
    """Delete all outcomes of some experiments, the damaged ones, or those of other code."""
    if not parsed.words and not {"--damaged", "--old"} & set(parsed.options):
        raise Usage("forget needs names of experiments, --damaged or --old, got none.")

    from theorylab.lab import Store  # NumPy, which is not needed to complain
    from theorylab.lab.reach import old_outcomes, size

    store, dry = Store(store_path(parsed)), "--dry-run" in parsed.options
    if not store.root.is_dir():
        raise Usage(f"forget needs a store, there is none in {store.root}.")
    chosen: dict[Path, None] = {}
    for word in parsed.words:
        chosen |= dict.fromkeys(_named(store, tree.renames.get(word, word), word))
    if "--damaged" in parsed.options:
        chosen |= dict.fromkeys((*store.set_aside(), *store.damaged()))
    if "--old" in parsed.options:
        chosen |= dict.fromkeys(old_outcomes(store, tree))
    for folder in chosen:
        name = folder.relative_to(store.root)
        told = f"{name} ({size(folder) / 1e6:.1f} MB)"
        if not dry:
            store.delete(folder)
        print(f"{'would delete' if dry else 'deleted'} {told}")
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
