"""A card in a terminal: the verdict, then the rows under the headings of their groups.

Colours are for terminals; a pipe, a file, `NO_COLOR` or a dumb terminal gets plain text in letters
that its encoding has. Text never counts as markup.
"""

import io
import shutil
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from theorylab.report import alphabet
from theorylab.report.alphabet import Stream, printable

from .words import Line, about_of, counts_of, groups_of

if TYPE_CHECKING:
    from .card import Card

_WIDE = 110  # columns from which the meaning stands beside its number
_STYLES = {"measured": "", "missing": "dim", "skipped": "yellow", "failed": "red"}


def print_card(card: "Card", file: Stream) -> None:
    """Print a card: in colours only if the file is a terminal.

    Args:
        card: What a check-up found.
        file: Where to print.

    Example:
        >>> from theorylab.checkup import Card
        >>> print_card(Card(rows=(), verdict=(), about={"inputs": 20.0}), sys.stdout)
        Check-up of a network
        20 inputs
        <BLANKLINE>
        No rule of the verdict applies.
        <BLANKLINE>
        0 of 0 rows measured
    """
    file.writelines(f"{line}\n" for line in _lines(card, alphabet.console(file)))


def card_text(card: "Card") -> str:
    """A card as plain text, as wide as the terminal, in letters that standard output has.

    Example:
        >>> from theorylab.checkup import Card
        >>> card_text(Card(rows=(), verdict=(), about={})).splitlines()[0]
        'Check-up of a network'
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    width = shutil.get_terminal_size((100, 24)).columns
    console = Console(
        file=file, width=width, color_system=None, force_jupyter=False, highlight=False
    )
    return "\n".join(_lines(card, console))


def _lines(card: "Card", console: Console) -> list[str]:
    with console.capture() as capture:
        console.print(_text("Check-up of a network", console, "bold"))
        if about := about_of(card):
            console.print(_text(about, console, "dim"))
        console.print()
        console.print(_verdict(card, console))
        for group, lines in groups_of(card.rows):
            console.print()
            console.print(_text(group.capitalize(), console, "bold cyan"))
            rows = _wide if console.width >= _WIDE else _narrow
            console.print(rows(lines, console))
        console.print()
        console.print(_text(counts_of(card.rows), console, "dim"))
    return [line.rstrip() for line in capture.get().splitlines()]


def _verdict(card: "Card", console: Console) -> Table | Text:
    """The sentences, each behind a bullet."""
    if not card.verdict:
        return _text("No rule of the verdict applies.", console)
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column(overflow="fold")
    for sentence in card.verdict:
        table.add_row(_text("·", console, "bold"), _text(sentence.words, console, "bold"))
    return table


def _wide(lines: list[Line], console: Console) -> Padding:
    """A row for each measure: title, number, how certain it is, and what it means."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False, expand=True)
    table.add_column(overflow="fold", width=34)
    table.add_column(overflow="fold", width=24)
    table.add_column(overflow="fold", width=9, style="dim")
    table.add_column(overflow="fold", ratio=1)
    for line in lines:
        style = _STYLES[line.status]
        about = [_text(line.meaning, console, style), *_beside(line, console)]
        table.add_row(
            _text(line.title, console, style),
            _text(line.value or "–", console, "bold" if line.value else "dim"),
            _text(line.certainty, console),
            Text("\n").join(about),
        )
    return Padding(table, (0, 0, 0, 2))


def _narrow(lines: list[Line], console: Console) -> Padding:
    """A block for each measure, line under line."""
    table = Table(box=None, show_header=False, padding=(0, 0, 0, 0), pad_edge=False)
    table.add_column(overflow="fold")
    for line in lines:
        style = _STYLES[line.status]
        heading = _text(line.title, console, style)
        if line.value:
            number = _text(f"{line.value}  ", console, "bold")
            heading = Text("  ").join((heading, number + _text(line.certainty, console, "dim")))
        about = (_text(line.meaning, console, style), *_beside(line, console))
        table.add_row(heading)
        for each in about:
            table.add_row(Padding(each, (0, 0, 0, 2)))
    return Padding(table, (0, 0, 0, 2))


def _beside(line: Line, console: Console) -> list[Text]:
    """Dim lines under the meaning: details, how it was computed, where theory says so."""
    details = "; ".join(f"{name}: {value}" for name, value in line.details.items())
    cost = ", ".join(part for part in (line.method, line.seconds) if part)
    where = f"{line.source} · {line.command}"
    return [_text(part, console, "dim") for part in (details, cost, where) if part]


def _text(text: str, console: Console, style: str = "") -> Text:
    return Text(printable(text, console.encoding), style=style)
