"""The store keeps outcomes: a run is there whole or not at all, and is not run again.

    <root>/<experiment>/<key>/
        config.json  findings.json  outcome.json    what a person reads
        arrays.npz   figure.svg                     what was measured
        manifest.json                               SHA-256 of all of these

An outcome is written to a temporary folder in the root, flushed to the disk, and renamed.
"""

import hashlib
import io
import json
import os
import re
import shutil
import socket
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .failure import Refused
from .folders import require_writable
from .outcome import Outcome
from .records import outcome_of, record

Notice = Callable[[str], None]  # hears one line about something the user should know

_READ_BY_PEOPLE = ("config.json", "findings.json", "outcome.json", "figure.svg")
_FILES = (*_READ_BY_PEOPLE, "arrays.npz")
_WRITING = ".writing-"
_DAY = 24 * 3600

# Everything that reading a truncated, garbled or forbidden file is known to raise.
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile)


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
        for folder in self.root.glob(f"{_WRITING}*"):
            if _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def path(self, experiment: str, key: str) -> Path:
        """Where an outcome is, or would be."""
        return self.root / experiment / key

    def recall(self, experiment: str, key: str, notice: Notice) -> Outcome | None:
        """Read an outcome, or set it aside and say so if it is not whole; None if there is none."""
        folder = self.path(experiment, key)
        if not folder.exists():
            return None
        try:
            return _read(folder, _FILES)
        except _UNREADABLE as error:
            aside = _set_aside(folder)
            notice(f"{_reason(folder, error)}; set aside as {aside.name}, running again.")
            return None

    def outcomes(self, notice: Notice) -> list[Outcome]:
        """Read every outcome without its arrays, of one config the latest only."""
        latest: dict[str, Outcome] = {}
        for folder in self._folders():
            try:
                outcome = _read(folder, _READ_BY_PEOPLE)
            except _UNREADABLE as error:
                notice(f"{_reason(folder, error)}; left out.")
                continue
            config = json.dumps(outcome.config, sort_keys=True)
            latest[f"{outcome.experiment} {config}"] = outcome
        return sorted(latest.values(), key=lambda outcome: (outcome.experiment, outcome.key))

    def write(self, outcome: Outcome, replace: bool = False) -> Path:
        """Write an outcome, whole or not at all; the first of two writers wins.

        Args:
            outcome: What was run.
            replace: Whether it takes the place of one that is there already.
        """
        goal = self.path(outcome.experiment, outcome.key)
        draft = Path(tempfile.mkdtemp(prefix=_writer(), dir=self.root))
        try:
            inner = draft / "outcome"
            inner.mkdir()
            for name, content in _contents(outcome).items():
                _write_durably(inner / name, content)
            _flush_folder(inner)
            goal.parent.mkdir(parents=True, exist_ok=True)
            if replace:
                with suppress(FileNotFoundError):
                    goal.rename(draft / "replaced")
            try:
                inner.rename(goal)
            except OSError:
                if not goal.is_dir():  # nobody was faster: the disk is to blame
                    raise
            _flush_folder(goal.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return goal

    def _folders(self) -> list[Path]:
        """The folders of all outcomes, the oldest first."""
        folders = filter(_is_outcome, self.root.glob("[!.]*/**/*/"))
        return sorted(folders, key=lambda path: path.stat().st_mtime)


def _is_outcome(folder: Path) -> bool:
    """Whether a folder is named like a key and has no others inside, whole or not."""
    return bool(re.fullmatch("[0-9a-f]+", folder.name)) and not any(folder.glob("*/"))


def to_json(value: Any) -> str:
    """JSON for people: indented, letters as they are; non-finite numbers are refused."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _contents(outcome: Outcome) -> dict[str, bytes]:
    """The files of an outcome; the same outcome gives the same bytes."""
    words = record(outcome)
    arrays = io.BytesIO()
    np.savez(arrays, allow_pickle=False, **outcome.arrays)  # pyright: ignore[reportArgumentType]
    contents = {
        "config.json": to_json(words.pop("config")).encode(),
        "findings.json": to_json(words.pop("findings")).encode(),
        "outcome.json": to_json(words).encode(),
        "figure.svg": outcome.figure.encode(),
        "arrays.npz": arrays.getvalue(),
    }
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return contents | {"manifest.json": to_json(sums).encode()}


def _read(folder: Path, names: tuple[str, ...]) -> Outcome:
    """Read the named files of an outcome; raises one of _UNREADABLE unless they are whole."""
    sums = json.loads((folder / "manifest.json").read_bytes())
    contents = {name: (folder / name).read_bytes() for name in names}
    for name, content in contents.items():
        if sums[name] != hashlib.sha256(content).hexdigest():
            raise ValueError(f"{name} does not fit its checksum")
    words = json.loads(contents["outcome.json"])
    words["config"] = json.loads(contents["config.json"])
    words["findings"] = json.loads(contents["findings.json"])
    if words["key"] != folder.name:
        raise ValueError(f"outcome.json is of another outcome, {words['key']}")
    arrays: dict[str, np.ndarray] = {}
    if "arrays.npz" in contents:
        with np.load(io.BytesIO(contents["arrays.npz"]), allow_pickle=False) as archive:
            arrays = dict(archive)
    return outcome_of(words, arrays, contents["figure.svg"].decode())


def _reason(folder: Path, error: BaseException) -> str:
    """Name what cannot be read, and why."""
    what = error.strerror if isinstance(error, OSError) else str(error)
    file = f"{Path(error.filename).name}: " if isinstance(error, OSError) and error.filename else ""
    return f"the outcome in {folder} is damaged ({file}{what})"


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


def _writer() -> str:
    """The beginning of the name of a temporary folder: who writes it."""
    return f"{_WRITING}{socket.gethostname()}-{os.getpid()}-"


def _is_abandoned(folder: Path) -> bool:
    """Whether whoever wrote here is gone; what another machine left counts as such after a day."""
    host, _, rest = folder.name.removeprefix(_WRITING).rpartition("-")[0].rpartition("-")
    try:
        if host == socket.gethostname() and os.name == "posix":
            os.kill(int(rest), 0)  # asks, kills nobody
            return False
        return time.time() - folder.stat().st_mtime > _DAY
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Flush a folder's list of names, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
