"""Files of answers and outcomes, read with suspicion: what is no such file ends in words.

Sizes are capped before anything is read, only plain files are opened, and nothing is unpickled.
Everything that can be wrong raises one of `UNREADABLE`.
"""

import io
import json
import math
import os
import stat
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    MemoryError,
    OverflowError,
    NotImplementedError,  # of zipfile, where an archive asks for what it does not know
    zipfile.BadZipFile,
    zlib.error,
)


def read_capped(path: Path, most: int) -> bytes:
    """Read a plain file of at most so many bytes.

    Raises:
        ValueError: It is a pipe, a device or a folder, or it is larger.
        OSError: It cannot be opened.
    """
    # A pipe without a writer would wait for one for ever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise ValueError(f"{path.name} is no plain file")
        if state.st_size > most:
            raise ValueError(f"{path.name} has {state.st_size} bytes, at most {most} are read")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def read_json(content: bytes) -> Any:
    """Read JSON as the standard has it: no NaN, no Infinity."""
    return json.loads(content, parse_constant=_no_number)


def read_arrays(content: bytes) -> dict[str, np.ndarray]:
    """Read an `npz` archive as `np.savez` writes it, each array no larger than its bytes."""
    members = read_members(content)
    return {name.removesuffix(".npy"): read_array(member) for name, member in members.items()}


def read_members(content: bytes) -> dict[str, bytes]:
    """Read the files of a zip archive in which they are stored as they are, each under one name."""
    members: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(content):
                raise ValueError(f"{member.filename[:60]!r} is not stored as it is")
            if member.flag_bits & 1:
                raise ValueError(f"{member.filename[:60]!r} has a password")
            if member.filename in members:
                raise ValueError(f"{member.filename[:60]!r} is there twice")
            members[member.filename] = archive.read(member)
    return members


def read_array(content: bytes) -> np.ndarray:
    """Read an array as `np.save` writes it, no larger than its bytes."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    headers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, _, dtype = headers[version](file)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"an array of shape {shape} and type {dtype} is not what its bytes are")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def _no_number(literal: str) -> Any:
    raise ValueError(f"{literal} is no number of JSON")
