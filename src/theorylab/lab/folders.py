"""Folders that can be written, before anybody works for nothing."""

import tempfile
from pathlib import Path

from .failure import Refused


def require_writable(folder: Path, what: str) -> None:
    """Make a folder if it is not there, and write to it, before anybody works for nothing.

    Raises:
        Refused: It cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"theorylab")
            file.flush()
    except OSError as error:
        reason = error.strerror or error
        raise Refused(
            f"the {what} must be a folder that can be written, got {folder}: {reason}."
        ) from None
