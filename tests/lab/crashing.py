"""Crashes and full disks at every file operation in turn, for tests of the store.

Python tells an audit hook of an operation before it is done; flushing is patched, for no hook hears
of it. Whoever is killed leaves files that were not flushed cut off in the middle, as a machine does
that loses its power.
"""

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

OPERATIONS = {
    "open",
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.chmod",
    "os.utime",
    "os.link",
    "os.truncate",
    "os.scandir",
    "os.listdir",
    "shutil.rmtree",
    "tempfile.mkstemp",
    "tempfile.mkdtemp",
    "os.fsync",
    "sqlite3.connect",
}
NEED_ROOM = {"os.mkdir", "os.rename", "os.link", "tempfile.mkstemp", "os.fsync"}

_heard: Callable[[str, tuple], None] | None = None


def _hook(event: str, arguments: tuple) -> None:
    if _heard is not None and event in OPERATIONS:
        _heard(event, arguments)


def _listen(heard: Callable[[str, tuple], None] | None, synced: set[int]) -> None:
    """Hear of every operation from now on, and remember what is flushed."""
    global _heard

    def flush(descriptor: int) -> None:
        _hook("os.fsync", ())
        synced.add(os.fstat(descriptor).st_ino)

    os.fsync = _no_flush if heard is None else flush
    _heard = heard


def _no_flush(descriptor: int) -> None:
    """No machine loses its power here, and waiting for the disk takes most of the time."""


sys.addaudithook(_hook)
os.fsync = _no_flush


def _files(root: Path) -> list[Path]:
    """The files of a store but those of SQLite, which flushes by itself."""
    return [p for p in root.rglob("*") if p.is_file() and ".index" not in p.parts]


def survives(work: Callable[[], object], moment: int, root: Path) -> bool:
    """Whether work ends before it has done so many operations; else it is killed there."""
    child = os.fork()
    if child == 0:
        synced = {file.stat().st_ino for file in _files(root)}
        count = 0

        def heard(event: str, arguments: tuple) -> None:
            nonlocal count
            count += 1
            if count == moment:
                _listen(None, synced)
                for file in _files(root):
                    if file.stat().st_ino not in synced:
                        os.truncate(file, file.stat().st_size // 2)
                os.kill(os.getpid(), signal.SIGKILL)

        _listen(heard, synced)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def at_every_operation(work: Callable[[], object], check: Callable[[int], None], root: Path) -> int:
    """Kill the work at each operation in turn, on the same store; gives how many there are."""
    before = root.with_name("before")
    shutil.copytree(root, before, symlinks=True)
    moment = 1
    while not survives(work, moment, root):
        check(moment)
        shutil.rmtree(root)
        shutil.copytree(before, root, symlinks=True)
        moment += 1
    check(moment)
    shutil.rmtree(before)
    return moment - 1


def refused(work: Callable[[], object], moment: int, number: int) -> tuple[bool, Exception | None]:
    """Do work on a disk that is full, or cannot be written, from some operation on.

    Args:
        work: What is done.
        moment: The first operation that fails, of those that such a disk refuses.
        number: `errno.ENOSPC` or `errno.EROFS`.

    Returns:
        Whether the work came so far, and what it raised.
    """
    count = 0

    def heard(event: str, arguments: tuple) -> None:
        nonlocal count
        writes = event == "open" and bool(
            (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        )
        changes = {"os.remove", "os.rmdir", "os.chmod", "os.utime"}
        if writes or event in NEED_ROOM or (number == errno.EROFS and event in changes):
            count += 1
            if count >= moment:
                raise OSError(number, os.strerror(number))

    _listen(heard, set())
    try:
        work()
    except Exception as error:
        return count >= moment, error
    finally:
        _listen(None, set())
    return count >= moment, None
