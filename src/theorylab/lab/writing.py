"""Files that are there whole or not at all, whenever the process is killed.

    content ─► .NAME.writing-HOST-PID-… beside it ─► flushed ─► renamed to NAME

The name of what is half written says who wrote it. Once that process is gone it is swept.
"""

import os
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path

WRITING = ".writing-"
_DAY = 24 * 3600


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place and rename it; sweep what killed processes left of it."""
    sweep_beside(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}{writer()}", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # mkstemp keeps others out
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def sweep_beside(path: Path) -> None:
    """Delete what killed processes left of a file."""
    beginning = f".{path.name}{WRITING}"
    for file in path.parent.iterdir() if path.parent.is_dir() else ():
        if file.name.startswith(beginning) and is_abandoned(file):
            file.unlink(missing_ok=True)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file of a folder that nobody reads yet, and flush it to the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Flush a folder's list of names, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_folder(folder: Path) -> None:
    """Delete a folder with all that is in it, as far as that is possible; of a link the link."""
    if folder.is_symlink():
        with suppress(OSError):
            folder.unlink()
        return
    shutil.rmtree(folder, ignore_errors=True)


def writer() -> str:
    """What stands in the name of something half written: who writes it."""
    return f"{WRITING}{socket.gethostname()}-{os.getpid()}-"


def is_abandoned(path: Path) -> bool:
    """Whether whoever wrote here is gone; what another machine left counts as such after a day."""
    host, _, pid = path.name.partition(WRITING)[2].rpartition("-")[0].rpartition("-")
    try:
        if host == socket.gethostname() and os.name == "posix":
            os.kill(int(pid), 0)  # asks, kills nobody
            return False
        return time.time() - path.stat().st_mtime > _DAY
    except ProcessLookupError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
