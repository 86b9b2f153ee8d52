"""Make the gallery from runs: nothing in it is typed.

    every experiment ─► conduct ─► docs/gallery/<experiment>.{md,svg}, index.md

Run it before `mkdocs build`. What a store holds already is read, not run again. The reference,
which `reference.py` makes without any run, is made with it.
"""

import argparse
import html
import shutil
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from reference import REFERENCE, markdown, write_reference  # beside this file
from theorylab.experiments.entry import PRESETS
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.lab import Outcome, Store
from theorylab.lab.conduct import as_json, conduct, configure
from theorylab.lab.key import key
from theorylab.progress import listening
from theorylab.report import LiveProgress
from theorylab.report.page import render_claims, setting, view
from theorylab.report.summary import summarise

GALLERY = Path(__file__).parent / "gallery"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every experiment, then write the gallery anew."""
    parser = argparse.ArgumentParser(description="Make the gallery of the documentation.")
    parser.add_argument("--preset", choices=PRESETS, default="smoke")
    parser.add_argument("--store", type=Path, help="read what this store holds, run the rest")
    options = parser.parse_args(arguments)
    store = Store(options.store) if options.store else None
    names = EXPERIMENTS.names()
    outcomes = []
    with LiveProgress(total=len(names)) as progress:
        for name in names:
            progress.start(name)
            with listening(progress.update):
                outcomes.append(obtain(name, options.preset, store))
            progress.finish(name, "from the store" if outcomes[-1].stored else "")
    write_reference(REFERENCE)
    descriptions = {entry.name: entry.description for entry in EXPERIMENTS.entries()}
    write_gallery(outcomes, descriptions, GALLERY)


def obtain(name: str, preset: str, store: Store | None) -> Outcome:
    """Read an outcome from the store, or else run it."""
    entry, experiment = EXPERIMENTS.entry(name), EXPERIMENTS.load(name)
    values = entry.presets[preset]
    if store is not None:
        address = key(entry, experiment.__name__, as_json(values))
        outcome = store.recall(name, address, lambda line: print(line, file=sys.stderr))
        if outcome is not None:
            return outcome
    return conduct(experiment, configure(entry, experiment, values), preset)


def write_gallery(outcomes: Sequence[Outcome], descriptions: dict[str, str], folder: Path) -> None:
    """Write an index, and a page and a figure for each outcome; what was there goes."""
    shutil.rmtree(folder, ignore_errors=True)
    for outcome in outcomes:
        page = folder / f"{outcome.experiment}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(
            experiment_page(outcome, descriptions.get(outcome.experiment, "")), encoding="utf-8"
        )
        page.with_suffix(".svg").write_text(outcome.figure, encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.md").write_text(index_page(outcomes), encoding="utf-8")


def index_page(outcomes: Sequence[Outcome]) -> str:
    """The index: every experiment under its concept, with its figure and how it fared."""
    parts = ["# Gallery", markdown(summarise(outcomes).sentence)]
    for concept, group in groupby(outcomes, key=lambda outcome: outcome.experiment.split("/")[0]):
        parts.append(f"## {markdown(concept)}")
        for outcome in group:
            name = outcome.experiment
            parts += [
                f"### [{markdown(outcome.title)}]({name}.md)",
                f"[![{markdown(outcome.title)}]({name}.svg)]({name}.md)",
                markdown(summarise([outcome]).sentence),
            ]
    return "\n\n".join(parts) + "\n"


def experiment_page(outcome: Outcome, description: str) -> str:
    """The page of one experiment: what it is about, what was found, how it was run."""
    shown = view(outcome, "experiment")
    figure = f"{outcome.experiment.split('/')[-1]}.svg"
    flags = "" if outcome.preset == "default" else f" --preset {outcome.preset}"
    settings = "".join(
        f"<tr><td>{html.escape(field)}</td><td><code>{html.escape(setting(value))}</code></td></tr>"
        for field, value in outcome.config.items()
    )
    parts = [
        f"# {markdown(outcome.title)}",
        f"    theorylab run {outcome.experiment}{flags}",
        f"<div>{shown.formula}</div>",
        prose(description),
        f"![{markdown(outcome.title)}]({figure})",
        f"## Claims\n\n{markdown(shown.summary.sentence)}",
        f"<div>\n{render_claims(shown)}</div>" if shown.claims else "",
        f"## Configuration\n\nThe {markdown(outcome.preset)} preset, {shown.duration}.",
        f"<table><tbody>{settings}</tbody></table>" if settings else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def prose(text: str) -> str:
    """A docstring as Markdown: indented formulas stay as they are, the rest is plain text."""
    lines = text.splitlines()
    return "\n".join(line if line.startswith("    ") else markdown(line) for line in lines)


if __name__ == "__main__":
    main()
