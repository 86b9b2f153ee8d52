"""Arrays that are slow to make are made once, then read from the user's cache folder.

    make() ─► name.npz, written beside and renamed ─► read back, its checksum verified

A garbled file is made anew; a folder that cannot be written only costs the time of making.
`theorylab.folders` says where that is.
"""

import contextlib
import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from theorylab.folders import cache_folder as cache_folder

Arrays = dict[str, np.ndarray]

# Everything that reading a truncated, foreign or forbidden file is known to raise.
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error)


def cached(name: str, make: Callable[[], Arrays]) -> Arrays:
    """Read the arrays called `name`, or make and keep them.

    Args:
        name: The name of the file, without its ending.
        make: Makes the arrays; called only if there is no whole file.

    Example:
        >>> from unittest import mock
        >>> with (
        ...     tempfile.TemporaryDirectory() as folder,
        ...     mock.patch.dict(os.environ, THEORYLAB_CACHE=folder),
        ... ):
        ...     first = cached("squares", lambda: {"y": np.arange(3) ** 2})  # made and written
        ...     second = cached("squares", lambda: {"y": np.zeros(3)})  # read: not made again
        >>> second["y"].tolist()
        [0, 1, 4]
    """
    path = cache_folder() / f"{name}.npz"
    try:
        return _read(path)
    except _UNREADABLE:
        arrays = make()
    with contextlib.suppress(OSError):
        _write(path, arrays)
    return arrays


def _read(path: Path) -> Arrays:
    """Read and verify; raises one of _UNREADABLE unless the file is whole."""
    # Opened here, because np.load leaves the file open if it is not a whole archive.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if arrays.pop("checksum").item() != _checksum(arrays):
        raise ValueError(f"the checksum of {path} does not fit its arrays.")
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    """Write to a file of its own, then rename: whole or not at all, also with many writers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            signed: dict[str, Any] = {**arrays, "checksum": np.array(_checksum(arrays))}
            np.savez_compressed(file, **signed)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _checksum(arrays: Arrays) -> str:
    """SHA-256 of names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape};".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
