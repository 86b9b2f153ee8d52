"""The page of a `Watch`: its curves and its last card, as one HTML file that needs nothing else."""

import io
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from theorylab.answers.digits import number
from theorylab.lab.writing import write_whole
from theorylab.report.alphabet import printable
from theorylab.report.figures import inline_figure
from theorylab.report.numbers import interval
from theorylab.typing import Figure

from .measure import Row
from .rules import Sentence

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"


def write_page(
    path: Path,
    heading: str,
    figures: Mapping[str, Figure],
    rows: Mapping[str, tuple[int, Row]],
    verdict: tuple[Sentence, ...] = (),
) -> Path:
    """Write the page, whole or not at all.

    Args:
        path: The file; its folder must be there.
        heading: What stands above everything.
        figures: By their titles.
        rows: The last row of every measure, with the step at which it was read.
        verdict: What follows from the rows.

    Example:
        >>> import tempfile
        >>> path = write_page(Path(tempfile.mkdtemp()) / "watch.html", "A run", {}, {})
        >>> "A run" in path.read_text(encoding="utf-8")
        True
    """
    style = files("theorylab.report").joinpath("templates/page.css").read_text(encoding="utf-8")
    shown = Markup("\n").join(
        Markup('<figure tabindex="0">{}</figure>').format(inline_figure(svg(each), f"f{i}", title))
        for i, (title, each) in enumerate(figures.items())
    )
    said = Markup("").join(Markup("<p>{}</p>\n").format(clean(each.words)) for each in verdict)
    text = Markup(
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>{heading}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        '<header><p class="eyebrow">theorylab</p>\n<h1>{heading}</h1>\n{said}</header>\n'
        "<main>\n{figures}\n{table}\n</main>\n</body>\n</html>\n"
    ).format(
        policy=POLICY,
        heading=clean(heading),
        style=Markup(style),
        said=said,
        figures=shown,
        table=as_html(rows),
    )
    write_whole(path, text.encode("utf-8", "replace"))
    return path


def as_html(rows: Mapping[str, tuple[int, Row]]) -> Markup:
    """The last rows as a table.

    Args:
        rows: By name, with the steps at which they were read.

    Example:
        >>> as_html({})
        Markup('<p>Nothing is measured yet.</p>')
    """
    if not rows:
        return Markup("<p>Nothing is measured yet.</p>")
    names = ("measure", "step", "value", "interval", "what it means")
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in names)
    lines = Markup("\n").join(_line(step, row) for step, row in rows.values())
    return Markup("<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>\n</table>").format(
        head, lines
    )


def _line(step: int, row: Row) -> Markup:
    cells = Markup("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>")
    found, title = row.reading, clean(row.measure.title)
    if found is None:
        return cells.format(title, step, "–", row.status, clean(row.reason))
    ends = interval(found.low, found.high)
    told = ends if found.certainty == "exact" else f"{ends}, {found.certainty}"
    words = Markup("{}<br><small>{}</small>").format(clean(found.meaning), clean(found.method))
    return cells.format(title, step, number(found.value), told, words)


def svg(figure: Figure) -> str:
    """A figure as the text of an SVG file.

    Example:
        >>> from matplotlib.figure import Figure
        >>> "<svg" in svg(Figure())
        True
    """
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def clean(text: str) -> str:
    """Text whose letters can all stand in a page.

    Example:
        >>> clean("2/η")
        '2/η'
    """
    return printable(text, "utf-8")
