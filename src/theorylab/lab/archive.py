"""Outcomes as one file: written from a store, checked on the way into another.

    <experiment>/<key>/manifest.json, config.json, …     of every outcome, one after the other
    theorylab-outcomes.json                              at the end: what must have come before

It is a tar archive that any program unpacks. Whoever made it is not trusted: what it holds is read
whole, checked and written under names of our own; only when the end has come are outcomes renamed
to their places. One that the store has already is kept.
"""

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from theorylab.answers.reading import UNREADABLE, read_json
from theorylab.version import __version__

from .failure import Refused, one_line
from .outcome_files import FILES, MANIFEST, MOST_OF_MANIFEST, parsed, read_files, reason, to_json
from .store import Store, place
from .ustar import END, Archive, Entry, header, padding
from .walking import SET_ASIDE, is_outcome
from .writing import flush_folder, remove_folder, sweep_beside, write_durably, writer

FORMAT = 1
CONTENTS = "theorylab-outcomes.json"
MOST = 10**6  # outcomes
_MOST_OF_CONTENTS = 2**28  # bytes
_SIZES = {MANIFEST: MOST_OF_MANIFEST} | FILES
_NAME = re.compile(r"((?:\w[\w.-]{0,99}/){1,16})([0-9a-f]{1,64})/([a-z]+\.[a-z]+)")


class Exported(NamedTuple):
    """What became of an export."""

    outcomes: int
    size: int  # bytes
    left_out: int  # damaged ones


class Imported(NamedTuple):
    """What became of an import."""

    added: int
    kept: int  # the store had them already


def export(
    store: Store, folders: Iterable[Path], file: Path, notice: Callable[[str], None]
) -> Exported:
    """Write outcomes to an archive, which is there whole or not at all.

    Args:
        store: From which they are.
        folders: Of the outcomes.
        file: The archive, which must not be there yet.
        notice: Hears of outcomes that are damaged, which are left out.

    Raises:
        Refused: There is such a file.
    """
    if os.path.lexists(file):
        raise Refused(f"export writes a new file, and {file} is there already.")
    sweep_beside(file)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}{writer()}", dir=file.parent)
    listed, left_out = [], 0
    try:
        with os.fdopen(handle, "wb") as target:
            for folder in folders:
                try:
                    listed.append(_write_outcome(target, store.root, folder))
                except _LeftOut as error:
                    left_out += 1
                    notice(f"{error}; left out.")
            words = {"format": FORMAT, "theorylab": __version__, "outcomes": listed}
            _write(target, CONTENTS, to_json(words).encode(), time.time())
            target.write(END)
            target.flush()
            os.fsync(target.fileno())
            size = target.tell()
        os.chmod(name, 0o644)  # mkstemp keeps others out
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    flush_folder(file.parent)
    return Exported(len(listed), size, left_out)


def import_archive(store: Store, file: Path) -> Imported:
    """Bring the outcomes of an archive into a store: all of them, or none.

    Args:
        store: Where they go.
        file: The archive.

    Raises:
        Refused: It is not whole, or holds what is no outcome; the store is as it was.
    """
    store.prepare()
    with _plain(file) as source:
        length = os.fstat(source.fileno()).st_size
        free = shutil.disk_usage(store.root).free
        if length > free:
            raise Refused(f"{file} needs {length} bytes in the store, there is room for {free}.")
        draft = Path(tempfile.mkdtemp(prefix=writer(), dir=store.root))
        try:
            staged, kept = _staged(store, source, draft, file)
            added = [goal for new, goal in staged if place(new, goal)]
            for folder in {goal.parent for goal in added}:
                flush_folder(folder)
        finally:
            remove_folder(draft)
    return Imported(len(added), kept + len(staged) - len(added))


class _LeftOut(Exception):
    """An outcome is damaged."""


def _write_outcome(target: BinaryIO, root: Path, folder: Path) -> dict[str, str]:
    """Write the files of one outcome; gives what the end of the archive says of it."""
    experiment = folder.parent.relative_to(root).as_posix()
    try:
        contents = read_files(folder, FILES)
        if parsed(contents, folder.name).experiment != experiment:
            raise ValueError("it is of another experiment than its folder")
        modified = folder.stat().st_mtime
        names = {name: f"{experiment}/{folder.name}/{name}" for name in contents}
        if not all(map(_NAME.fullmatch, names.values())):
            raise ValueError("its name cannot be written to an archive")
        for name, content in contents.items():
            header(Entry(names[name], len(content), 0))
    except UNREADABLE as error:
        raise _LeftOut(reason(folder, error)) from None
    for name, content in contents.items():
        _write(target, names[name], content, modified)
    sums = hashlib.sha256(contents[MANIFEST]).hexdigest()
    return {"experiment": experiment, "key": folder.name, "manifest": sums}


