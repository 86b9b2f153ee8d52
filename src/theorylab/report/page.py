"""Outcomes as one page: HTML that needs nothing else, now and in ten years.

    outcomes ─► views ─► templates/page.html ─► one file

No script, no network, nothing from the clock: the same outcomes give the same bytes.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from theorylab.claims.claim import Verdict
from theorylab.lab.outcome import Judged, Outcome, Value
from theorylab.lab.writing import write_whole
from theorylab.sources import documents

from .alphabet import printable
from .figures import inline_figure
from .mathml import formula
from .numbers import Reading, duration, reading
from .summary import KINDS, Summary, expectation, remarks, summarise
from .templating import templates


class ClaimView(NamedTuple):
    """A row of the table of claims."""

    anchor: str
    statement: str
    formula: Markup
    kind: str
    source: str
    quote: str
    reading: Reading
    method: str
    verdict: Verdict
    as_expected: bool
    mark: str  # whether it is a surprise
    expectation: str
    remarks: list[str]


class OutcomeView(NamedTuple):
    """A section of the page."""

    anchor: str
    name: str
    title: str
    variant: str  # what tells it from the other runs of the experiment
    formula: Markup
    description: Markup
    figure: Markup
    failure: str
    claims: tuple[ClaimView, ...]
    summary: Summary
    preset: str
    settings: dict[str, str]
    environment: dict[str, str]
    key: str
    duration: str


def write_page(outcomes: Sequence[Outcome], path: Path) -> Path:
    """Write all outcomes into one HTML file, whole or not at all.

    Args:
        outcomes: What was run, in the order in which it is shown.
        path: The file to write; its folder must be there.
    """
    text = render_page(outcomes)
    write_whole(path, text.encode("utf-8", "replace"))
    return path


def render_page(outcomes: Sequence[Outcome]) -> str:
    """Write all outcomes as the text of one HTML page.

    Example:
        >>> "No claim was tested." in render_page([])
        True
    """
    views = [
        view(outcome, f"experiment-{i}", variant)
        for i, (outcome, variant) in enumerate(zip(outcomes, variants(outcomes), strict=True), 1)
    ]
    keys = [claim.source.key for outcome in outcomes for claim in outcome.judged]
    others = {key: text for outcome in outcomes for key, text in outcome.sources.items()}
    return _TEMPLATES.get_template("page.html").render(
        summary=summarise(outcomes),
        outcomes=views,
        documents=documents(keys, others),
        surprises=[claim for outcome in views for claim in outcome.claims if not claim.as_expected],
    )


def render_claims(outcome: OutcomeView) -> str:
    """Write the table of claims alone, to stand in another page."""
    template = _TEMPLATES.from_string('{% from "claims.html" import claims %}{{ claims(outcome) }}')
    return template.render(outcome=outcome)


def variants(outcomes: Sequence[Outcome]) -> list[str]:
    """What tells runs of one experiment apart: the preset, and the fields in which they differ.

    A single run is told by its preset, if that is not the default one.
    """
    words = []
    for outcome in outcomes:
        runs = [other for other in outcomes if other.experiment == outcome.experiment]
        fields = [
            f"{field} {setting(value)}"
            for field, value in outcome.config.items()
            if any(other.config.get(field) != value for other in runs)
        ]
        shown = len(runs) > 1 or outcome.preset != "default"
        words.append(", ".join([f"{outcome.preset} preset", *fields]) if shown else "")
    names = [(outcome.experiment, text) for outcome, text in zip(outcomes, words, strict=True)]
    count = Counter(names)  # runs that differ in nothing but their code are told by their keys
    return [
        f"{name[1]}, {outcome.key[:6]}" if count[name] > 1 else name[1]
        for outcome, name in zip(outcomes, names, strict=True)
    ]


def prose(text: str) -> Markup:
    r"""A docstring in HTML: paragraphs, `code`, and indented formulas as they stand.

    Example:
        >>> prose("Of `x`:\n\n    x < 1")
        Markup('<p>Of <code>x</code>:</p>\n<pre>x &lt; 1</pre>')
    """
    parts = []
    for block in re.split(r"\n[ \t]*\n", text.strip("\n")):
        lines = [printable(line, "utf-8") for line in block.splitlines()]
        if not block.strip():
            continue
        if all(line.startswith("    ") for line in lines):
            body = Markup("\n").join(line[4:] for line in lines)
            parts.append(Markup("<pre>{}</pre>").format(body))
        else:
            pieces = re.split(r"`([^`]+)`", " ".join(line.strip() for line in lines))
            code = Markup("<code>{}</code>")
            body = (code.format(piece) if i % 2 else piece for i, piece in enumerate(pieces))
            parts.append(Markup("<p>{}</p>").format(Markup("").join(body)))
    return Markup("\n").join(parts)


def view(outcome: Outcome, anchor: str, variant: str = "") -> OutcomeView:
    """Say an outcome in the words, numbers and formulas that a page shows.

    Args:
        outcome: What was run.
        anchor: The id of its section; letters, digits and hyphens, unique in the page.
        variant: What tells it from other runs of the experiment.
    """
    return OutcomeView(
        anchor=anchor,
        name=outcome.experiment,
        title=outcome.title,
        variant=variant,
        formula=formula(outcome.formula, block=True),
        description=prose(outcome.description),
        failure=outcome.failure,
        figure=inline_figure(outcome.figure, f"{anchor}-figure", f"Figure: {outcome.title}"),
        claims=tuple(
            _claim_view(judged, f"{anchor}-claim-{i}")
            for i, judged in enumerate(outcome.judged, start=1)
        ),
        summary=summarise([outcome]),
        preset=outcome.preset,
        settings={field: setting(value) for field, value in outcome.config.items()},
        environment=dict(sorted(outcome.environment.items())),
        key=outcome.key,
        duration=duration(outcome.seconds),
    )


def setting(value: Value) -> str:
    """Write a config's value as the command line takes it.

    Example:
        >>> setting([1.0, 3.0, 5.5]), setting(True), setting("relu"), setting(1e-05)
        ('1.0,3.0,5.5', 'true', 'relu', '1e-05')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(str(entry) for entry in value)
    return str(value)


def _claim_view(judged: Judged, anchor: str) -> ClaimView:
    known = f"Inconclusive: {judged.finding.method}."  # the method stands beside the number
    plain = judged.not_reproduced or judged.finding.verdict == Verdict.NOT_JUDGED
    return ClaimView(
        anchor=anchor,
        statement=judged.statement,
        formula=formula(judged.formula),
        kind=KINDS[judged.kind],
        source=str(judged.source),
        quote=judged.quote,
        reading=reading(judged.finding),
        method=judged.finding.method,
        verdict=judged.finding.verdict,
        as_expected=judged.as_expected,
        mark="" if plain else "✓ " if judged.as_expected else "✗ ",
        expectation=expectation(judged),
        remarks=[remark for remark in remarks(judged) if remark != known],
    )


_TEMPLATES = templates("theorylab.report")
