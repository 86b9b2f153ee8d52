"""What the command line asks to run, checked as far as reading the tree can."""

from collections.abc import Sequence
from pathlib import Path

from theorylab.experiments.tree import Tree
from theorylab.folders import store_folder
from theorylab.lab.records import drawn_seeds, read_record
from theorylab.lab.requests import Found, Request, find, request

from .commands import Parsed
from .flags import value_of
from .usage import Usage, notice

MOST_REPEATS = 100


def requests(tree: Tree, names: Sequence[str], parsed: Parsed) -> list[Request]:
    """Check the names, the preset and the fields.

    Raises:
        Refused: One of them is wrong.
    """
    preset = parsed.options.get("--preset", "default")
    found = {each.entry.name: each for each in (find(tree, name, notice) for name in names)}
    return [request(each, preset, parsed.fields, value_of) for each in found.values()]


def run_requests(tree: Tree, parsed: Parsed) -> list[Request]:
    """What `theorylab run` was asked for."""
    if not parsed.words:
        raise Usage("run needs the name of an experiment, got none. theorylab list shows them.")
    return requests(tree, parsed.words, parsed)


def tour_requests(tree: Tree, parsed: Parsed) -> list[Request]:
    """The experiments of the tour."""
    require_no_words("tour", parsed)
    return requests(tree, tree.tour, parsed)


def record_requests(tree: Tree, parsed: Parsed) -> list[Request]:
    """What `theorylab record` was asked for: every experiment on seeds drawn for it.

    An experiment without a seed gives the same on every one, so it is asked for once.
    """
    if not parsed.words:
        raise Usage("record needs the name of an experiment, got none. theorylab list shows them.")
    if tree.records is None:
        raise Usage("record needs a checkout of theorylab, and there is none.")
    repeat, more = (_number(parsed, option) for option in ("--repeat", "--more"))
    preset, asked = parsed.options.get("--preset", "default"), []
    for name in parsed.words:
        found = find(tree, name, notice)
        if found.own:
            raise Usage(f"record takes experiments of the tree, got the file {name}.")
        seeds: list[dict[str, int]] = [{}]
        if any(field.name == "seed" for field in found.entry.fields):
            recorded = _recorded_seeds(tree.records, found, preset) if more else []
            number = more or 1 + repeat
            drawn = drawn_seeds(store_path(parsed), found.entry.name, preset, number)
            seeds = [{"seed": seed} for seed in (*recorded, *drawn)]
        asked += [request(found, preset, seed) for seed in seeds]
    return asked


def _number(parsed: Parsed, option: str) -> int:
    """The number behind an option, 0 if it is not there."""
    given = parsed.options.get(option, "0")
    if not given.isdecimal() or int(given) > MOST_REPEATS:
        raise Usage(f"{option} must be a whole number from 0 to {MOST_REPEATS}, got {given!r}.")
    return int(given)


def _recorded_seeds(records: Path, found: Found, preset: str) -> tuple[int, ...]:
    """The seeds of a record that the present code made, so that others can stand beside them."""
    from theorylab.lab.key import key  # slow to import, and `list` need not

    name = found.entry.name
    try:
        recorded = read_record(records, name, preset)
    except ValueError as error:
        raise Usage(f"{error}.") from None
    if recorded is None:
        raise Usage(f"--more adds seeds to a record, and {name} has none.")
    values = request(found, preset, {"seed": recorded.seeds[0]}).config
    if key(found.entry, found.module, values) != recorded.key:
        raise Usage(f"--more adds seeds to a record, and that of {name} is of other code.")
    return recorded.seeds


def store_path(parsed: Parsed) -> Path:
    """The folder of the store: the one that the user named, or the one in the data folder."""
    return Path(parsed.options["--out"]) if "--out" in parsed.options else store_folder()


def require_no_words(command: str, parsed: Parsed) -> None:
    """Refuse names where a command takes none."""
    if parsed.words:
        raise Usage(f"{command} takes no names, got {parsed.words[0]!r}.")
