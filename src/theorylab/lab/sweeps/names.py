"""The names under which a store remembers its sweeps; light, for the shell's completion."""

import re
from collections.abc import Sequence
from pathlib import Path

from theorylab.lab.failure import Refused

FOLDER = ".sweeps"  # in the store
_NAME = re.compile(r"\w[\w.-]{0,99}")


def names(root: Path) -> Sequence[str]:
    """The names of all sweeps that the store in a folder remembers."""
    return sorted(path.stem for path in (root / FOLDER).glob("[!.]*.json"))


def checked_name(name: str) -> str:
    """A name that a file can have.

    Raises:
        Refused: It is none.

    Example:
        >>> checked_name("widths-1")
        'widths-1'
    """
    if not _NAME.fullmatch(name):
        must = "letters, digits, _, . and -, at most 100"
        raise Refused(f"the name of a sweep must be {must}, got {name[:100]!r}.")
    return name
