"""The card of a network: its rows, and a verdict in words that follows from them by rules."""

from dataclasses import dataclass

from .measure import Reading, Row
from .rules import Sentence


@dataclass(frozen=True, eq=False)
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
