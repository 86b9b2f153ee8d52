"""`theorylab find`: the outcomes that fit, as lines, JSON or a table."""

import csv
import json
import math
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any

from theorylab.experiments.tree import Tree
from theorylab.lab.where import condition

from .commands import Parsed, shown
from .requests import require_no_words, store_path
from .usage import Usage, notice

if TYPE_CHECKING:
    from theorylab.lab.found import Found, Hit

_MOST_NAMED = 3  # damaged outcomes, one line each


def find(tree: Tree, parsed: Parsed) -> int:
    """Print the outcomes that fit."""
    require_no_words("find", parsed)
    if {"--json", "--csv"} <= set(parsed.options):
        raise Usage("find takes --json or --csv, got both.")
    found = found_in_store(tree, parsed, with_findings="--json" in parsed.options)
    if "--json" in parsed.options:
        _print_json(found)
    elif "--csv" in parsed.options:
        _print_csv(found)
    else:
        for hit in found:
            print(_line(found, hit))
        notice(f"{counted(len(found))}.")
    return 0


def found_in_store(tree: Tree, parsed: Parsed, with_findings: bool = False) -> "Found":
    """Find what the options ask for.

    Raises:
        Usage: The number is none.
        Refused: What must hold cannot be read, or nothing has such a name.
    """
    where = parsed.options.get("--where", "")
    condition(where)  # before anything is opened
    limit = parsed.options.get("--limit")
    if limit is not None and not re.fullmatch(r"[0-9]{1,9}", limit):
        raise Usage(f"--limit must be a whole number of at least 0, got {limit!r}.")

    from theorylab.lab.index import find, where_is

    root, name = store_path(parsed), parsed.options.get("--experiment", "").strip("/")
    name = tree.renames.get(name, name)
    if "--experiment" in parsed.options and not name:
        raise Usage("--experiment needs a name, got an empty one.")
    number = None if limit is None else int(limit)
    before = where_is(root) if root.is_dir() else None
    found = find(root, where, name, number, "--rebuild" in parsed.options, with_findings)
    now = where_is(root)
    if now is None:
        notice("no index can be written: one was made in memory, for this question only.")
    elif now.why and before is None:
        notice(f"the index of the store is in {now.path}, because {now.why}.")
    for experiment, key, fault in found.damaged[:_MOST_NAMED]:
        notice(f"the outcome in {root / experiment / key} is damaged ({fault}); left out.")
    if len(found.damaged) > _MOST_NAMED:
        more = len(found.damaged) - _MOST_NAMED
        notice(f"{more} more are damaged; theorylab verify names them.")
    return found


def counted(number: int) -> str:
    """A number of outcomes in words.

    Example:
        >>> counted(1), counted(2)
        ('1 outcome', '2 outcomes')
    """
    return f"{number} outcome{'' if number == 1 else 's'}"


def _line(found: "Found", hit: "Hit") -> str:
    """One outcome: what it is, the fields that were asked for, how many verdicts of each kind."""
    fields = [
        f"{name}={shown_field(hit.config[name])}" for name in found.fields if name in hit.config
    ]
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in hit.verdicts.items())
    parts = (f"{hit.experiment}/{hit.key}", hit.date, hit.preset, *fields, verdicts)
    line = "  ".join(" ".join(part.split()) for part in parts if part)
    room = shutil.get_terminal_size((100, 24)).columns
    return line if not sys.stdout.isatty() or len(line) <= room else f"{line[: room - 1]}…"


def shown_field(value: Any) -> str:
    """A field of a config as the command line takes it.

    Example:
        >>> shown_field([1.0, 3.0]), shown_field(True)
        ('1.0,3.0', 'true')
    """
    return shown(tuple(value) if isinstance(value, list) else value)


def _print_csv(found: "Found") -> None:
    names, rows = found.rows()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(row[name]) if name in row else "" for name in names])


def _cell(value: Any) -> str:
    """A cell; a text that a spreadsheet would take for a formula is kept from it."""
    text = shown_field(value)
    return f"'{text}" if isinstance(value, str) and text[:1] in "=+-@\t\r" and text else text


def _print_json(found: "Found") -> None:
    """JSON, one outcome in a line; numbers that JSON has not are texts."""
    print("[", end="")
    for place, hit in enumerate(found):
        record = hit._asdict()
        separator = ",\n" if place else "\n"
        print(f"{separator} {json.dumps(_finite(record), ensure_ascii=False)}", end="")
    print("\n]" if len(found) else "]")


def _finite(value: Any) -> Any:
    """A value with texts for numbers that JSON has not."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
