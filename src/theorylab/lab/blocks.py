"""Blocks of unfinished runs, kept in the store until the outcome is there.

    <root>/.blocks/<key>/<series>-<block>.npz

A run that was stopped goes on where it was when it is asked for again: the same experiment, config
and code have the same key. Blocks that take less than `WORTH_KEEPING` seconds are computed again.
"""

import io
import itertools
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from theorylab.answers.reading import UNREADABLE, read_arrays, read_capped

from .writing import remove_folder, write_whole

FOLDER = ".blocks"
WORTH_KEEPING = 5.0  # seconds: to write a block takes a hundredth of that
FORGOTTEN_AFTER = 30 * 24 * 3600  # seconds, since the last block of a run
_LARGEST = 2**32  # bytes of a file
_NAME = re.compile(r"\d+-\d+\.npz")


class BlockFolder:
    """Keeps the blocks of one run in a folder."""

    def __init__(self, root: Path, key: str) -> None:
        self.path = root / FOLDER / key
        self._series = itertools.count()

    def __len__(self) -> int:
        if not self.path.is_dir():
            return 0
        return sum(bool(_NAME.fullmatch(file.name)) for file in self.path.iterdir())

    def series(self) -> int:
        """The number of the next series of blocks."""
        return next(self._series)

    def read(self, series: int, block: int) -> Sequence[np.ndarray] | None:
        """The arrays of a block, or None: there is none, or it is damaged."""
        try:
            arrays = read_arrays(read_capped(self._file(series, block), _LARGEST))
            return [arrays[f"arr_{place}"] for place in range(len(arrays))]
        except UNREADABLE:
            return None

    def write(self, series: int, block: int, arrays: Sequence[np.ndarray], seconds: float) -> None:
        """Keep a block that took long; a full disk costs the block, not the run."""
        if seconds < WORTH_KEEPING:
            return
        content = io.BytesIO()
        np.savez(content, *arrays, allow_pickle=False)
        with suppress(OSError):
            self.path.mkdir(parents=True, exist_ok=True)
            write_whole(self._file(series, block), content.getvalue())

    def remove(self) -> None:
        """Delete all blocks."""
        remove_folder(self.path)
        with suppress(OSError):  # others are in it
            self.path.parent.rmdir()

    def _file(self, series: int, block: int) -> Path:
        return self.path / f"{series}-{block}.npz"


def sweep_forgotten(root: Path) -> None:
    """Delete the blocks of runs that nobody went on with for a month."""
    for folder in (root / FOLDER).glob("*/"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > FORGOTTEN_AFTER:
                remove_folder(folder)
