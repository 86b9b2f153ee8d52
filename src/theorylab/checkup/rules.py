"""The verdict in words: sentences that follow from the rows by rules, at most five.

Each rule looks at readings, and gives a sentence or nothing. They are asked in the order in which
they matter to whoever trains the network; the first five sentences are the verdict.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .measure import Reading, Row

MOST = 5  # sentences of a verdict


class Sentence(NamedTuple):
    """A sentence of the verdict, and the rule from which it follows.

    Example:
        >>> Sentence("lazy", "The network is in the lazy regime.").rule
        'lazy'
    """

    rule: str
    words: str


Rule = Callable[[Mapping[str, Reading]], str | None]
RULES: dict[str, Rule] = {}


def verdict_of(rows: Sequence[Row]) -> tuple[Sentence, ...]:
    """The sentences that follow from the rows.

    Args:
        rows: All rows of the card; only those that were measured are looked at.

    Example:
        >>> verdict_of([])
        ()
    """
    readings = {row.name: row.reading for row in rows if row.reading is not None}
    said = ((name, rule(readings)) for name, rule in RULES.items())
    return tuple(Sentence(name, words) for name, words in said if words)[:MOST]
