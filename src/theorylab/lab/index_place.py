"""Where the index of a store is, and who may use it at a time.

    <store>/.index/outcomes.sqlite                 if the store is on a disk of this machine
    <cache>/index/<hash of the store>.sqlite       if it is on a network file system, or read-only
    <temporary folder>/theorylab-<user>/…          if the user's cache is on such a one too
    in memory                                      if none of these can be written

SQLite's own locks do not hold on network file systems, and say nothing of a file that is deleted
because it is damaged; so a lock beside the index lets many read it, or one change it.
"""

import hashlib
import os
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from theorylab.folders import cache_folder

from .filesystems import is_shared, kind_of

try:
    import fcntl
except ImportError:  # on Windows SQLite's own locks must do
    fcntl = None

FOLDER = ".index"  # SQLite makes files beside its own, which would change the store's folder
PATIENCE = 300.0  # seconds to wait for a process that builds the index


class IndexPlace(NamedTuple):
    """A file for the index, and why it is there."""

    path: Path
    why: str = ""  # empty if it is beside the store

    @property
    def beside(self) -> list[Path]:
        """What SQLite leaves beside an index that was stopped in the middle of a change."""
        return [Path(f"{self.path}-{end}") for end in ("journal", "wal", "shm")]

    @property
    def seal(self) -> Path:
        """The file with the checksum of an index that nobody is changing."""
        return Path(f"{self.path}-sum")

    def remove(self) -> None:
        """Delete the index, but for the lock: others may be waiting for it. Hold it alone."""
        for file in (self.seal, self.path, *self.beside):
            with suppress(FileNotFoundError):
                file.unlink()

    def close(self) -> None:
        """Write the checksum of the index; hold the lock alone."""
        new = Path(f"{self.seal}.new")
        new.write_text(_checksum(self.path))
        new.replace(self.seal)

    def open(self) -> None:
        """Delete the checksum, for the index is about to change; hold the lock alone."""
        with suppress(FileNotFoundError):
            self.seal.unlink()

    def require_whole(self) -> None:
        """Compare the index with its checksum; there is none if whoever changed it was stopped.

        Raises:
            OSError: It is damaged.
        """
        try:
            said = self.seal.read_bytes()[:100]
        except FileNotFoundError:
            return
        if said.decode("ascii", "replace") != _checksum(self.path) or any(
            map(os.path.lexists, self.beside)
        ):
            raise OSError(f"{self.path} does not fit its checksum")


def _checksum(file: Path) -> str:
    """A checksum against accidents, fast: it is computed for every question."""
    number = 0
    with file.open("rb") as opened:
        while piece := opened.read(2**20):
            number = zlib.crc32(piece, number)
    return f"{number:08x}"


def index_places(root: Path) -> Iterator[IndexPlace]:
    """Where the index of a store may be, the best place first.

    Args:
        root: The folder of the store.
    """
    shared = is_shared(root)
    why = f"the store is on {kind_of(root)}" if shared else "the store cannot be written"
    if not shared:
        yield IndexPlace(root / FOLDER / "outcomes.sqlite")
    name = f"{hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:32]}.sqlite"
    cache = cache_folder() / "index"
    if not is_shared(cache):
        yield IndexPlace(cache / name, why)
    try:
        temporary = Path(tempfile.gettempdir())
    except OSError:  # there is none that can be written
        return
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    own = temporary / f"theorylab-{user}"
    if not is_shared(own):
        yield IndexPlace(own / name, f"{why}, and the cache folder cannot be used")


def ready(place: IndexPlace) -> None:
    """Make the folder of an index, which nobody else may write to if it is for everybody.

    Raises:
        OSError: It cannot be made, or is somebody else's.
    """
    if not place.why:
        place.path.parent.mkdir(exist_ok=True)
        return
    place.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    state = os.lstat(place.path.parent)
    if hasattr(os, "getuid") and (state.st_uid != os.getuid() or state.st_mode & 0o022):
        raise PermissionError(f"{place.path.parent} may be written by others")


@contextmanager
def locked(place: IndexPlace, alone: bool) -> Iterator[None]:
    """Hold the lock of an index, alone or with others who read it too.

    Raises:
        OSError: There can be no lock, or somebody keeps it for too long.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(
        f"{place.path}-lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644
    )
    try:
        _wait(descriptor, alone)
        yield
    finally:
        os.close(descriptor)


def _wait(descriptor: int, alone: bool) -> None:
    assert fcntl is not None
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError("another process keeps the lock of the index") from None
            time.sleep(0.02)
