"""The folder of the atlas: written whole or not at all, the same bytes for the same findings.

exhibits ─► pages, figures, search index ─► a folder beside its place ─► renamed to its place
"""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from markupsafe import Markup

from theorylab.lab.failure import Refused
from theorylab.lab.writing import (
    WRITING,
    flush_folder,
    is_abandoned,
    remove_folder,
    write_durably,
    writer,
)

from ..page import prose
from ..templating import templates
from .collected import Exhibit
from .views import ExhibitView, claim_lines, document_views, exhibit_view, groups, rows_of, total

MARK = "atlas.json"  # tells a folder that an atlas may replace from one of the user's
_LARGEST_INLINE = 400_000  # bytes of a figure that stands in its page
_VERSION = 1
_NEW, _OLD = "new", "old"  # inside a temporary folder


def write_site(exhibits: Sequence[Exhibit], folder: Path) -> Path:
    """Write the atlas into a folder, in the place of the atlas that was there.

    Args:
        exhibits: What is known of each experiment, as `collect` gives it.
        folder: The folder; its parent must be there. What is in it must be an atlas.

    Returns:
        The page to begin with.

    Raises:
        Refused: The folder has something else in it.
    """
    if folder.exists() and not _is_replaceable(folder):
        raise Refused(f"the atlas must go into a folder of its own, got {folder}.")
    _sweep(folder)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}{writer()}", dir=folder.parent))
    try:
        new = draft / _NEW
        for name, content in site_files(exhibits):
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(path, content)
        new.chmod(0o755)
        flush_folder(new)
        with suppress(FileNotFoundError):
            folder.rename(draft / _OLD)
        try:
            new.rename(folder)
        except OSError:
            with suppress(OSError):
                (draft / _OLD).rename(folder)
            raise
        flush_folder(folder.parent)
    finally:
        remove_folder(draft)
    return folder / "index.html"


def site_files(exhibits: Sequence[Exhibit]) -> Iterator[tuple[str, bytes]]:
    """Every file of the site: its path from the root, and its bytes."""
    yield MARK, json.dumps({"theorylab": "atlas", "version": _VERSION}).encode()
    rows, documents = rows_of(exhibits), document_views(exhibits)
    yield (
        "index.html",
        _page(
            "index.html",
            root="",
            groups=groups(rows),
            documents=[each.row for each in documents],
            counts=total(row.counts for row in rows),
            surprises=[row for row in rows if row.num_surprises],
            num_experiments=len(rows),
        ),
    )
    for document in documents:
        yield document.row.url, _page("source.html", root="../", document=document)
    for exhibit in exhibits:
        yield from _experiment_files(exhibit)
    yield "assets/search.js", _text("search.js")
    yield "assets/entries.js", _entries(exhibits)


def _experiment_files(exhibit: Exhibit) -> Iterator[tuple[str, bytes]]:
    """The page of an experiment, and its figure if that is too large to stand in it."""
    url = f"experiments/{exhibit.name}.html"
    shown = exhibit_view(exhibit, root="../" * url.count("/"))
    figure, image = (shown.drawn.figure if shown.drawn else Markup()), ""
    if len(figure) > _LARGEST_INLINE:
        image = f"{exhibit.name.rpartition('/')[2]}.svg"
        yield f"experiments/{exhibit.name}.svg", str(figure).encode()
        figure = Markup()
    yield (
        url,
        _page(
            "experiment.html",
            root="../" * url.count("/"),
            it=shown,
            figure=figure,
            image=image,
            alternative=_alternative(shown),
            about=prose(exhibit.entry.description) if exhibit.entry else Markup(),
        ),
    )


def _alternative(shown: ExhibitView) -> str:
    """What a figure shows, for those who cannot see it: its title, each claim with its number."""
    if shown.drawn is None:
        return ""
    told = [
        f"{c.statement} Measured {c.reading.measured}: {c.verdict}." for c in shown.drawn.claims
    ]
    return " ".join([f"Figure: {shown.drawn.title}", *told])


def _entries(exhibits: Sequence[Exhibit]) -> bytes:
    """What the search looks through: titles and claims, with their pages."""
    entries = []
    for exhibit in exhibits:
        url = f"experiments/{exhibit.name}.html"
        entries.append([exhibit.title, exhibit.name, url])
        for line in claim_lines(exhibit):
            entries.append([line.statement, f"{exhibit.name} · {line.verdict}", line.url])
    return f"window.theorylabEntries = {json.dumps(entries, ensure_ascii=True)};\n".encode()


def _page(name: str, **values: object) -> bytes:
    text = _TEMPLATES.get_template(f"atlas/{name}").render(**values)
    return re.sub(r"\n\s*\n+", "\n", text).encode("utf-8", "replace")


def _text(name: str) -> bytes:
    return (Path(__file__).parents[1] / "templates" / "atlas" / name).read_bytes()


def _is_replaceable(folder: Path) -> bool:
    """Whether a folder is an atlas, or empty."""
    return folder.is_dir() and ((folder / MARK).is_file() or not any(folder.iterdir()))


def _sweep(folder: Path) -> None:
    """Delete what killed processes left beside the atlas; put back what one had moved away."""
    for draft in folder.parent.glob(f".{folder.name}{WRITING}*/"):
        if is_abandoned(draft):
            if (draft / _OLD).is_dir() and not folder.exists():
                (draft / _OLD).rename(folder)
            remove_folder(draft)


_TEMPLATES = templates("theorylab.report")
