"""The card of a network: its rows, and a verdict in words that follows from them by rules."""

from dataclasses import dataclass

from .measure import Row


@dataclass(frozen=True, eq=False)
class Card:
    """What a check-up found."""

    rows: tuple[Row, ...]
    verdict: tuple[str, ...]  # at most five sentences
    about: dict[str, str | float]  # parameters, inputs, loss, seconds

    def __getitem__(self, name: str) -> Row:
        """The row of a measure, by its name."""
        found = [row for row in self.rows if row.name == name]
        if not found:
            names = ", ".join(row.name for row in self.rows)
            raise KeyError(f"a row must be one of {names}, got {name!r}.")
        return found[0]
