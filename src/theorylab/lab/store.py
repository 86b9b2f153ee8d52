"""The store keeps outcomes: a run is there whole or not at all, and is not run again.

    <root>/<experiment>/<key>/
        config.json  findings.json  outcome.json    what a person reads
        arrays.npz   figure.svg                     what was measured
        manifest.json                               SHA-256 of all of these

An outcome is written to a temporary folder in the root, flushed to the disk, and renamed. One that
is replaced waits in that folder until the new one is in its place, so that none is ever missing.
"""

import json
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from theorylab.answers.reading import UNREADABLE, read_capped

from .failure import Refused
from .folders import require_writable
from .outcome import Outcome
from .outcome_files import (
    FILES,
    READ_BY_PEOPLE,
    contents,
    read_outcome,
    reason,
    what_is_wrong,
)
from .walking import SET_ASIDE, outcome_folders
from .writing import (
    WRITING,
    flush_folder,
    is_abandoned,
    remove_folder,
    write_durably,
    writer,
)

if TYPE_CHECKING:
    from .found import Found

Notice = Callable[[str], None]  # hears one line about something the user should know

_WINDOW = 60  # seconds in which a living process puts a new outcome into the place of an old one

_PATIENCE = 5  # times that a folder is made again which another process found empty and deleted

# Inside a temporary folder:
_NEW, _OLD, _GOAL = "outcome", "replaced", "goal"


class Verified(NamedTuple):
    """An outcome that was read and compared with its checksums."""

    folder: Path
    fault: str = ""  # what is wrong with it; empty if nothing is


