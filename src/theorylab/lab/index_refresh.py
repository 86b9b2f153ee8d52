"""How the index follows the files: a folder that did not change is not read again.

A folder's time of change tells whether something in it was added, renamed or deleted, and that is
all that ever happens to outcomes. A time that is a moment ago is not kept: much happens in one tick
of the clock. A file that somebody changes in place is seen by `theorylab verify`, not here.
"""

import datetime
import json
import math
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .walking import is_outcome, subfolders

VERSION = 1  # of the tables; another number, and the index is made anew
BATCH = 2000  # outcomes that are lost at most when the index is stopped while it is built
_SETTLED = 2 * 10**9  # nanoseconds after which a time of change says all
_UNSETTLED = -1
_LARGEST = 2**63  # of SQLite's whole numbers

SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE folders (path TEXT PRIMARY KEY, parent TEXT, changed INTEGER) WITHOUT ROWID;
CREATE TABLE outcomes (
    id INTEGER PRIMARY KEY, folder TEXT, key TEXT, inode INTEGER, changed INTEGER, fault TEXT,
    title TEXT, preset TEXT, seconds REAL, date TEXT, config TEXT, verdicts TEXT,
    UNIQUE (folder, key)
);
CREATE INDEX faults ON outcomes (folder, key) WHERE fault IS NOT NULL;
CREATE TABLE names (folder TEXT, name TEXT, PRIMARY KEY (folder, name)) WITHOUT ROWID;
CREATE TABLE fields (
    outcome INTEGER, name TEXT, place INTEGER, number, text TEXT,
    PRIMARY KEY (outcome, name, place)
) WITHOUT ROWID;
CREATE TABLE claims (
    id INTEGER PRIMARY KEY, statement TEXT, kind TEXT, source TEXT, system TEXT, place TEXT,
    expected TEXT, UNIQUE (statement, kind, source, system, place, expected)
);
CREATE TABLE findings (
    outcome INTEGER, place INTEGER, claim INTEGER, verdict TEXT, value REAL, low REAL, high REAL,
    PRIMARY KEY (outcome, place)
) WITHOUT ROWID;
PRAGMA user_version = {VERSION};
COMMIT;
"""


class _Seen(NamedTuple):
    """An outcome's folder, as it was when it was read."""

    inode: int
    changed: int


def make(index: sqlite3.Connection) -> None:
    """Make the tables, unless they are there.

    Raises:
        sqlite3.Error: It is no index, or one of another version.
    """
    (version,) = index.execute("PRAGMA user_version").fetchone()
    (tables,) = index.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        index.executescript(SCHEMA)
    elif version != VERSION:
        raise sqlite3.DatabaseError(f"the index is of version {version}")


def is_current(index: sqlite3.Connection, root: Path) -> bool:
    """Whether the index says what the files say; it looks at folders only."""
    if index.execute("PRAGMA user_version").fetchone() != (VERSION,):
        return False
    known = index.execute("SELECT path, changed FROM folders").fetchall()
    return (
        bool(known)
        and all(
            changed != _UNSETTLED and _changed(root / path) == changed for path, changed in known
        )
        and not any(True for _ in _mended(index, root))
    )


def refresh(index: sqlite3.Connection, root: Path) -> None:
    """Bring the index up to the files; what was done stays done when it is stopped.

    Args:
        index: Which nobody else changes.
        root: The folder of the store.
    """
    known: dict[str, int] = dict(index.execute("SELECT path, changed FROM folders"))
    inside: dict[str, list[str]] = {}
    for path, parent in index.execute("SELECT path, parent FROM folders WHERE path != ''"):
        inside.setdefault(parent, []).append(path)
    for path in _mended(index, root):
        known[path] = _UNSETTLED
    waiting, visited, seen = [""], set(), set()
    while waiting:
        path = waiting.pop()
        try:
            state = os.stat(root / path)
            if (state.st_dev, state.st_ino) in seen:  # a link back
                continue
            seen.add((state.st_dev, state.st_ino))
            if known.get(path, _UNSETTLED) == state.st_mtime_ns:
                waiting += inside.get(path, [])
            else:
                waiting += _scan(index, root, path, state.st_mtime_ns)
        except OSError:
            continue  # it is gone, and with it what was in it
        visited.add(path)
    gone = [(path,) for path in known.keys() - visited]
    with _transaction(index):
        index.executemany("DELETE FROM folders WHERE path = ?", gone)
        for (path,) in gone:
            _forget(index, "SELECT id FROM outcomes WHERE folder = ?", (path,))


