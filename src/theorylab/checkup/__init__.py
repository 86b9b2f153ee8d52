"""The check-up of a user's own network: what theory says about it, once or while it trains.

    subject ─► measures ─► rows ─► verdict
                                └► card

`examine` gives the card. A `Subject` is what was given, checked, with what several measures share
(outputs, a kernel of a sample of inputs), computed once. A measure reads one number off a subject;
its row is that number with its error, its method, its cost, and what theory says about it. `load`
reads a card that was saved.
"""

from typing import TYPE_CHECKING

from theorylab.lazy import lazy

if TYPE_CHECKING:
    from .card import Card as Card
    from .files import load as load
    from .measure import Measure as Measure
    from .measure import Reading as Reading
    from .measure import Row as Row
    from .measure import Skipped as Skipped
    from .rules import Sentence as Sentence
    from .subject import Subject as Subject
    from .subject import subject_of as subject_of
    from .watch import Watch as Watch
    from .whole import examine as examine

_LATER = {
    "Card": ".card",
    "Measure": ".measure",
    "Reading": ".measure",
    "Row": ".measure",
    "Sentence": ".rules",
    "Skipped": ".measure",
    "Subject": ".subject",
    "Watch": ".watch",
    "examine": ".whole",
    "load": ".files",
    "subject_of": ".subject",
}

__getattr__, __dir__ = lazy(__name__, _LATER)
