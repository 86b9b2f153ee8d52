"""A card in a file: an archive of its curves (npz), and everything else as a page of JSON.

    card.npz
        card.json           what was examined, the verdict, the rows; curves by name
        sharpness.rank.npy  a curve of a row
        …

No pickle: `numpy.load(path)` reads the curves without this library. What is loaded is checked
first: the size of the file before it is read, the sum of every part, all types and sizes. The
same card gives the same bytes.
"""

import io
import json
import math
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from theorylab.answers.reading import UNREADABLE, read_array, read_capped, read_json, read_members
from theorylab.claims import Source
from theorylab.lab.writing import write_whole
from theorylab.version import __version__

from .measure import Certainty, Group, Measure, Reading, Row, Status
from .rows import MEASURES
from .rules import Sentence
from .subject import Subject

if TYPE_CHECKING:
    from .card import Card

FORMAT = "theorylab card"
VERSION = 1
MAX_BYTES = 2**30
_PAGE = "card.json"
_KINDS = "biufU"  # of curves: numbers, and words such as the names of layers
_NUMBERS = ("value", "low", "high")


def save_card(card: "Card", path: str | Path) -> None:
    """Write a card to a file, whole or not at all; `load` reads it.

    Args:
        card: What a check-up found.
        path: The file; one that is there already is replaced.
    """
    curves: dict[str, np.ndarray] = {}
    page = {
        "format": FORMAT,
        "version": VERSION,
        "theorylab": __version__,
        "about": _values(card.about),
        "verdict": [list(sentence) for sentence in card.verdict],
        "rows": [_row_written(row, curves) for row in card.rows],
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        text = json.dumps(page, indent=1, ensure_ascii=False, allow_nan=False)
        archive.writestr(zipfile.ZipInfo(_PAGE), text.encode("utf-8", "replace"))
        for name, curve in curves.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, curve, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), part.getvalue())
    write_whole(Path(path), content.getvalue())


def load(path: str | Path, max_bytes: int = MAX_BYTES) -> "Card":
    """Read a card that `Card.save` wrote: the same rows, numbers, words and curves.

    Args:
        path: The file.
        max_bytes: The size that a file may have.

    Raises:
        ValueError: The file is not one of a card, or not whole, or too large.
        OSError: It cannot be opened.

    Example:
        >>> import tempfile
        >>> from theorylab.checkup import Card
        >>> path = Path(tempfile.mkdtemp()) / "card.npz"
        >>> Card(rows=(), verdict=(), about={"inputs": 20.0}).save(path)
        >>> load(path).about
        {'inputs': 20.0}
    """
    from .card import Card

    try:
        members = read_members(read_capped(Path(path), max_bytes))
        page = read_json(members.pop(_PAGE))
        if page["format"] != FORMAT or page["version"] != VERSION:
            raise ValueError(f"its format is {page['format']!r}, version {page['version']!r}")
        rows = tuple(_row_read(_dict(row), members) for row in _list(page["rows"]))
        verdict = tuple(Sentence(*map(_str, _list(pair))) for pair in _list(page["verdict"]))
        return Card(rows, verdict, _values_read(page["about"]))
    except OSError:
        raise
    except UNREADABLE as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else f"{error}"
        reason = " ".join(reason.split())[:200] or type(error).__name__
        must = "must be the whole file of a card that theorylab saved"
        raise ValueError(f"{path} {must}: {reason}.") from None


def _row_written(row: Row, curves: dict[str, np.ndarray]) -> dict[str, Any]:
    measure, source = row.measure, row.measure.source
    return {
        "name": measure.name,
        "group": measure.group,
        "title": measure.title,
        "source": [source.key, source.system, source.place],
        "experiment": measure.experiment,
        "needs": list(measure.needs),
        "status": row.status,
        "seconds": _number(row.seconds),
        "reason": row.reason,
        "reading": None
        if row.reading is None
        else _reading_written(row.reading, measure.name, curves),
    }


