"""What is known of each experiment: how it reads, what was recorded, what is in the store.

    entry + record + outcomes ─► Exhibit

The claims that count are those of the record, which were found on a seed never used before; where
there is none, those of the store's largest preset.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from theorylab.experiments.entry import Entry
from theorylab.experiments.tree import Tree
from theorylab.lab.outcome import Outcome
from theorylab.lab.outcome_json import outcome_of
from theorylab.lab.records import PRESETS, record_content, record_of

Notice = Callable[[str], None]

_NAME = re.compile(r"\w[\w-]*(/\w[\w-]*)*")  # of an experiment, and so of a file of the site
_ORDER = ("default", "paper", "smoke")  # whose claims count, if none were recorded


@dataclass(frozen=True)
class Exhibit:
    """One experiment, with all that was found about it."""

    name: str
    title: str
    entry: Entry | None  # None: it is in the store, and no longer in the tree
    shown: Outcome | None  # whose claims count; None: it was never run
    origin: str  # where these claims come from, in words
    figure: Outcome | None  # whose figure is shown
    records: tuple[str, ...] = ()  # what was recorded, a line for each preset
    others: tuple[Outcome, ...] = ()  # further outcomes of the store

    @property
    def room(self) -> str:
        """The folder in which it lives."""
        return self.name.partition("/")[0]


def collect(tree: Tree, outcomes: Sequence[Outcome], notice: Notice) -> tuple[Exhibit, ...]:
    """All experiments of the tree, and those that only the store knows, by name.

    Args:
        tree: The experiments, with their records.
        outcomes: Of the store, as `Store.outcomes` gives them.
        notice: Hears about records that cannot be read, and about names that no file can have.
    """
    by_name: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if _NAME.fullmatch(outcome.experiment):
            by_name.setdefault(outcome.experiment, []).append(outcome)
        else:
            notice(f"an outcome of {outcome.experiment[:60]!r} is left out: no file has this name.")
    entries = {entry.name: entry for entry in tree.entries()}
    return tuple(
        _exhibit(name, entries.get(name), tuple(by_name.get(name, ())), tree.records, notice)
        for name in sorted({*entries, *by_name})
    )


def _exhibit(
    name: str,
    entry: Entry | None,
    stored: tuple[Outcome, ...],
    folder: Path | None,
    notice: Notice,
) -> Exhibit:
    recorded = _recorded(entry, folder, notice) if entry and folder else {}
    best = min(stored, key=_rank, default=None)
    shown, origin = recorded.get("default", (best, _told(best)))
    title = entry.title if entry else best.title if best else name
    return Exhibit(
        name=name,
        title=title,
        entry=entry,
        shown=shown,
        origin=origin,
        figure=min((each for each in stored if each.figure), key=_rank, default=None),
        records=tuple(sentence for _, sentence in recorded.values()),
        others=tuple(each for each in sorted(stored, key=_rank) if each is not shown),
    )


def _recorded(entry: Entry, folder: Path, notice: Notice) -> dict[str, tuple[Outcome | None, str]]:
    """What the presets found when they were recorded, with a line about each, by preset."""
    found: dict[str, tuple[Outcome | None, str]] = {}
    for preset in PRESETS:
        try:
            content = record_content(folder, entry.name, preset)
            if content is not None:
                origin = f"{preset.capitalize()} preset, {record_of(content).sentence}"
                found[preset] = (_outcome(entry, content), origin)
        except (KeyError, TypeError, ValueError) as error:
            notice(f"{error}; left out.")
    return found


def _outcome(entry: Entry, content: dict[str, Any]) -> Outcome:
    """A record as an outcome: it has no arrays and no figure."""
    about = {name: getattr(entry, name) for name in ("title", "description", "formula")}
    more = {"failure": "", "sources": dict(entry.sources)}
    return replace(outcome_of(content | about | more, {}, ""), stored=False)


def _rank(outcome: Outcome) -> tuple[int, str]:
    """The best to show first."""
    place = _ORDER.index(outcome.preset) if outcome.preset in _ORDER else len(_ORDER)
    return place, outcome.key


def _told(outcome: Outcome | None) -> str:
    """Where claims of the store come from."""
    if outcome is None:
        return "Never run here, and not recorded"
    return f"{outcome.preset.capitalize()} preset, from the store"
