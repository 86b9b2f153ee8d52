"""Bad usage, and whatever else is said beside the data: one line each."""

import sys


class Usage(Exception):
    """The command line asks for what cannot be: says what must hold and what came."""


def notice(text: str) -> None:
    """Say one line to the user, beside the data; arguments and file names may have line breaks."""
    print(f"theorylab: {' '.join(text.split())}", file=sys.stderr)
