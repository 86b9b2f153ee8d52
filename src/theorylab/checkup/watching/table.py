"""Entries in a file of CSV: a line each, written at once, and read again when a run goes on.

    step,seconds,measure,value,low,high,certainty,status

A line that a crash has torn is the last one and has no end; it is dropped. Any other line that is
not of this form is an error: the file is another's, or was edited.
"""

import csv
import io
import os
from pathlib import Path

from .entries import Entry

HEADER = list(Entry._fields)


class Table:
    """A file of entries that is appended to.

    Args:
        path: The file; if it is there, it is read, and continued.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "watch.csv"
        >>> Table(path).append(Entry(1, 0.5, "sharpness", 2.0, 2.0, 2.5, "certified", "measured"))
        >>> Table(path).entries[0].high
        2.5
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries = _continued(path)

    def append(self, entry: Entry) -> None:
        """Write one entry, so that it is in the file when this returns."""
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(_line(entry))
            file.flush()


def _line(values: Entry | list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def _continued(path: Path) -> list[Entry]:
    """What the file holds; afterwards it ends with a whole line, and has a header."""
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    header = _line(HEADER)
    if not whole and header.encode().startswith(content):  # not there, or torn in its header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header, encoding="utf-8", newline="")
        return []
    lines = whole.decode("utf-8", "replace").splitlines()
    if not lines or lines[0] != header.strip():
        came = (lines or [content[:60].decode("utf-8", "replace")])[0][:80]
        raise ValueError(f"csv must be a new file, or begin with {header.strip()!r}, got {came!r}.")
    entries = [_entry(line, number, path) for number, line in enumerate(lines[1:], 2)]
    if len(whole) < len(content):
        os.truncate(path, len(whole))
    return entries


def _entry(line: str, number: int, path: Path) -> Entry:
    """The entry that a line holds."""
    try:
        (fields,) = csv.reader([line])
        step, seconds, measure, value, low, high, certainty, status = fields
        found, least, most = float(value), float(low), float(high)
        return Entry(int(step), float(seconds), measure, found, least, most, certainty, status)
    except ValueError:
        raise ValueError(
            f"line {number} of {path.name} must have a step, numbers and words under its header,"
            f" got {line[:80]!r}."
        ) from None