def _reading_written(reading: Reading, name: str, curves: dict[str, np.ndarray]) -> dict[str, Any]:
    places = {}
    for curve, values in reading.curves.items():
        array = np.asarray(values)
        if array.dtype.kind not in _KINDS:
            raise ValueError(f"curve {curve} of {name} must hold numbers or words.")
        place = f"{name}.{curve}"
        if not re.fullmatch(r"\w[\w.]{0,99}", place, re.ASCII) or place in curves:
            place = f"curve {len(curves)}"
        curves[place] = array
        places[curve] = place
    return {
        **{each: _number(getattr(reading, each)) for each in _NUMBERS},
        "certainty": reading.certainty,
        "method": reading.method,
        "meaning": reading.meaning,
        "products": int(reading.products),
        "details": _values(reading.details),
        "curves": places,
    }


def _row_read(page: dict[str, Any], members: dict[str, bytes]) -> Row:
    reading = page["reading"]
    return Row(
        measure=_measure_read(page),
        status=_one_of(Status, page["status"]),
        reading=None if reading is None else _reading_read(_dict(reading), members),
        seconds=_number_read(page["seconds"]),
        reason=_str(page["reason"]),
    )


def _measure_read(page: dict[str, Any]) -> Measure:
    """The measure, with the words that it had then, and how it draws now."""
    known = MEASURES.get(_str(page["name"]))
    told = Measure(
        name=_str(page["name"]),
        group=_one_of(Group, page["group"]),
        title=_str(page["title"]),
        read=_read_no_more,
        source=Source(*map(_str, _list(page["source"]))),
        experiment=_str(page["experiment"]),
        needs=tuple(map(_str, _list(page["needs"]))),
    )
    return told if known is None else replace(told, read=known.read, draw=known.draw)


def _read_no_more(subject: Subject) -> Reading:
    raise ValueError("a measure of another version of theorylab cannot be read any more.")


def _reading_read(page: dict[str, Any], members: dict[str, bytes]) -> Reading:
    value, low, high = (_number_read(page[name]) for name in _NUMBERS)
    products = page["products"]
    if type(products) is not int:
        raise ValueError("products are no whole number")
    return Reading(
        value=value,
        low=low,
        high=high,
        certainty=_one_of(Certainty, page["certainty"]),
        method=_str(page["method"]),
        meaning=_str(page["meaning"]),
        products=products,
        details=_values_read(page["details"]),
        curves={
            name: _curve_read(members[f"{_str(place)}.npy"])
            for name, place in _dict(page["curves"]).items()
        },
    )


def _curve_read(content: bytes) -> np.ndarray:
    curve = read_array(content)
    if curve.dtype.kind not in _KINDS:
        raise ValueError(f"a curve holds {curve.dtype}")
    return curve


def _number(value: Any) -> Any:
    """A number as JSON has it; what is not finite in words."""
    value = float(value)
    return value if math.isfinite(value) else {"float": repr(value)}


def _number_read(value: Any) -> float:
    if type(value) in (int, float):
        return float(value)
    if isinstance(value, dict) and value.get("float") in ("nan", "inf", "-inf"):
        return float(value["float"])
    raise ValueError(f"{str(value)[:60]!r} is no number")


def _values(values: Any) -> dict[str, Any]:
    """Numbers and words by name."""
    return {k: v if isinstance(v, str) else _number(v) for k, v in values.items()}


def _values_read(values: Any) -> dict[str, float | str]:
    return {k: v if isinstance(v, str) else _number_read(v) for k, v in _dict(values).items()}


def _one_of(literal: Any, value: Any) -> Any:
    if value not in get_args(literal):
        raise ValueError(f"{str(value)[:60]!r} is none of {', '.join(get_args(literal))}")
    return value


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:60]!r} is no word")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{str(value)[:60]!r} is no list")
    return value


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{str(value)[:60]!r} has no names")
    return value
