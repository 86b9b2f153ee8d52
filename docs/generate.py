"""Make the gallery, the API reference and the tutorials' results: nothing in them is typed.

    outcomes ─► docs/gallery/<experiment>.{md,svg}, an index for every room and theme
    code     ─► docs/reference/…                    (`reference.py`)
    measures ─► docs/gallery/checkup-*.txt          (`checkup.py`)
    code     ─► docs/tutorials/…                    (`tutorials.py`)

Run it before Sphinx. Outcomes come from a store, and what it does not hold is run.
"""

import argparse
import html
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from checkup import write_checkup  # beside this file
from docstrings import markdown, prose
from reference import REFERENCE, WIDE, toctree, write_reference
from theorylab.claims.claim import Verdict
from theorylab.experiments.coverage import system_counts, systems
from theorylab.experiments.entry import PRESETS
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.folders import store_folder
from theorylab.lab import Outcome, Store
from theorylab.lab.records import read_record
from theorylab.lab.requests import find, request
from theorylab.lab.session import obtain
from theorylab.report import LiveProgress
from theorylab.report.page import render_claims, setting, view
from theorylab.report.summary import summarise
from theorylab.sources import DOCUMENTS, document
from tutorials import TUTORIALS, write_tutorials

GALLERY = Path(__file__).parent / "gallery"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the reference, obtain an outcome of every experiment, write the gallery anew."""
    parser = argparse.ArgumentParser(description="Make what the documentation generates.")
    parser.add_argument("--preset", choices=PRESETS, default="smoke")
    parser.add_argument("--store", type=Path, default=store_folder(), help="where outcomes are")
    options = parser.parse_args(arguments)
    write_reference(REFERENCE)
    write_tutorials(TUTORIALS)
    outcomes = obtained(options.preset, Store(options.store))
    descriptions = {entry.name: entry.description for entry in EXPERIMENTS.entries()}
    write_gallery(outcomes, descriptions, GALLERY, {"systems": systems_page()})
    write_checkup(GALLERY)


def obtained(preset: str, store: Store) -> list[Outcome]:
    """An outcome of every experiment: read from the store, or run and stored there."""
    notice = partial(print, file=sys.stderr)
    names = EXPERIMENTS.names()
    asked = [request(find(EXPERIMENTS, name, notice), preset, {}) for name in names]
    found = obtain(asked, store, force=False, display=LiveProgress(len(names)), notice=notice)
    if found.failures:
        raise found.failures[0]
    return found.outcomes


def write_gallery(
    outcomes: Sequence[Outcome],
    descriptions: dict[str, str],
    folder: Path,
    others: Mapping[str, str] | None = None,
) -> None:
    """Write a page and a figure for each outcome, and an index of every folder above them.

    Args:
        outcomes: What was found, from wherever it comes; names are of any depth.
        descriptions: What each experiment is about, by its name.
        folder: Where the gallery goes; what was there goes.
        others: Further pages, by the names of their files.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for outcome in outcomes:
        page = folder / f"{outcome.experiment}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        description = descriptions.get(outcome.experiment, "")
        page.write_text(experiment_page(outcome, description), encoding="utf-8")
        if outcome.figure:
            page.with_suffix(".svg").write_text(outcome.figure, encoding="utf-8")
    for name, text in (others or {}).items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    for parent in sorted({"", *above(outcome.experiment for outcome in outcomes)}):
        text = index_page(outcomes, parent, () if parent else tuple(others or ()))
        (folder / parent / "index.md").write_text(text, encoding="utf-8")


def systems_page() -> str:
    """The systems of every document with what is here of them, and the errata."""
    parts = [WIDE, "# Systems and errata", markdown(system_counts(_systems()))]
    for key in DOCUMENTS:
        parts.append(f"## {key}\n\n{markdown(DOCUMENTS[key])}")
        rows = []
        for row in (each for each in _systems() if each["source"] == key):
            pages = [f"[{markdown(name)}]({name}.md)" for name in row["experiments"]]
            where = ", ".join(pages) or markdown(row["tool"])
            missing = f" (missing: {markdown(row['missing'])})" if row["missing"] else ""
            cells = (row["system"], row["title"], row["place"], row["status"])
            rows.append((*map(markdown, cells), f"{where}{missing}"))
        parts.append(_table(("system", "title", "place", "status", "where"), rows))
        errata = [
            (
                *map(markdown, (each.place, each.printed, each.corrected)),
                ", ".join(f"[{markdown(name)}]({name}.md)" for name in each.judged)
                or f"not judged: {markdown(each.why)}",
            )
            for each in document(key).errata
        ]
        if errata:
            head = ("place", "printed", "corrected", "judged in")
            parts += [f"### Errata of {key}", _table(head, errata)]
    return "\n\n".join(parts) + "\n"


