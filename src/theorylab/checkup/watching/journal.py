"""Where entries go: a list, a table, a file of events, a function; whatever of these fails.

    entry ─► entries   read at any time
          ├► CSV       `Table`
          ├► events    `EventFile`
          └► callback  {"step": 100, "theory/sharpness": 2.0, "theory/sharpness_high": 2.1}

A disk that is full, or a callback that raises, is kept as a failure and costs nothing else.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .entries import Entry
from .events import EventFile
from .table import Table

Callback = Callable[[dict[str, Any]], Any]
PREFIX = "theory/"  # of tags and of names in what a callback gets


class Failure(NamedTuple):
    """What went wrong at which step, while training went on.

    Example:
        >>> Failure(100, "csv", "OSError: no space left on device").step
        100
    """

    step: int
    name: str  # of a measure, or of what writes
    reason: str


class Journal:
    """All entries of a run, and copies of them elsewhere.

    Args:
        csv: A file that is appended to, and continued if it is there.
        tensorboard: A folder.
        callback: A function of a dictionary.

    Example:
        >>> journal = Journal(None, None, None)
        >>> journal.write(0, [Entry(0, 0.1, "loss", 2.0, 2.0, 2.0, "exact", "given")])
        >>> len(journal.entries)
        1
    """

    def __init__(
        self, csv: Path | None, tensorboard: Path | None, callback: Callback | None
    ) -> None:
        self._table = None if csv is None else Table(csv)
        self._events = None if tensorboard is None else EventFile(tensorboard)
        self._callback = callback
        self.entries: list[Entry] = [] if self._table is None else self._table.entries
        self.resumed = bool(self.entries)
        self.failures: list[Failure] = []
        self._warned: set[str] = set()

    def write(self, step: int, entries: Sequence[Entry]) -> None:
        """Keep the entries of a step, and write them wherever they are wanted.

        Args:
            step: Which.
            entries: Of it.
        """
        self.entries.extend(entries)
        numbers = scalars(entries)
        for name, act in (
            ("csv", lambda: self._to_table(entries)),
            ("tensorboard", lambda: self._events and numbers and self._events.write(step, numbers)),
            ("callback", lambda: self._to_callback(step, numbers)),
        ):
            try:
                act()
            except Exception as error:
                self.failed(step, name, error)

    def failed(self, step: int, name: str, why: Exception | str) -> None:
        """Keep what went wrong; the first time, say so.

        Args:
            step: When.
            name: Of a measure, or of what writes.
            why: The error, or what it says.
        """
        reason = f"{type(why).__name__}: {why}" if isinstance(why, Exception) else why
        self.failures.append(Failure(step, name, reason))
        if name not in self._warned:
            self._warned.add(name)
            warnings.warn(
                f"Watch: {name} failed at step {step}, and training goes on: {reason}",
                RuntimeWarning,
                stacklevel=2,
            )

    def _to_table(self, entries: Sequence[Entry]) -> None:
        if self._table is not None:
            for entry in entries:
                self._table.append(entry)

    def _to_callback(self, step: int, numbers: Mapping[str, float]) -> None:
        if self._callback is not None and numbers:
            self._callback({"step": step, **numbers})


def scalars(entries: Sequence[Entry]) -> dict[str, float]:
    """The numbers of entries by their tags: values, and ends of intervals where there are any.

    Example:
        >>> scalars([Entry(0, 0.1, "sharpness", 2.0, 2.0, math.nan, "certified", "measured")])
        {'theory/sharpness': 2.0, 'theory/sharpness_low': 2.0}
    """
    numbers = {}
    for entry in entries:
        if entry.status not in ("measured", "given"):
            continue
        tag = f"{PREFIX}{entry.measure}"
        numbers[tag] = entry.value
        if entry.status == "measured" and entry.low != entry.high:
            ends = {f"{tag}_low": entry.low, f"{tag}_high": entry.high}
            numbers |= {name: end for name, end in ends.items() if math.isfinite(end)}
    return numbers