def _changed(folder: Path) -> int:
    """When a folder changed; a number that is no time if it is gone."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return _UNSETTLED


def _mended(index: sqlite3.Connection, root: Path) -> Iterator[str]:
    """The folders of outcomes that could not be read and have changed since."""
    damaged = index.execute("SELECT folder, key, changed FROM outcomes WHERE fault IS NOT NULL")
    for folder, key, changed in damaged.fetchall():
        if _changed(root / folder / key) != changed:
            yield folder


def _scan(index: sqlite3.Connection, root: Path, path: str, changed: int) -> list[str]:
    """Read one folder of experiments or outcomes; gives the folders in it that are no outcomes."""
    known = {
        key: (number, _Seen(inode, time_))
        for number, key, inode, time_ in index.execute(
            "SELECT id, key, inode, changed FROM outcomes WHERE folder = ?", (path,)
        )
    }
    folders, new, gone = [], [], set(known)
    for entry in subfolders(root / path):
        try:
            state = entry.stat()
        except OSError:  # deleted a moment ago
            continue
        seen = _Seen(state.st_ino & (2**63 - 1), state.st_mtime_ns)
        if entry.name in known and known[entry.name][1] == seen:
            gone.discard(entry.name)
        elif path and is_outcome(entry.path):
            new.append((entry.name, seen))
        else:
            folders.append(f"{path}/{entry.name}" if path else entry.name)
    with _transaction(index):
        index.execute("UPDATE folders SET changed = ? WHERE path = ?", (_UNSETTLED, path))
        for name in gone:
            _forget(index, "SELECT ?", (known[name][0],))
    _add(index, root, path, new)
    settled = time.time_ns() - changed > _SETTLED
    with _transaction(index):
        row = (path, os.path.dirname(path), changed if settled else _UNSETTLED)
        index.execute("INSERT OR REPLACE INTO folders VALUES (?, ?, ?)", row)
        # Who is stopped before these are read reads them the next time.
        rows = [(folder, path, _UNSETTLED) for folder in folders]
        index.executemany("INSERT OR IGNORE INTO folders VALUES (?, ?, ?)", rows)
    return folders


def _add(index: sqlite3.Connection, root: Path, path: str, new: list[tuple[str, _Seen]]) -> None:
    """Read outcomes that the index does not have."""
    if not new:
        return
    from theorylab.answers.reading import UNREADABLE  # NumPy, which a question need not load

    from .outcome_files import WORDS, read_outcome, what_is_wrong

    for first in range(0, len(new), BATCH):
        with _transaction(index):
            for key, seen in new[first : first + BATCH]:
                folder = root / path / key
                try:
                    outcome = read_outcome(folder, WORDS)
                except UNREADABLE as error:
                    if folder.is_dir():
                        values = (path, key, *seen, _text(what_is_wrong(error)))
                        index.execute(
                            "INSERT INTO outcomes (folder, key, inode, changed, fault)"
                            " VALUES (?, ?, ?, ?, ?)",
                            values,
                        )
                    continue
                _insert(index, path, key, seen, outcome)


def _insert(index: sqlite3.Connection, path: str, key: str, seen: _Seen, outcome: Any) -> None:
    """Add the rows of one outcome."""
    verdicts: dict[str, int] = {}
    for judged in outcome.judged:
        verdict = str(judged.finding.verdict)
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    number = index.execute(
        "INSERT INTO outcomes (folder, key, inode, changed, title, preset, seconds, date, config,"
        " verdicts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            path,
            key,
            *seen,
            _text(outcome.title),
            _text(outcome.preset),
            outcome.seconds,
            date_of(seen.changed),
            json.dumps(outcome.config),
            json.dumps(verdicts),
        ),
    ).lastrowid
    fields = list(_fields(outcome.config))
    index.executemany(
        "INSERT INTO fields VALUES (?, ?, ?, ?, ?)", [(number, *row) for row in fields]
    )
    names = {(path, _text(name)) for name in outcome.config}
    index.executemany("INSERT OR IGNORE INTO names VALUES (?, ?)", names)
    for place, judged in enumerate(outcome.judged):
        finding, source = judged.finding, judged.source
        said = (judged.statement, judged.kind, source.key, source.system, source.place)
        row = (number, place, _claim(index, (*map(_text, said), str(judged.expected))))
        values = (str(finding.verdict), finding.measured, finding.low, finding.high)
        index.execute("INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, *values))


def _claim(index: sqlite3.Connection, said: tuple[str, ...]) -> int:
    """The number of a claim, which many outcomes share."""
    sql = (
        "SELECT id FROM claims WHERE statement = ? AND kind = ? AND source = ? AND system = ?"
        " AND place = ? AND expected = ?"
    )
    found = index.execute(sql, said).fetchone()
    if found:
        return found[0]
    more = "INSERT INTO claims (statement, kind, source, system, place, expected)"
    return index.execute(f"{more} VALUES (?, ?, ?, ?, ?, ?)", said).lastrowid or 0


def _fields(config: dict[str, Any]) -> Iterator[tuple[str, int, int | float | None, str | None]]:
    """The fields of a config: name, place in a list, and the number or the text."""
    for name, value in config.items():
        for place, entry in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(entry, bool):
                yield _text(name), place, None, str(entry).lower()
            elif isinstance(entry, str):
                yield _text(name), place, None, _text(entry)
            else:
                yield _text(name), place, _number(entry), None


def _number(value: int | float) -> int | float:
    """A number that SQLite takes; whole ones that are too large become infinite at last."""
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return value


def _text(text: str) -> str:
    """A text that SQLite takes: what is no character is replaced."""
    return text.encode("utf-8", "replace").decode()


def date_of(nanoseconds: int) -> str:
    """A time as a date of UTC.

    Example:
        >>> date_of(0)
        '1970-01-01T00:00:00'
    """
    try:
        moment = datetime.datetime.fromtimestamp(nanoseconds // 10**9, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def _forget(index: sqlite3.Connection, chosen: str, values: tuple) -> None:
    """Delete outcomes from the index."""
    numbers = index.execute(chosen, values).fetchall()
    for table, column in (("fields", "outcome"), ("findings", "outcome"), ("outcomes", "id")):
        index.executemany(f"DELETE FROM {table} WHERE {column} = ?", numbers)


class _transaction:
    """What is done inside is kept as a whole."""

    def __init__(self, index: sqlite3.Connection) -> None:
        self._index = index

    def __enter__(self) -> None:
        self._index.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._index.execute("ROLLBACK" if kind else "COMMIT")
