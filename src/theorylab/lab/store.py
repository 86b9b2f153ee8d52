"""The store keeps outcomes: a run is there whole or not at all, and is not run again.

    <root>/<experiment>/<key>/
        config.json  findings.json  outcome.json    what a person reads
        arrays.npz   figure.svg                     what was measured
        manifest.json                               SHA-256 of all of these

An outcome is written to a temporary folder in the root, flushed to the disk, and renamed. One that
is replaced waits in that folder until the new one is in its place, so that none is ever missing.
"""

import hashlib
import io
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from theorylab.answers.reading import UNREADABLE, read_arrays, read_capped, read_json

from .failure import Refused, one_line
from .folders import require_writable
from .outcome import Outcome
from .outcome_json import outcome_json, outcome_of
from .writing import (
    WRITING,
    flush_folder,
    is_abandoned,
    remove_folder,
    write_durably,
    writer,
)

Notice = Callable[[str], None]  # hears one line about something the user should know

# What an outcome consists of, and how many bytes of it are read at most.
_READ_BY_PEOPLE = {
    "config.json": 2**20,
    "findings.json": 2**24,
    "outcome.json": 2**22,
    "figure.svg": 2**26,
}
_FILES = _READ_BY_PEOPLE | {"arrays.npz": 2**32}
_MANIFEST = "manifest.json"
_MOST_OF_MANIFEST = 2**16
_WINDOW = 60  # seconds in which a living process puts a new outcome into the place of an old one

_SET_ASIDE = r"[0-9a-f]+\.damaged-[0-9]+"  # the name of an outcome that was set aside

# Inside a temporary folder:
_NEW, _OLD, _GOAL = "outcome", "replaced", "goal"


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
        for draft in self._drafts():
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
            return _read(folder, _FILES)
        except UNREADABLE as error:
            aside = _set_aside(folder)
            notice(f"{_reason(folder, error)}; set aside as {aside.name}, running again.")
            return None

    def outcomes(self, notice: Notice) -> list[Outcome]:
        """Read every outcome without its arrays, of one config the latest only."""
        for draft in self._drafts():
            self._finish(draft)
        latest: dict[str, Outcome] = {}
        for folder in self.folders():
            try:
                outcome = _read(folder, _READ_BY_PEOPLE)
            except UNREADABLE as error:
                notice(f"{_reason(folder, error)}; left out.")
                continue
            config = json.dumps(outcome.config, sort_keys=True)
            latest[f"{outcome.experiment} {config}"] = outcome
        return sorted(latest.values(), key=lambda outcome: (outcome.experiment, outcome.key))

    def readable(self) -> Iterator[tuple[Path, Outcome]]:
        """Every outcome that can be read, without its arrays, with its folder."""
        for folder in self.folders():
            with suppress(*UNREADABLE):
                yield folder, _read(folder, _READ_BY_PEOPLE)

    def damaged(self) -> Iterator[Path]:
        """The folders of outcomes that cannot be read."""
        for folder in self.folders():
            try:
                _read(folder, _FILES)
            except UNREADABLE:
                yield folder

    def set_aside(self) -> list[Path]:
        """The folders of damaged outcomes that were set aside."""
        folders = self.root.glob("[!.]*/**/*.damaged-*/")
        return sorted(path for path in folders if re.fullmatch(_SET_ASIDE, path.name))

    def delete(self, folder: Path) -> None:
        """Delete an outcome, at once or not at all, and the folders that are empty then."""
        draft = Path(tempfile.mkdtemp(prefix=writer(), dir=self.root))
        try:
            folder.rename(draft / "deleted")
        finally:
            remove_folder(draft)
        for parent in folder.parents:
            if parent == self.root or any(parent.iterdir()):
                break
            parent.rmdir()

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
            for name, content in _contents(outcome).items():
                write_durably(new / name, content)
            flush_folder(new)
            write_durably(draft / _GOAL, f"{outcome.experiment}/{outcome.key}".encode())
            flush_folder(draft)
            goal.parent.mkdir(parents=True, exist_ok=True)
            if replace:  # from here on, whoever finds this folder can finish it
                with suppress(FileNotFoundError):
                    goal.rename(draft / _OLD)
            try:
                new.rename(goal)
            except OSError:
                if not goal.is_dir():  # nobody was faster: the disk is to blame
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
        for folder in self.root.glob("[!.]*/**/*/"):
            with suppress(OSError):
                if _is_outcome(folder):
                    ages.append((folder.stat().st_mtime, folder))
        return [folder for _, folder in sorted(ages)]

    def _drafts(self) -> Iterator[Path]:
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


def _is_outcome(folder: Path) -> bool:
    """Whether a folder is named like a key and has no others inside, whole or not."""
    return bool(re.fullmatch("[0-9a-f]+", folder.name)) and not any(folder.glob("*/"))


def to_json(value: Any) -> str:
    """JSON for people: indented, letters as they are; non-finite numbers are refused."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _contents(outcome: Outcome) -> dict[str, bytes]:
    """The files of an outcome; the same outcome gives the same bytes."""
    words = outcome_json(outcome)
    arrays = io.BytesIO()
    np.savez(arrays, allow_pickle=False, **outcome.arrays)  # pyright: ignore[reportArgumentType]
    contents = {
        "config.json": to_json(words.pop("config")).encode(),
        "findings.json": to_json(words.pop("findings")).encode(),
        "outcome.json": to_json(words).encode(),
        "figure.svg": outcome.figure.encode(),
        "arrays.npz": arrays.getvalue(),
    }
    for name, content in contents.items():
        if len(content) > _FILES[name]:
            raise ValueError(f"{name} must have at most {_FILES[name]} bytes, got {len(content)}.")
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return contents | {_MANIFEST: to_json(sums).encode()}


def _read(folder: Path, names: dict[str, int]) -> Outcome:
    """Read the named files of an outcome; raises one of UNREADABLE unless they are whole."""
    sums = read_json(read_capped(folder / _MANIFEST, _MOST_OF_MANIFEST))
    contents = {name: read_capped(folder / name, most) for name, most in names.items()}
    for name, content in contents.items():
        if sums[name] != hashlib.sha256(content).hexdigest():
            raise ValueError(f"{name} does not fit its checksum")
    words = read_json(contents["outcome.json"])
    words["config"] = read_json(contents["config.json"])
    words["findings"] = read_json(contents["findings.json"])
    if words["key"] != folder.name:
        raise ValueError(f"outcome.json is of another outcome, {words['key']!r}")
    arrays = read_arrays(contents["arrays.npz"]) if "arrays.npz" in contents else {}
    return outcome_of(words, arrays, contents["figure.svg"].decode())


def _reason(folder: Path, error: BaseException) -> str:
    """Name what cannot be read, and why."""
    if isinstance(error, OSError):
        file = f"{Path(error.filename).name}: " if error.filename else ""
        what = f"{file}{error.strerror or error}"
    elif isinstance(error, KeyError):
        what = f"there is no {error}"
    else:
        what = f"{error}" or type(error).__name__
    return f"the outcome in {folder} is damaged ({one_line(what)})"


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