def _write(target: BinaryIO, name: str, content: bytes, modified: float) -> None:
    target.write(header(Entry(name, len(content), int(modified))))
    target.write(content)
    target.write(padding(len(content)))


@contextmanager
def _plain(file: Path) -> Iterator[BinaryIO]:
    """Open a plain file; a pipe without a writer would wait for ever."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(file, flags)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Refused(f"import reads an archive of outcomes, got {file}: {why}.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Refused(f"import reads a plain file, got {file}.")
    with os.fdopen(descriptor, "rb") as source:
        yield source


def _staged(
    store: Store, source: BinaryIO, draft: Path, file: Path
) -> tuple[list[tuple[Path, Path]], int]:
    """Check everything and write what is new to the draft; gives where it goes, and what is kept.

    Raises:
        Refused: Something in the archive is not as it must be.
    """
    staged: list[tuple[Path, Path]] = []
    sums: dict[str, str] = {}
    try:
        for name, contents, modified in _outcomes(Archive(source), sums):
            goal = store.root / name
            _require_no_outcome_around(store.root, goal)
            if os.path.lexists(goal):
                continue
            new = draft / f"{len(staged):07d}"
            _write_folder(new, contents, min(modified, time.time()))
            staged.append((new, goal))
    except OSError:
        raise  # the disk is to blame
    except UNREADABLE as error:
        raise Refused(f"{file} cannot be imported: {one_line(error)}; nothing was.") from None
    return staged, len(sums) - len(staged)


def _write_folder(folder: Path, contents: dict[str, bytes], modified: float) -> None:
    """Write an outcome to the draft, as old as it was in its first store."""
    folder.mkdir()
    for name, content in contents.items():
        write_durably(folder / name, content)
    os.utime(folder, (modified, modified))
    flush_folder(folder)


def _outcomes(
    archive: Archive, sums: dict[str, str]
) -> Iterator[tuple[str, dict[str, bytes], float]]:
    """Every outcome of an archive, checked; `sums` has the checksums of their manifests then.

    Raises:
        One of UNREADABLE: Something is not as it must be.
    """
    contents: dict[str, bytes] = {}
    current = ""
    for entry in archive.entries():
        if entry.name == CONTENTS:
            if contents:
                raise ValueError(f"{current} is not whole")
            _require_same(read_json(archive.read(_MOST_OF_CONTENTS)), sums)
            return
        found = _NAME.fullmatch(entry.name)
        if not found or found[3] not in _SIZES or _is_strange(found[1]):
            raise ValueError(f"{entry.name[:100]!r} is no name of a file of an outcome")
        name = f"{found[1]}{found[2]}"
        if (contents and name != current) or name in sums or found[3] in contents:
            raise ValueError(f"{entry.name[:100]!r} is there twice, or out of order")
        current = name
        contents[found[3]] = archive.read(_SIZES[found[3]])
        if len(contents) == len(_SIZES):
            sums[name] = _checked(name, contents)
            if len(sums) > MOST:
                raise ValueError(f"it has more than {MOST} outcomes")
            yield name, contents, float(entry.modified)
            contents = {}
    raise ValueError("it is cut off: its list of contents is missing")


def _is_strange(folders: str) -> bool:
    """Whether a part of an experiment's name is one that the store gives to something else."""
    return any(SET_ASIDE.fullmatch(part) for part in folders.split("/"))


def _checked(name: str, contents: dict[str, bytes]) -> str:
    """Check an outcome as if it were in the store; gives the checksum of its manifest."""
    experiment, _, key = name.rpartition("/")
    try:
        said = parsed(contents, key).experiment
    except UNREADABLE as error:
        raise ValueError(f"{name} is damaged ({one_line(error, 100)})") from None
    if said != experiment:
        raise ValueError(f"{name} is of another experiment, {said[:100]!r}")
    return hashlib.sha256(contents[MANIFEST]).hexdigest()


def _require_same(words: Any, sums: dict[str, str]) -> None:
    """Refuse an archive whose end does not list what came before."""
    if words["format"] != FORMAT:
        raise ValueError(f"it must be of format {FORMAT}, got {words['format']!r}")
    listed = {f"{each['experiment']}/{each['key']}": each["manifest"] for each in words["outcomes"]}
    if listed != sums:
        raise ValueError("it does not hold what its list of contents says")
    for name in sums:  # an outcome inside another one would hide it
        parts = name.split("/")
        if any("/".join(parts[:number]) in sums for number in range(1, len(parts))):
            raise ValueError(f"{name} would be inside of another outcome")


def _require_no_outcome_around(root: Path, goal: Path) -> None:
    """Refuse a place inside of an outcome that the store has: it would hide that one."""
    folder = goal.parent
    while folder != root:
        if is_outcome(folder) and any(folder.iterdir()):
            raise ValueError(f"{goal.relative_to(root)} would be inside of another outcome")
        folder = folder.parent
