"""Archives in the format ustar, read with suspicion: plain files only, each of a bounded size.

    header (512 bytes): name, size, time, checksum, type ─► content ─► zeros up to the next 512

Links, devices, folders and extended headers are refused. Nothing is compressed, so an archive
gives no more bytes than it has.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

_BLOCK = 512
_HEADER = struct.Struct("100s8s8s8s12s12s8s1s100s6s2s32s32s8s8s155s12s")
_KINDS = {
    b"1": "a link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a folder",
    b"6": "a pipe",
}


class Entry(NamedTuple):
    """A file of an archive, whose content has not been read yet."""

    name: str
    size: int
    modified: int  # seconds since 1970


class Archive:
    """Reads the files of an archive, one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._left, self._padding = file, 0, 0

    def entries(self) -> Iterator[Entry]:
        """Every file, until the blocks of zeros at the end; `read` gives the content of the last.

        Raises:
            ValueError: The archive is cut off, or has what is no plain file.
        """
        while (block := self._exactly(_BLOCK)) != bytes(_BLOCK):
            entry = _entry(block)
            self._left, self._padding = entry.size, -entry.size % _BLOCK
            yield entry
            if self._left:
                raise ValueError(f"{entry.name[:60]!r} was not read")

    def read(self, most: int) -> bytes:
        """The content of the file that came last, of at most so many bytes.

        Raises:
            ValueError: It is larger, or cut off.
        """
        if self._left > most:
            raise ValueError(f"a file has {self._left} bytes, at most {most} are read")
        content = self._exactly(self._left)
        self._exactly(self._padding)
        self._left = 0
        return content

    def _exactly(self, number: int) -> bytes:
        content = self._file.read(number)
        if len(content) != number:
            raise ValueError("it is cut off")
        return content


def _entry(block: bytes) -> Entry:
    """Read a header."""
    fields = _HEADER.unpack(block)
    name, size, modified, said, kind, magic, prefix = (
        fields[place] for place in (0, 4, 5, 6, 7, 9, 15)
    )
    if magic != b"ustar\0" or fields[10] != b"00":
        raise ValueError("it is no archive of the format ustar")
    if _octal(said) != sum(block) - sum(said) + 8 * ord(" "):
        raise ValueError("a header does not fit its checksum")
    path = "/".join(part.rstrip(b"\0").decode() for part in (prefix, name) if part[0])
    if kind != b"0":
        raise ValueError(f"{path[:60]!r} is {_KINDS.get(kind, 'no plain file')}")
    return Entry(path, _octal(size), _octal(modified))


def _octal(field: bytes) -> int:
    """A number of a header."""
    digits = field.rstrip(b"\0 ")
    if not re.fullmatch(b"[0-7]{1,11}", digits):
        raise ValueError("a header has no number where one must be")
    return int(digits, 8)


def header(entry: Entry) -> bytes:
    """The header of a plain file.

    Raises:
        ValueError: The name or the size does not fit.

    Example:
        >>> _entry(header(Entry("toys/coin/0a/config.json", 12, 0)))
        Entry(name='toys/coin/0a/config.json', size=12, modified=0)
    """
    if not 0 <= entry.size < 8**11:
        raise ValueError(f"a file has at most {8**11 - 1} bytes, got {entry.size}")
    prefix, name = _split(entry.name)
    modified = min(max(entry.modified, 0), 8**11 - 1)
    fields = [
        name,
        b"0000644\0",
        b"0000000\0",
        b"0000000\0",
        b"%011o\0" % entry.size,
        b"%011o\0" % modified,
        b" " * 8,
        b"0",
        b"",
        b"ustar\0",
        b"00",
        b"",
        b"",
        b"0000000\0",
        b"0000000\0",
        prefix,
        b"",
    ]
    fields[6] = b"%06o\0 " % sum(_HEADER.pack(*fields))
    return _HEADER.pack(*fields)


def padding(size: int) -> bytes:
    """What follows a content of so many bytes."""
    return bytes(-size % _BLOCK)


END = bytes(2 * _BLOCK)


def _split(path: str) -> tuple[bytes, bytes]:
    """A path as the two fields of a header have it, cut at a slash."""
    parts = PurePosixPath(path).parts
    for first in range(len(parts)):
        prefix, name = "/".join(parts[:first]).encode(), "/".join(parts[first:]).encode()
        if len(prefix) <= 155 and len(name) <= 100:
            return prefix, name
    raise ValueError(f"the name {path[:60]!r} is too long for an archive")
