"""How long earlier runs took: what the progress display goes by. Losing it costs nothing."""

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

_FILE = "timings.json"


def expected_seconds(folder: Path, experiment: str, preset: str) -> float | None:
    """The duration of the last run of an experiment with a preset, if it is known."""
    seconds = _timings(folder).get(f"{experiment} {preset}")
    return seconds if isinstance(seconds, float) else None


def remember(folder: Path, experiment: str, preset: str, seconds: float) -> None:
    """Keep the duration of a run."""
    timings = _timings(folder) | {f"{experiment} {preset}": round(seconds, 2)}
    with suppress(OSError), tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        json.dump(timings, file, indent=1, sort_keys=True)
        file.close()
        os.replace(file.name, folder / _FILE)


def _timings(folder: Path) -> dict[str, Any]:
    """Everything that is known; nothing if the file is missing or garbled."""
    try:
        timings = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return timings if isinstance(timings, dict) else {}
