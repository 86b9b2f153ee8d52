"""`theorylab verify` and `theorylab gc`: whether the store is whole, and what of it is garbage."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from theorylab.experiments.tree import Tree
from theorylab.folders import cache_folder

from .commands import Parsed
from .finding import counted
from .listing import print_json
from .requests import require_no_words, store_path
from .usage import Usage, notice

if TYPE_CHECKING:
    from theorylab.lab import Store
    from theorylab.lab.reach import Garbage

_DAYS = "30"


def verify(parsed: Parsed) -> int:
    """Compare everything with its checksum; 1 if something is damaged."""
    require_no_words("verify", parsed)
    store, damaged, number = _store(parsed, "verify"), [], 0
    for each in store.verified():
        number += 1
        if each.fault:
            name = each.folder.relative_to(store.root)
            damaged.append({"outcome": name.as_posix(), "fault": each.fault})
            if "--json" not in parsed.options:
                print(f"{name} is damaged: {each.fault}")
    aside = [path.relative_to(store.root).as_posix() for path in store.set_aside()]
    if "--json" in parsed.options:
        print_json({"outcomes": number, "damaged": damaged, "set_aside": aside})
    else:
        notice(f"{counted(number)}, {len(damaged)} damaged.")
        if aside:
            notice(f"{len(aside)} damaged ones were set aside before; theorylab gc removes them.")
    return 1 if damaged else 0


def collect(tree: Tree, parsed: Parsed) -> int:
    """Say what nobody can read any more, and remove it with --yes."""
    require_no_words("gc", parsed)
    days = parsed.options.get("--days", _DAYS)
    if not re.fullmatch(r"[0-9]{1,6}", days):
        raise Usage(f"--days must be a whole number of at least 0, got {days!r}.")
    store, really = _store(parsed, "gc"), "--yes" in parsed.options

    from theorylab.lab.reach import garbage

    store.finish()  # what a killed process was replacing is no garbage
    found = list(garbage(store, tree, cache_folder(), int(days)))
    if really:
        for each in found:
            _remove(store, each)
    total = sum(each.size for each in found)
    if "--json" in parsed.options:
        rows = [{"path": str(each.path), "why": each.why, "bytes": each.size} for each in found]
        print_json({"removed": really, "bytes": total, "garbage": rows})
        return 0
    _print(store, found, "removed" if really else "would remove")
    how = "" if really or not found else " theorylab gc --yes removes it."
    did = "freed" if really else "would be freed"
    notice(f"{total} bytes ({total / 1e6:.1f} MB) {did}.{how}")
    return 0


def _print(store: "Store", found: Iterable["Garbage"], verb: str) -> None:
    """A line for each, but one for all programs, of which there may be thousands."""
    by_reason: dict[str, list[int]] = {}
    for each in found:
        if each.path.is_relative_to(store.root):
            size = f"{each.size / 1e6:.1f} MB"
            print(f"{verb} {each.path.relative_to(store.root)} ({size}): {each.why}")
        else:
            by_reason.setdefault(each.why, []).append(each.size)
    for why, sizes in by_reason.items():
        print(f"{verb} {len(sizes)} files of the cache ({sum(sizes) / 1e6:.1f} MB): {why}")


def _remove(store: "Store", each: "Garbage") -> None:
    """Remove a folder or a file."""
    from theorylab.lab.writing import remove_folder

    if each.is_outcome:
        store.delete(each.path)
    elif each.path.is_dir():
        remove_folder(each.path)
    else:
        each.path.unlink(missing_ok=True)


def _store(parsed: Parsed, command: str) -> "Store":
    """The store, which must be there."""
    root = store_path(parsed)
    if not root.is_dir():
        raise Usage(f"{command} needs a store, there is none in {root}.")

    from theorylab.lab import Store  # NumPy, which is not needed to complain

    return Store(root)
