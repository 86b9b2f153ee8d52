"""What was found in the store: outcomes as the index has them, and a table of them."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

if TYPE_CHECKING:
    from pandas import DataFrame

    from .outcome import Outcome

_FINDING: tuple[str, ...] = (
    "statement",
    "kind",
    "source",
    "system",
    "place",
    "expected",
    "verdict",
    "value",
    "low",
    "high",
)
_VERDICTS = ("supported", "refuted", "inconclusive", "not judged")


class Hit(NamedTuple):
    """An outcome that was found, as the index has it."""

    experiment: str
    key: str
    title: str
    preset: str
    date: str  # when it was written, in UTC
    seconds: float
    config: dict[str, Any]
    verdicts: dict[str, int]  # how many findings have which
    findings: tuple[dict[str, Any], ...] = ()  # those that were asked for

    @classmethod
    def of(cls, row: Sequence[Any], findings: Sequence[Sequence[Any]] = ()) -> "Hit":
        """Make it of a row of the index."""
        experiment, key, title, preset, date, seconds, config, verdicts = row
        found = tuple(dict(zip(_FINDING, each, strict=True)) for each in findings)
        for each in found:  # SQLite has no number that is none
            each |= {name: math.nan for name in ("value", "low", "high") if each[name] is None}
        return cls(
            experiment,
            key,
            title,
            preset,
            date,
            seconds,
            json.loads(config),
            json.loads(verdicts),
            found,
        )

    def columns(self) -> dict[str, Any]:
        """What a table has of it; a field named like another column is `config.` and its name."""
        own = {
            "experiment": self.experiment,
            "key": self.key,
            "preset": self.preset,
            "date": self.date,
            "seconds": self.seconds,
        }
        own |= {verdict: self.verdicts.get(verdict, 0) for verdict in _VERDICTS}
        fields = self.config.items()
        return own | {f"config.{name}" if name in own else name: value for name, value in fields}


@dataclass(frozen=True, repr=False)
class Found(Sequence[Hit]):
    """The outcomes that were found, ordered by experiment and age.

    `outcomes()` reads them whole from the store, `to_pandas()` makes a table.
    """

    root: Path
    hits: tuple[Hit, ...]
    damaged: tuple[tuple[str, str, str], ...] = ()  # experiment, key, what is wrong: left out
    fields: tuple[str, ...] = ()  # of configs that were asked for

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[place]

    def __len__(self) -> int:
        return len(self.hits)

    def __repr__(self) -> str:
        return f"<Found {len(self)} outcomes in {self.root}>"

    def outcomes(self, notice: Callable[[str], None] | None = None) -> "Iterator[Outcome]":
        """Read the outcomes with their arrays, one after the other.

        Args:
            notice: Hears of those that are gone or damaged since, which are left out.
        """
        from theorylab.answers.reading import UNREADABLE

        from .outcome_files import FILES, read_outcome, reason

        for hit in self.hits:
            folder = self.root / hit.experiment / hit.key
            try:
                yield read_outcome(folder, FILES)
            except UNREADABLE as error:
                if notice:
                    notice(f"{reason(folder, error)}; left out.")

    def rows(self) -> tuple[list[str], list[dict[str, Any]]]:
        """The names of all columns, and the rows of the table, one for each outcome."""
        rows = [hit.columns() for hit in self.hits]
        return list(dict.fromkeys(name for row in rows for name in row)), rows

    def to_pandas(self) -> "DataFrame":
        """A table, one outcome in a row: what it is, how many verdicts of each kind, its config.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "to_pandas needs pandas, which is not installed: pip install pandas"
            ) from None
        names, rows = self.rows()
        return pandas.DataFrame(rows, columns=pandas.Index(names))
