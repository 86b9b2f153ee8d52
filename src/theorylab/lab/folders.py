"""Where things are kept: outcomes in the user's data folder, what can be made anew in the cache.

The environment variables THEORYLAB_STORE and THEORYLAB_CACHE name other folders. The cache
is shared with `theorylab.data`.
"""

import os
import tempfile
from pathlib import Path

import platformdirs

from theorylab.data import cache_folder as cache_folder

from .failure import Refused


def store_folder() -> Path:
    """Say where outcomes are kept unless the user says otherwise."""
    chosen = os.environ.get("THEORYLAB_STORE")
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir("theorylab")) / "outcomes"


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
