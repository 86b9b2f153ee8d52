"""Bad usage: one line that says what must hold and what came, with the nearest right words."""

import difflib
from collections.abc import Iterable


class Usage(Exception):
    """The command line asks for what cannot be."""


def nearest(word: str, words: Iterable[str]) -> str:
    """Offer the words that look like one that is wrong: " Did you mean ...?", or nothing.

    Example:
        >>> nearest("catapul", ["dynamics/catapult", "bias/diagonal_network"])
        ' Did you mean dynamics/catapult?'
        >>> nearest("sgd", ["features/agop/sgd", "features/agop/teacher"])
        ' Did you mean features/agop/sgd?'
        >>> nearest("zzz", ["width"])
        ''
    """
    # A name is recognised by its last parts too: catapult is dynamics/catapult.
    known: dict[str, list[str]] = {}
    for each in words:
        parts = each.split("/")
        for first in range(len(parts)):
            known.setdefault("/".join(parts[first:]), []).append(each)
    close = difflib.get_close_matches(word, known, n=6, cutoff=0.55)
    if word in known:  # said in short
        close = [word]
    offers = list(dict.fromkeys(each for part in close for each in known[part]))[:3]
    return f" Did you mean {' or '.join(offers)}?" if offers else ""
