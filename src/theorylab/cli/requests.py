"""What the command line asks to run, checked as far as reading the tree can."""

from collections.abc import Sequence

from theorylab.experiments.tree import Tree
from theorylab.lab.requests import Request, find, request

from .commands import Parsed
from .flags import value_of
from .usage import Usage, notice


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


def require_no_words(command: str, parsed: Parsed) -> None:
    """Refuse names where a command takes none."""
    if parsed.words:
        raise Usage(f"{command} takes no names, got {parsed.words[0]!r}.")
