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
        >>> nearest("zzz", ["width"])
        ''
    """
    # A name is recognised by its last part too: catapult is dynamics/catapult.
    known = {part: word for word in words for part in (word.rpartition("/")[2], word)}
    close = difflib.get_close_matches(word, known, n=6, cutoff=0.55)
    offers = list(dict.fromkeys(known[part] for part in close))[:3]
    return f" Did you mean {' or '.join(offers)}?" if offers else ""
