"""What is to be run: experiments with their configs, checked as far as reading the tree can."""

from collections.abc import Sequence
from dataclasses import dataclass

from theorylab.experiments.entry import Entry, Literals
from theorylab.experiments.tree import Tree

from .commands import Parsed
from .flags import configured, find
from .usage import Usage


@dataclass(frozen=True)
class Request:
    """One experiment with one config, not imported yet."""

    entry: Entry
    preset: str
    values: dict[str, Literals]  # every field

    @property
    def is_preset(self) -> bool:
        """Whether the user changed nothing."""
        return self.values == self.entry.presets[self.preset]


def requests(tree: Tree, names: Sequence[str], parsed: Parsed) -> list[Request]:
    """Check the names, the preset and the fields.

    Raises:
        Usage: One of them is wrong.
    """
    preset = parsed.options.get("--preset", "default")
    entries = [find(tree, name) for name in dict.fromkeys(names)]
    return [Request(entry, preset, configured(entry, preset, parsed.fields)) for entry in entries]


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
