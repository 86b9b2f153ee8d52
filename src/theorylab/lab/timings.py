"""How long earlier runs took: what the progress display goes by. Losing it costs nothing."""

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

from theorylab.answers.reading import UNREADABLE, read_capped, read_json

from .writing import write_whole

_MOST = 2**20  # bytes
_FILE = "timings.json"


def expected_seconds(folder: Path, experiment: str, preset: str) -> float | None:
    """The duration of the last run of an experiment with a preset, if it is known."""
    seconds = _timings(folder).get(f"{experiment} {preset}")
    return seconds if isinstance(seconds, float) and 0 <= seconds < math.inf else None


def remember(folder: Path, experiment: str, preset: str, seconds: float) -> None:
    """Keep the duration of a run."""
    timings = _timings(folder) | {f"{experiment} {preset}": round(seconds, 2)}
    with suppress(OSError):
        write_whole(folder / _FILE, json.dumps(timings, indent=1, sort_keys=True).encode())


def _timings(folder: Path) -> dict[str, Any]:
    """Everything that is known; nothing if the file is missing or garbled."""
    try:
        timings = read_json(read_capped(folder / _FILE, _MOST))
    except UNREADABLE:
        return {}
    return timings if isinstance(timings, dict) else {}
