"""Outcomes in a terminal: the table of claims.

Colours are for terminals; a pipe, a file, `NO_COLOR` or a dumb terminal gets plain text in letters
that its encoding has. Text never counts as markup.
"""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from theorylab.claims.claim import Verdict
from theorylab.lab.outcome import Judged, Outcome

from . import alphabet
from .alphabet import Stream, printable
from .numbers import duration, reading
from .summary import KINDS, expectation, remarks, summarise

_WIDE = 120  # columns from which every number gets a column of its own
_COLOURS = {
    Verdict.SUPPORTED: "green",
    Verdict.REFUTED: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.NOT_JUDGED: "dim",
}


def print_claims(outcomes: Sequence[Outcome], file: Stream) -> None:
    """Print every claim: what was measured, its interval, what was demanded, verdict and source.

    Args:
        outcomes: What was run, in the order in which it is shown.
        file: Where to print; colours only if it is a terminal.
    """
    console = alphabet.console(file)
    claims = _wide_claims if console.width >= _WIDE else _narrow_claims
    summary = summarise(outcomes)
    with console.capture() as capture:
        for outcome in outcomes:
            console.print(_heading(outcome, console))
            console.print(claims(outcome, console))
            if outcome.failure:
                console.print(_text(f"✗ {outcome.failure}", console, "bold red"))
            console.print()
        style = "bold red" if summary.num_surprises else "bold"
        console.print(_text(summary.sentence, console, style))
    file.writelines(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _heading(outcome: Outcome, console: Console) -> Text:
    origin = "from the store" if outcome.stored else duration(outcome.seconds)
    heading = _text(outcome.experiment, console, "bold")
    heading.append_text(_text(f"  {outcome.title} ({outcome.preset}, {origin})", console, "dim"))
    return heading


def _wide_claims(outcome: Outcome, console: Console) -> Table:
    """A row for each claim, a column for everything about it."""
    table = Table(box=box.SIMPLE_HEAD, expand=True)
    table.add_column("verdict", overflow="fold")
    table.add_column("claim", overflow="fold", ratio=3)
    for title in ("measured", "interval", "demanded"):
        table.add_column(title, overflow="fold")
    table.add_column("source", overflow="fold", ratio=2, style="dim")
    for judged in outcome.judged:
        numbers = (_text(number, console) for number in reading(judged.finding))
        source = _text(str(judged.source), console)
        statement = Text("\n").join((_statement(judged, console), *_beside(judged, console)))
        table.add_row(_verdict(judged, console), statement, *numbers, source)
    return table


def _narrow_claims(outcome: Outcome, console: Console) -> Padding:
    """A row for each claim: the verdict, and beside it everything else, line under line."""
    table = Table(box=None, show_header=False, padding=(0, 2, 1, 0), pad_edge=False)
    table.add_column(overflow="fold", min_width=12)
    table.add_column(overflow="fold")
    for judged in outcome.judged:
        measured, interval, demanded = reading(judged.finding)
        numbers = f"measured {measured}, {interval}; ", f"demanded {demanded}"
        short = sum(map(len, numbers)) <= console.width - 26  # what the verdict leaves
        lines = (
            _statement(judged, console),
            Text("" if short else "\n").join(_text(part, console) for part in numbers),
            *_beside(judged, console),
            _text(str(judged.source), console, "dim"),
        )
        table.add_row(_verdict(judged, console), Text("\n").join(lines))
    return Padding(table, (1, 0, 0, 2))


def _verdict(judged: Judged, console: Console) -> Text:
    """The verdict, and under it whether it surprises."""
    verdict = judged.finding.verdict
    mark, style = ("✓ ", "dim") if judged.as_expected else ("✗ ", "bold red")
    if judged.not_reproduced or verdict == Verdict.NOT_JUDGED:
        mark = ""
    expected = _text(f"{mark}{expectation(judged)}", console, style)
    return Text("\n").join((_text(verdict, console, _COLOURS[verdict]), expected))


def _statement(judged: Judged, console: Console) -> Text:
    kind = KINDS[judged.kind]
    return _text(judged.statement + (f" ({kind})" if kind else ""), console)


def _beside(judged: Judged, console: Console) -> list[Text]:
    """Lines under a statement: the source's words, and what has to be said of the verdict."""
    quote = [_text(f"“{judged.quote}”", console, "italic")] if judged.quote else []
    return [*quote, *(_text(remark, console, "yellow") for remark in remarks(judged))]


def _text(text: str, console: Console, style: str = "") -> Text:
    return Text(printable(text, console.encoding), style=style)