@dataclass(frozen=True)
class Store:
    """A folder of outcomes."""

    root: Path

    def prepare(self) -> None:
        """Make sure that outcomes can be written, and sweep up what killed processes left.

        Raises:
            Refused: The folder cannot be made or written.
        """
        require_writable(self.root, "store")
        for draft in self.drafts():
            self._finish(draft)
            if is_abandoned(draft):
                remove_folder(draft)

    def path(self, experiment: str, key: str) -> Path:
        """Where an outcome is, or would be."""
        return self.root / experiment / key

    def recall(self, experiment: str, key: str, notice: Notice) -> Outcome | None:
        """Read an outcome, or set it aside and say so if it is not whole; None if there is none."""
        folder = self.path(experiment, key)
        if not folder.is_symlink() and not folder.exists():
            return None
        try:
            return read_outcome(folder, FILES)
        except UNREADABLE as error:
            aside = _set_aside(folder)
            notice(f"{reason(folder, error)}; set aside as {aside.name}, running again.")
            return None

    def outcomes(self, notice: Notice) -> list[Outcome]:
        """Read every outcome without its arrays, of one config the latest only."""
        self.finish()
        latest: dict[str, Outcome] = {}
        for folder in self.folders():
            try:
                outcome = read_outcome(folder, READ_BY_PEOPLE)
            except UNREADABLE as error:
                notice(f"{reason(folder, error)}; left out.")
                continue
            config = json.dumps(outcome.config, sort_keys=True)
            latest[f"{outcome.experiment} {config}"] = outcome
        return sorted(latest.values(), key=lambda outcome: (outcome.experiment, outcome.key))

    def readable(self) -> Iterator[tuple[Path, Outcome]]:
        """Every outcome that can be read, without its arrays, with its folder."""
        for folder in self.folders():
            with suppress(*UNREADABLE):
                yield folder, read_outcome(folder, READ_BY_PEOPLE)

    def verified(self) -> Iterator[Verified]:
        """Every outcome, with what is wrong with it; all of it is read and compared."""
        for folder in self.folders():
            try:
                read_outcome(folder, FILES)
            except UNREADABLE as error:
                if folder.is_dir():  # else another process has deleted it
                    yield Verified(folder, what_is_wrong(error))
            else:
                yield Verified(folder)

    def damaged(self) -> Iterator[Path]:
        """The folders of outcomes that cannot be read."""
        return (each.folder for each in self.verified() if each.fault)

    def set_aside(self) -> list[Path]:
        """The folders of damaged outcomes that were set aside."""
        folders = self.root.glob("[!.]*/**/*.damaged-*/")
        return sorted(path for path in folders if SET_ASIDE.fullmatch(path.name))

    def find(
        self, where: str = "", experiment: str = "", limit: int | None = None, rebuild: bool = False
    ) -> "Found":
        """Find outcomes by what they are and by what was found, fast however many there are.

        Args:
            where: What must hold: `"width >= 256 and verdict = 'refuted'"`; the page on the store
                has the language.
            experiment: Its name, or the name of a folder of experiments; all unless given.
            limit: How many are found at most.
            rebuild: Whether the index is made anew, from all files.

        Raises:
            Refused: The text cannot be read; says where.
        """
        from .index import find

        return find(self.root, where, experiment, limit, rebuild)

    def finish(self) -> None:
        """Put what killed processes were replacing into its place."""
        for draft in self.drafts():
            self._finish(draft)

    def delete(self, folder: Path) -> None:
        """Delete an outcome, at once or not at all, and the folders that are empty then."""
        draft = self.root / f"{writer()}{secrets.token_hex(8)}"  # a full disk has no room for more
        with suppress(FileNotFoundError):  # another process was faster
            folder.rename(draft)
        remove_folder(draft)
        for parent in folder.parents:
            if parent == self.root:
                break
            try:
                parent.rmdir()
            except OSError:  # others are in it
                break

    def write(self, outcome: Outcome, replace: bool = False) -> Path:
        """Write an outcome, whole or not at all; the first of two writers wins.

        Args:
            outcome: What was run.
            replace: Whether it takes the place of one that is there already.

        Raises:
            ValueError: It is larger than what is read back.
        """
        goal = self.path(outcome.experiment, outcome.key)
        draft = Path(tempfile.mkdtemp(prefix=writer(), dir=self.root))
        try:
            new = draft / _NEW
            new.mkdir()
            for name, content in contents(outcome).items():
                write_durably(new / name, content)
            flush_folder(new)
            write_durably(draft / _GOAL, f"{outcome.experiment}/{outcome.key}".encode())
            flush_folder(draft)
            if replace:  # from here on, whoever finds this folder can finish it
                with suppress(FileNotFoundError):
                    goal.rename(draft / _OLD)
            try:
                place(new, goal)
            except OSError:
                with suppress(OSError):
                    (draft / _OLD).rename(goal)
                raise
            flush_folder(goal.parent)
        finally:
            if goal.is_dir() or not (draft / _OLD).exists():
                remove_folder(draft)
        return goal

    def folders(self) -> list[Path]:
        """The folders of all outcomes, the oldest first."""
        ages = []
        for entry in outcome_folders(self.root):
            with suppress(OSError):
                ages.append((entry.stat().st_mtime, Path(entry.path)))
        return [folder for _, folder in sorted(ages)]

    def drafts(self) -> Iterator[Path]:
        """The temporary folders of all who write or wrote here."""
        yield from self.root.glob(f"{WRITING}*/")

    def _finish(self, draft: Path) -> None:
        """Put what a killed process was replacing into its place: the new outcome, or the old."""
        if not (draft / _OLD).exists():
            return
        with suppress(*UNREADABLE):
            busy = not is_abandoned(draft) and time.time() - draft.stat().st_mtime < _WINDOW
            name = read_capped(draft / _GOAL, 2**12).decode()
            if busy or not re.fullmatch(r"(\w[\w.-]*/)+[0-9a-f]+", name):
                return
            for version in (_NEW, _OLD):
                goal = self.root / name
                if (draft / version).is_dir() and not goal.exists():
                    goal.parent.mkdir(parents=True, exist_ok=True)
                    (draft / version).rename(goal)


def place(new: Path, goal: Path) -> bool:
    """Rename a folder to its place in the store; whether nobody else was there before.

    Raises:
        OSError: It cannot be renamed.
    """
    for attempt in range(_PATIENCE):
        goal.parent.mkdir(parents=True, exist_ok=True)
        try:
            new.rename(goal)
            return True
        except OSError as error:
            if goal.is_dir():
                return False
            # Another process may just have deleted the last outcome beside it, and the folder.
            if not isinstance(error, FileNotFoundError) or attempt == _PATIENCE - 1:
                raise
    return False


def _set_aside(folder: Path) -> Path:
    """Give a folder another name beside its old one, and keep it."""
    number = 1
    while (aside := folder.with_name(f"{folder.name}.damaged-{number}")).exists():
        number += 1
    try:
        return folder.rename(aside)
    except OSError as error:
        raise Refused(
            f"the damaged outcome in {folder} must be moved away: {error.strerror}."
        ) from None
