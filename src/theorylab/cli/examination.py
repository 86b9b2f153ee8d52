"""What `theorylab examine` was asked for, checked without running the file and without JAX."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .commands import Parsed
from .usage import Usage


class Examination(NamedTuple):
    """A file that defines a network, and what the options say."""

    path: Path
    as_json: bool
    page: Path | None  # where the HTML page goes
    kept: Path | None  # where the card goes
    only: list[str] | None  # names of rows; None: all
    force: list[str]
    known: dict[str, Any]  # what the options say about the network


def examination(parsed: Parsed) -> Examination:
    """Check the words and options.

    Raises:
        Usage: One of them is wrong.
    """
    if len(parsed.words) != 1:
        got = "none" if not parsed.words else f"{len(parsed.words)}: {' '.join(parsed.words)}"
        raise Usage(f"examine needs one Python file that defines the network, got {got}.")
    path = Path(parsed.words[0]).expanduser()
    if path.suffix != ".py" or not path.is_file():
        why = "a folder" if path.is_dir() else "there is no such file"
        why = "another ending" if path.is_file() else why
        raise Usage(f"examine needs a file that ends in .py, got {path} ({why}).")
    options = parsed.options
    known = {
        name: read(flag, options[flag]) for flag, (name, read) in _KNOWN.items() if flag in options
    }
    return Examination(
        path=path.resolve(),
        as_json="--json" in options,
        page=_writable(options, "--page"),
        kept=_writable(options, "--save"),
        only=_names(options, "--only") if "--only" in options else None,
        force=_names(options, "--force") if "--force" in options else [],
        known=known,
    )


def _positive(flag: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise Usage(f"{flag} must be a positive number, got {text!r}.")
    return value


def _share(flag: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise Usage(f"{flag} must be a number in [0, 1), got {text!r}.")
    return value


def _whole(flag: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) >= 1):
        raise Usage(f"{flag} must be a whole number of at least 1, got {text!r}.")
    return int(text)


def _word(flag: str, text: str) -> str:
    return text  # its choices are checked where it is parsed


def _names(options: dict[str, str], flag: str) -> list[str]:
    names = [name.strip() for name in options[flag].split(",")]
    if not all(names):
        raise Usage(f"{flag} needs names separated by commas, got {options[flag]!r}.")
    return names


def _writable(options: dict[str, str], flag: str) -> Path | None:
    """The file that an option names; nothing is made before the network was looked at."""
    if flag not in options:
        return None
    path = Path(options[flag]).absolute()
    if path.is_dir():
        raise Usage(f"{flag} must be a file, got the folder {path}.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise Usage(f"{flag} must be in a folder that can be written, got {path.parent}.")
    return path


_KNOWN: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "--budget": ("budget", _positive),
    "--loss": ("loss", _word),
    "--learning-rate": ("learning_rate", _positive),
    "--optimizer": ("optimizer", _word),
    "--momentum": ("momentum", _share),
    "--batch-size": ("batch_size", _whole),
}
