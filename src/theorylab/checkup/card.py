"""The card of a network: its rows, and a verdict in words that follows from them by rules.

print(card), card.show()   a table in the terminal
in a notebook              a table, in the colours of the page around it
card.page(path)            one HTML file with figures, theorems and experiments
card.plot()                the figures of the rows
card.to_pandas(), card.to_json()
card.save(path)            one file, which `theorylab.checkup.load` reads
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from theorylab.typing import DataFrame, Figure

from .measure import Reading, Row
from .rules import Sentence


@dataclass(frozen=True, eq=False, repr=False)
class Card:
    """What a check-up found.

    Example:
        >>> Card(rows=(), verdict=(), about={"parameters": 10.0}).about
        {'parameters': 10.0}
    """

    rows: tuple[Row, ...]
    verdict: tuple[Sentence, ...]  # at most five
    about: dict[str, str | float]  # parameters, inputs, outputs, loss, seconds

    def __getitem__(self, name: str) -> Row:
        """The row of a measure, by its name."""
        found = [row for row in self.rows if row.name == name]
        if not found:
            names = ", ".join(row.name for row in self.rows)
            raise KeyError(f"a row must be one of {names}, got {name!r}.")
        return found[0]

    def reading(self, name: str) -> Reading:
        """What a measure found.

        Raises:
            ValueError: There is no reading; the error says why.
        """
        row = self[name]
        if row.reading is None:
            raise ValueError(f"{name} must have been measured, got {row.status}: {row.reason}")
        return row.reading

    @property
    def regimes(self) -> tuple[str, ...]:
        """The names of the rules whose sentences make up the verdict, such as "lazy"."""
        return tuple(sentence.rule for sentence in self.verdict)

    def show(self) -> None:
        """Print it: a table, in colours on a terminal."""
        from .terminal import print_card

        print_card(self, sys.stdout)

    def page(self, path: str | Path) -> Path:
        """Write it as one HTML file that needs nothing else: figures, theorems, experiments.

        Args:
            path: The file; one that is there already is replaced.
        """
        from .page import write_card_page

        return write_card_page(self, Path(path))

    def plot(self) -> Figure:
        """A figure with a panel for each row that has curves.

        Raises:
            ValueError: No row has.
        """
        from .figures import card_figure

        return card_figure(self)

    def to_pandas(self) -> DataFrame:
        """A table with one row each; what was not measured is NaN. It needs pandas."""
        from .tables import as_table

        return as_table(self)

    def to_json(self) -> str:
        """JSON: what was examined, the verdict, and every row; what is not finite is null."""
        from .tables import as_json

        return json.dumps(as_json(self), indent=1, ensure_ascii=False, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Write it to one file, curves and all; `theorylab.checkup.load` reads it.

        Args:
            path: The file, an archive of arrays (npz) and a page of JSON; it is there whole or
                not at all, and one that is there already is replaced.
        """
        from .files import save_card

        save_card(self, path)

    def __str__(self) -> str:
        """A table as plain text, as wide as the terminal."""
        from .terminal import card_text

        return card_text(self)

    def __repr__(self) -> str:
        from .words import counts_of

        said = f": {', '.join(self.regimes)}" if self.regimes else ""
        return f"<Card of {counts_of(self.rows)}{said}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict and a table, in the colours of the page around."""
        from .page import card_html

        return card_html(self)
