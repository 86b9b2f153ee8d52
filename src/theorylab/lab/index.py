"""The index: what every outcome of a store is and found, in SQLite, so that questions are fast.

    files ─► refresh ─► outcomes, fields, findings, claims ─► find ─► Found

The files are the truth. Before each question the folders of experiments are looked at: one whose
time of change is as the index knows it has the outcomes that the index knows. An index that is
lost, damaged or of another version is made anew; where none can be written there is one in memory.
"""

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from .failure import Refused
from .found import Found, Hit
from .index_place import IndexPlace, index_places, locked, ready
from .index_refresh import is_current, make, refresh
from .requests import nearest
from .where import Condition, condition
from .writing import WRITING

T = TypeVar("T")


def find(
    root: Path,
    where: str = "",
    experiment: str = "",
    limit: int | None = None,
    rebuild: bool = False,
    with_findings: bool = True,
) -> Found:
    """Find outcomes by what they are and by what was found.

    Args:
        root: The folder of the store.
        where: What must hold, in the language of `where`; empty for everything.
        experiment: Its name, or the name of a folder of experiments; all unless given.
        limit: How many are found at most.
        rebuild: Whether the index is made anew, from all files.
        with_findings: Whether the findings that are asked for are read too.

    Raises:
        Refused: The text cannot be read, or nothing has such a name; says where.
    """
    asked = condition(where)
    if limit is not None and limit < 0:
        raise Refused(f"limit must be at least 0, got {limit}.")
    if not root.is_dir():
        raise Refused(f"there is no store in {root}.")
    if any(root.glob(f"{WRITING}*/")):  # what a killed process was replacing goes to its place
        from .store import Store

        Store(root).finish()

    def question(index: sqlite3.Connection) -> Found:
        return _found(index, root, asked, experiment.strip("/"), limit, with_findings)

    return ask(root, question, rebuild)


def ask(root: Path, question: Callable[[sqlite3.Connection], T], rebuild: bool = False) -> T:
    """Ask the index of a store, as the files are now.

    Args:
        root: The folder of the store.
        question: Asks it.
        rebuild: Whether it is made anew.
    """
    for place in index_places(root):
        for fresh in (rebuild, True):  # whatever is wrong with it, a new one may do
            try:
                return _ask_at(place, root, question, fresh)
            except Refused:
                raise
            except TimeoutError:
                break
            except Exception:  # an index from elsewhere may say anything
                continue
    with closing(_opened(":memory:")) as index:
        make(index)
        refresh(index, root)
        return question(index)


def where_is(root: Path) -> IndexPlace | None:
    """The place of the index that is there, with why; None if there is none yet."""
    return next((place for place in index_places(root) if place.path.is_file()), None)


def _ask_at(
    place: IndexPlace, root: Path, question: Callable[[sqlite3.Connection], T], fresh: bool
) -> T:
    """Ask the index in one place; many may ask at once, one brings it up to the files."""
    ready(place)
    if not fresh and place.path.is_file():
        with locked(place, alone=False):
            place.require_whole()
            with closing(_opened(place.path)) as index:
                if is_current(index, root):
                    return question(index)
    with locked(place, alone=True):
        if fresh:
            place.remove()
        try:
            if place.path.is_file():
                place.require_whole()
            place.open()
            with closing(_opened(place.path)) as index:
                make(index)
                refresh(index, root)
            place.close()
            with closing(_opened(place.path)) as index:
                return question(index)
        except (OSError, sqlite3.Error):
            place.remove()  # a full disk needs the room, a damaged index is of no use
            raise


def _opened(path: Path | str) -> sqlite3.Connection:
    """Open an index, of whatever version."""
    index = sqlite3.connect(path, isolation_level=None, timeout=30)
    try:
        index.execute("PRAGMA trusted_schema = OFF")
        index.execute("PRAGMA cache_size = -65536")  # KiB
        index.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        index.close()
        raise
    return index


def _found(
    index: sqlite3.Connection,
    root: Path,
    asked: Condition,
    experiment: str,
    limit: int | None,
    with_findings: bool,
) -> Found:
    """Ask the index that is up to date."""
    folders = [name for (name,) in index.execute("SELECT DISTINCT folder FROM outcomes")]
    chosen = [name for name in folders if f"{name}/".startswith(f"{experiment}/")]
    if experiment and not chosen:
        raise Refused(f"the store has no outcome of {experiment!r}.{nearest(experiment, folders)}")
    known = {
        name
        for folder, name in index.execute("SELECT folder, name FROM names")
        if not experiment or folder in chosen
    }
    if folders:
        asked.require(known)
    part, values = asked.part, ()
    sql = f"FROM outcomes o WHERE o.fault IS NULL AND {part.sql}"
    if experiment:
        sql += " AND (o.folder = ? OR substr(o.folder, 1, ?) = ?)"
        values = (experiment, len(experiment) + 1, f"{experiment}/")
    rows = index.execute(
        f"SELECT o.id, o.folder, o.key, o.title, o.preset, o.date, o.seconds, o.config, o.verdicts"
        f" {sql} ORDER BY o.folder, o.changed, o.key LIMIT ?",
        (*part.values, *values, -1 if limit is None else min(limit, sys.maxsize)),
    ).fetchall()
    faults = "SELECT folder, key, fault FROM outcomes WHERE fault IS NOT NULL ORDER BY folder, key"
    chosen = [row[0] for row in rows]
    findings = _findings(index, asked, chosen) if with_findings else ([] for _ in chosen)
    return Found(
        root,
        tuple(Hit.of(row[1:], found) for row, found in zip(rows, findings, strict=True)),
        tuple(index.execute(faults)),
        tuple(asked.fields),
    )


def _findings(
    index: sqlite3.Connection, asked: Condition, chosen: list[int]
) -> Iterator[list[tuple]]:
    """Of each outcome the findings that are asked for, all of them if none are."""
    part = asked.finding
    more, values = (f" AND {part.sql}", part.values) if part else ("", ())
    sql = (
        "SELECT c.statement, c.kind, c.source, c.system, c.place, c.expected, f.verdict, f.value,"
        " f.low, f.high FROM outcomes o JOIN findings f ON f.outcome = o.id"
        f" JOIN claims c ON c.id = f.claim WHERE o.id = ?{more} ORDER BY f.place"
    )
    for number in chosen:
        yield index.execute(sql, (number, *values)).fetchall()