def _systems() -> list[dict[str, Any]]:
    return systems(EXPERIMENTS.entries(), DOCUMENTS)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = []
    for row in (head, ["---"] * len(head), *rows):
        cells = (cell.replace("|", "&#124;") for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def above(names: Iterable[str]) -> set[str]:
    """The folders in which experiments stand, at every level.

    Example:
        >>> sorted(above(["dynamics/catapult", "features/agop/sgd"]))
        ['dynamics', 'features', 'features/agop']
    """
    parents = (Path(name).parents for name in names)
    return {path.as_posix() for each in parents for path in each} - {"."}


def index_page(outcomes: Sequence[Outcome], parent: str = "", others: Sequence[str] = ()) -> str:
    """The index of a folder: its own experiments with their figures, then the folders below.

    Args:
        outcomes: Those of the whole gallery.
        parent: The folder, as names have it; nothing for the gallery's own.
        others: Further pages of the folder.
    """
    prefix = f"{parent}/" if parent else ""
    inside = [each for each in outcomes if each.experiment.startswith(prefix)]
    below = [(each, each.experiment.removeprefix(prefix)) for each in inside]
    folders = sorted({name.split("/")[0] for _, name in below if "/" in name})
    own = [(each, name) for each, name in below if "/" not in name]
    parts = [WIDE, f"# {markdown(parent) or 'Gallery'}", markdown(summarise(inside).sentence)]
    for name in folders:
        group = [each for each in inside if each.experiment.startswith(f"{prefix}{name}/")]
        parts += [f"## [{markdown(name)}]({name}/index.md)", markdown(summarise(group).sentence)]
    for outcome, name in own:
        title = markdown(outcome.title)
        figure = f"[![{title}]({name}.svg)]({name}.md)" if outcome.figure else ""
        parts += [f"## [{title}]({name}.md)", f"`{outcome.experiment}`", figure]
        parts += [markdown(summarise([outcome]).sentence)]
    children = [f"{name} <{name}/index>" for name in folders]
    children += [f"{name} <{name}>" for _, name in own]
    children += [f"{name.capitalize()} <{name}>" for name in others]
    parts += [toctree(children)] if children else []
    return "\n\n".join(part for part in parts if part) + "\n"


def experiment_page(outcome: Outcome, description: str) -> str:
    """The page of one experiment: what it is about, what was found, how it was run."""
    shown = view(outcome, "experiment")
    flags = "" if outcome.preset == "default" else f" --preset {outcome.preset}"
    settings = "".join(
        f"<tr><td>{html.escape(field)}</td><td><code>{html.escape(setting(value))}</code></td></tr>"
        for field, value in outcome.config.items()
    )
    title, figure = markdown(outcome.title), f"{outcome.experiment.split('/')[-1]}.svg"
    parts = [
        WIDE,
        f"# {title}",
        f"    theorylab run {outcome.experiment}{flags}",
        f"<div class='formula'>{shown.formula}</div>" if shown.formula else "",
        prose(description),
        f"![{title}]({figure})" if outcome.figure else "",
        f"## Claims\n\n{markdown(shown.summary.sentence)}",
        f"<div class='claims'>\n{render_claims(shown)}</div>" if shown.claims else "",
        *recorded(outcome.experiment),
        f"## Configuration\n\nThe {markdown(outcome.preset)} preset, {shown.duration}.",
        f"<table><tbody>{settings}</tbody></table>" if settings else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def recorded(name: str) -> list[str]:
    """What the default preset found when it was recorded, as a table; nothing without a record."""
    record = read_record(EXPERIMENTS.records, name) if EXPERIMENTS.records else None
    if record is None:
        return []
    rows = []
    for claim in record.claims:
        judged = claim.verdict != Verdict.NOT_JUDGED
        number = f"{claim.measured:.4g}" if judged else ""
        interval = f"{claim.low:.4g} to {claim.high:.4g}" if judged else ""
        verdict = f"{claim.verdict}{', unstable' if claim.unstable else ''}"
        rows.append((markdown(verdict), markdown(claim.statement), number, interval))
    sentence = f"The default preset, {markdown(record.sentence)}."
    return [f"## Record\n\n{sentence}", _table(("verdict", "claim", "measured", "interval"), rows)]


if __name__ == "__main__":
    main()
