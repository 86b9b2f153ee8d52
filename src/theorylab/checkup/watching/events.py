"""Numbers in a file that TensorBoard reads.

    file     record, record, …
    record   length n (8 bytes)  crc(length) (4)  n bytes of an Event  crc(bytes) (4)
    crc(b)   rotate right by 15 bits of CRC-32C(b), plus 0xa282ead8

All numbers have their least byte first. An Event, and the Summary in it, are messages of Protocol
Buffers: fields that begin with their number and kind in one byte.

    Event    1: time (double)  2: step (integer)  3: "brain.Event:2", of the first  5: Summary
    Summary  1: Value, Value, …           Value    1: tag  2: the number (float)

Source: RFC 3720, appendix B.4 (CRC-32C); TensorFlow's
core/util/event.proto and core/framework/summary.proto.
"""

import os
import socket
import struct
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, its bits reversed
_FILES = count()
_INTEGER, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5  # kinds of fields


class EventFile:
    """A new file of events in a folder.

    Args:
        folder: What is told to `tensorboard --logdir`; it is made if it is not there.

    Example:
        >>> import tempfile
        >>> file = EventFile(Path(tempfile.mkdtemp()))
        >>> file.write(100, {"theory/sharpness": 2.0})
        >>> file.path.stat().st_size > 50
        True
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
        self.path = folder / f"{name}.{os.getpid()}.{next(_FILES)}"
        self._append(_field(3, _BYTES, b"brain.Event:2"))

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write numbers of one step, so that they are in the file when this returns.

        Args:
            step: Which.
            scalars: The numbers by their tags.
        """
        values = [
            _field(1, _BYTES, _field(1, _BYTES, tag.encode()) + _field(2, _FLOAT, value))
            for tag, value in scalars.items()
        ]
        self._append(_field(2, _INTEGER, step) + _field(5, _BYTES, b"".join(values)))

    def _append(self, fields: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(_record(_field(1, _DOUBLE, time.time()) + fields))
            file.flush()


def crc32c(content: bytes) -> int:
    """The checksum CRC-32C, Castagnoli's.

    Example:
        >>> hex(crc32c(b"123456789"))  # the check value of its definition
        '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_remainder(byte) for byte in range(256)]


def _masked(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + _masked(length) + content + _masked(content)


def _field(number: int, kind: int, value: float | int | bytes) -> bytes:
    """A field of a message: its number and kind, and its content."""
    start = bytes([number << 3 | kind])
    if isinstance(value, bytes):
        return start + _varint(len(value)) + value
    if kind == _INTEGER:
        return start + _varint(int(value) & 0xFFFFFFFFFFFFFFFF)
    return start + (struct.pack("<d", value) if kind == _DOUBLE else _single(value))


def _single(value: float) -> bytes:
    """A number in single precision; one too large for it is infinite."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def _varint(value: int) -> bytes:
    """Seven bits a byte, the least first; the eighth says whether more follow."""
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
