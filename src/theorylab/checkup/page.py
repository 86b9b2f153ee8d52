"""A card as HTML: a table for a notebook, and one page that needs nothing else.

    card ─► groups of rows, with figures ─┐
    rows ─► theorems, experiments ────────┴► templates/card.html ─► one file

No script, no network, nothing from the clock: the same card gives the same bytes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from theorylab.experiments.reader import TreeError
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.lab.writing import write_whole
from theorylab.report.figures import inline_figure
from theorylab.report.mathml import formula
from theorylab.report.templating import templates
from theorylab.sources import DOCUMENTS, document, documents

from .figures import row_svg
from .measure import Row
from .words import Line, about_of, counts_of, groups_of, line_of

if TYPE_CHECKING:
    from .card import Card


class RowView(NamedTuple):
    """A row of the page, with its figure."""

    line: Line
    anchor: str
    figure: Markup
    theory: str  # the anchor of its source
    experiment: str  # the anchor of its experiment


class GroupView(NamedTuple):
    """A section of the page."""

    anchor: str
    name: str
    rows: tuple[RowView, ...]
    figures: tuple[RowView, ...]  # those that have one
    measured: int


class SourceView(NamedTuple):
    """A theorem, definition or measure of a document."""

    anchor: str
    name: str  # as claims write it
    title: str
    places: tuple[str, ...]
    document: str
    rows: tuple[RowView, ...]


class ExperimentView(NamedTuple):
    """An experiment that shows what rows mean."""

    anchor: str
    name: str
    title: str
    formula: Markup
    rows: tuple[RowView, ...]


def write_card_page(card: "Card", path: Path) -> Path:
    """Write a card into one HTML file, whole or not at all.

    Args:
        card: What a check-up found.
        path: The file to write; its folder must be there.
    """
    write_whole(path, render_card(card).encode("utf-8", "replace"))
    return path


def render_card(card: "Card") -> str:
    """Write a card as the text of one HTML page.

    Example:
        >>> from theorylab.checkup import Card
        >>> "0 of 0 rows measured" in render_card(Card(rows=(), verdict=(), about={}))
        True
    """
    groups = _groups(card.rows)
    rows = [row for group in groups for row in group.rows]
    return _TEMPLATES.get_template("card.html").render(
        about=about_of(card),
        counts=counts_of(card.rows),
        verdict=card.verdict,
        groups=groups,
        sources=_sources(card.rows, rows),
        experiments=_experiments(rows),
        documents=documents(row.measure.source.key for row in card.rows),
    )


def card_html(card: "Card") -> str:
    """Write a card as a table to stand in a notebook; it has no colours of its own.

    Example:
        >>> from theorylab.checkup import Card
        >>> "No rule" in card_html(Card(rows=(), verdict=(), about={}))
        True
    """
    return _TEMPLATES.get_template("notebook.html").render(
        about=about_of(card),
        counts=counts_of(card.rows),
        verdict=card.verdict,
        groups=groups_of(card.rows),
    )


def _groups(rows: Sequence[Row]) -> list[GroupView]:
    """The rows with their figures, under the headings of their groups, in the card's order."""
    by_group: dict[str, list[RowView]] = {}
    for number, row in enumerate(rows, start=1):
        by_group.setdefault(row.measure.group, []).append(_row_view(row, number))
    return [
        GroupView(
            anchor=f"group-{number}",
            name=name.capitalize(),
            rows=tuple(group),
            figures=tuple(row for row in group if row.figure),
            measured=sum(row.line.status == "measured" for row in group),
        )
        for number, (name, group) in enumerate(by_group.items(), start=1)
    ]


def _row_view(row: Row, number: int) -> RowView:
    line, anchor = line_of(row), f"row-{number}"
    alt = f"{line.title}: {line.value}, {line.certainty}. {line.meaning}"
    svg = row_svg(row)
    return RowView(
        line=line,
        anchor=anchor,
        figure=inline_figure(svg, f"{anchor}-figure", alt) if svg else Markup(),
        theory=_anchor("source", f"{row.measure.source.key}-{row.measure.source.system}"),
        experiment=_anchor("experiment", row.measure.experiment),
    )


def _sources(rows: Sequence[Row], views: Sequence[RowView]) -> list[SourceView]:
    """What the sources of the rows are, each once."""
    found: dict[str, SourceView] = {}
    for row in rows:
        source = row.measure.source
        anchor = _anchor("source", f"{source.key}-{source.system}")
        system = document(source.key).system(source.system) if source.key in DOCUMENTS else None
        if anchor in found:
            places = found[anchor].places
            more = () if source.place in places else (source.place,)
            found[anchor] = found[anchor]._replace(places=(*places, *more))
            continue
        found[anchor] = SourceView(
            anchor=anchor,
            name=f"{source.key} · {source.system}",
            title=system.title if system else "",
            places=(source.place,),
            document=DOCUMENTS.get(source.key, source.key),
            rows=tuple(view for view in views if view.theory == anchor),
        )
    return list(found.values())


def _experiments(views: Sequence[RowView]) -> list[ExperimentView]:
    """The experiments of the rows, each once."""
    found: dict[str, ExperimentView] = {}
    for view in views:
        name, anchor = view.line.experiment, view.experiment
        if anchor in found:
            continue
        try:
            entry = EXPERIMENTS.entry(name)
            title, latex = entry.title, entry.formula
        except (KeyError, TreeError):  # of another version of theorylab
            title, latex = "", ""
        rows = tuple(each for each in views if each.experiment == anchor)
        found[anchor] = ExperimentView(anchor, name, title, formula(latex, block=True), rows)
    return list(found.values())


def _anchor(kind: str, name: str) -> str:
    """An id of letters, digits and hyphens."""
    letters = (letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
    return f"{kind}-{''.join(letters)}"


_TEMPLATES = templates("theorylab.checkup", "theorylab.report")
