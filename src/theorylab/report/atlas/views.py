"""What the pages of the atlas show: exhibits in words, numbers and links, without any layout."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from theorylab.claims.claim import Verdict
from theorylab.experiments.coverage import systems
from theorylab.experiments.entry import Field
from theorylab.lab.outcome import Outcome
from theorylab.sources import DOCUMENTS, Erratum, document

from ..page import OutcomeView, setting, variants, view
from ..summary import KINDS, Summary, summarise
from .collected import Exhibit

ANCHOR = "result"  # of the claims that count, on the page of an experiment
NOT_RUN = "not run"
_WORDS = {str(kind): words for kind, words in KINDS.items()}
_MOST_OTHERS = 200  # rows of further runs on one page
_LONGEST_CONFIG = 12  # settings told of a further run


class Row(NamedTuple):
    """An experiment in a list."""

    name: str
    title: str
    url: str  # from the root of the site
    counts: dict[str, int]  # claims by verdict
    num_surprises: int


class Group(NamedTuple):
    """A room, with its experiments."""

    name: str
    rows: tuple[Row, ...]
    counts: dict[str, int]


class DocumentRow(NamedTuple):
    """A document in a list."""

    key: str
    citation: str
    url: str
    counts: dict[str, int]  # claims by verdict
    statuses: dict[str, int]  # systems by status


class ClaimLine(NamedTuple):
    """A claim in the list of a system."""

    statement: str
    kind: str
    verdict: str
    as_expected: bool
    url: str


class SystemView(NamedTuple):
    """A system of a document: what it is, what was claimed, what was found."""

    id: str
    title: str
    place: str
    status: str
    missing: str
    tool: str
    claims: tuple[ClaimLine, ...]


class Chapter(NamedTuple):
    """A chapter of a document."""

    title: str
    systems: tuple[SystemView, ...]


class DocumentView(NamedTuple):
    """The page of a document."""

    row: DocumentRow
    chapters: tuple[Chapter, ...]
    errata: tuple[tuple[Erratum, tuple[tuple[str, str], ...]], ...]  # with links to where judged


class OtherRun(NamedTuple):
    """A further outcome of the store, in a line."""

    what: str
    summary: Summary
    key: str


class ExhibitView(NamedTuple):
    """The page of an experiment."""

    exhibit: Exhibit
    shown: OutcomeView | None
    drawn: OutcomeView | None  # whose figure is shown
    statements: tuple[ClaimLine, ...]  # what it claims, if it was never run
    shell: str
    python: str
    fields: tuple[tuple[str, str, str], ...]  # flag, default, help
    systems: tuple[tuple[str, str], ...]  # name, url
    others: tuple[OtherRun, ...]
    num_left_out: int


def url_of(name: str) -> str:
    """The page of an experiment, from the root of the site.

    Example:
        >>> url_of("features/agop/sgd")
        'experiments/features/agop/sgd.html'
    """
    return f"experiments/{name}.html"


def counts_of(lines: Iterable[str]) -> dict[str, int]:
    """How many claims have which verdict, in the order in which they are told.

    Example:
        >>> counts_of(["refuted", "supported", "supported", "not run"])
        {'supported': 2, 'refuted': 1, 'not run': 1}
    """
    found = Counter(lines)
    return {name: found[name] for name in (*map(str, Verdict), NOT_RUN) if found[name]}


def rows_of(exhibits: Sequence[Exhibit]) -> list[Row]:
    """The experiments as a list shows them."""
    rows = []
    for exhibit in exhibits:
        lines = claim_lines(exhibit)
        surprises = sum(not line.as_expected for line in lines)
        counts = counts_of(line.verdict for line in lines)
        rows.append(Row(exhibit.name, exhibit.title, url_of(exhibit.name), counts, surprises))
    return rows


def groups(rows: Sequence[Row]) -> list[Group]:
    """Experiments by room."""
    names = sorted({row.name.partition("/")[0] for row in rows})
    inside = {name: tuple(r for r in rows if r.name.partition("/")[0] == name) for name in names}
    return [Group(name, inside[name], total(row.counts for row in inside[name])) for name in names]


def total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of several counts.

    Example:
        >>> total([{"supported": 1}, {"supported": 2, "refuted": 1}])
        {'supported': 3, 'refuted': 1}
    """
    return counts_of(
        name for each in counts for name, number in each.items() for _ in range(number)
    )


def claim_lines(exhibit: Exhibit, root: str = "") -> list[ClaimLine]:
    """The claims of an experiment that count; of one that was never run, its statements.

    Args:
        exhibit: The experiment.
        root: The way from the page to the root of the site.
    """
    url = f"{root}{url_of(exhibit.name)}"
    if exhibit.shown is not None:
        return [
            ClaimLine(
                judged.statement,
                _WORDS[judged.kind],
                str(judged.finding.verdict),
                judged.as_expected,
                f"{url}#{ANCHOR}-claim-{place}",
            )
            for place, judged in enumerate(exhibit.shown.judged, start=1)
        ]
    claims = exhibit.entry.claims if exhibit.entry else ()
    return [ClaimLine(each.statement, _WORDS[each.kind], NOT_RUN, True, url) for each in claims]


def places(exhibit: Exhibit) -> list[tuple[str, str]]:
    """Document and system of each claim, in the order of `claim_lines`."""
    if exhibit.shown is not None:
        return [(each.source.key, each.source.system) for each in exhibit.shown.judged]
    claims = exhibit.entry.claims if exhibit.entry else ()
    return [(each.source.key, each.source.system) for each in claims]


def document_views(exhibits: Sequence[Exhibit]) -> list[DocumentView]:
    """The pages of the five documents."""
    lines: dict[tuple[str, str], list[ClaimLine]] = {}
    for exhibit in exhibits:
        for place, line in zip(places(exhibit), claim_lines(exhibit, "../"), strict=True):
            lines.setdefault(_canonical(*place), []).append(line)
    entries = [exhibit.entry for exhibit in exhibits if exhibit.entry is not None]
    rows = systems(entries, DOCUMENTS)
    names = {exhibit.name for exhibit in exhibits}
    return [_document_view(key, rows, lines, names) for key in DOCUMENTS]


def _document_view(
    key: str,
    rows: Sequence[dict[str, Any]],
    lines: Mapping[tuple[str, str], Sequence[ClaimLine]],
    names: set[str],
) -> DocumentView:
    own = {row["system"]: row for row in rows if row["source"] == key}
    chapters: dict[str, list[SystemView]] = {}
    for system in document(key).systems:
        shown = SystemView(
            id=system.id,
            title=system.title,
            place=system.place,
            status=own[system.id]["status"],
            missing=system.missing,
            tool=system.tool,
            claims=tuple(lines.get((key, system.id), ())),
        )
        chapters.setdefault(system.chapter, []).append(shown)
    found = [line.verdict for place, each in lines.items() if place[0] == key for line in each]
    statuses = Counter(row["status"] for row in own.values())
    row = DocumentRow(
        key, DOCUMENTS[key], f"sources/{key}.html", counts_of(found), dict(statuses.most_common())
    )
    errata = tuple(
        (each, tuple((name, f"../{url_of(name)}") for name in each.judged if name in names))
        for each in document(key).errata
    )
    return DocumentView(row, tuple(Chapter(t, tuple(s)) for t, s in chapters.items()), errata)


def _canonical(key: str, name: str) -> tuple[str, str]:
    """A system by its own id, where a claim names it by another one."""
    known = document(key).system(name) if key in DOCUMENTS else None
    return key, known.id if known else name


def exhibit_view(exhibit: Exhibit, root: str) -> ExhibitView:
    """The page of an experiment.

    Args:
        exhibit: The experiment.
        root: The way from the page to the root of the site.
    """
    others = exhibit.others[:_MOST_OTHERS]
    words = variants(others)
    fields = exhibit.entry.fields if exhibit.entry else ()
    shell, python = commands(exhibit)
    return ExhibitView(
        exhibit=exhibit,
        shown=view(exhibit.shown, ANCHOR) if exhibit.shown else None,
        drawn=view(exhibit.figure, "drawn") if exhibit.figure else None,
        statements=() if exhibit.shown else tuple(claim_lines(exhibit, root)),
        shell=shell,
        python=python,
        fields=tuple(map(_field_row, fields)),
        systems=tuple(_system_links(exhibit, root)),
        others=tuple(
            OtherRun(_what(outcome, text), summarise([outcome]), outcome.key)
            for outcome, text in zip(others, words, strict=True)
        ),
        num_left_out=len(exhibit.others) - len(others),
    )


def commands(exhibit: Exhibit) -> tuple[str, str]:
    """How to run it again with the settings whose claims count, in the shell and in Python."""
    entry, shown = exhibit.entry, exhibit.shown
    if entry is None:
        return f"theorylab run {shlex.quote(exhibit.name)}", ""
    preset = shown.preset if shown and shown.preset in entry.presets else "default"
    changed = _changed(shown, entry.presets[preset]) if shown else {}
    shell = f"theorylab run {entry.name}" + (f" --preset {preset}" if preset != "default" else "")
    values = [f", {name}={_literal(value)}" for name, value in changed.items()]
    named = f', preset="{preset}"' if preset != "default" else ""
    for name, value in changed.items():
        shell += f" --{name.replace('_', '-')} {shlex.quote(setting(value))}"
    return shell, f'theorylab.run("{entry.name}"{named}{"".join(values)})'


def _changed(outcome: Outcome, preset: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in which an outcome differs from its preset."""
    same = {name: list(v) if isinstance(v, tuple) else v for name, v in preset.items()}
    config = outcome.config
    return {name: config[name] for name in same if name in config and config[name] != same[name]}


def _literal(value: Any) -> str:
    return repr(tuple(value) if isinstance(value, list) else value)


def _field_row(field: Field) -> tuple[str, str, str]:
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    return field.flag, setting(default), field.help


def _system_links(exhibit: Exhibit, root: str) -> Iterable[tuple[str, str]]:
    """The systems of the five documents that it is about, each once."""
    for key, name in dict.fromkeys(_canonical(*place) for place in places(exhibit)):
        if key in DOCUMENTS:
            yield f"{key} · {name}", f"{root}sources/{key}.html#{name}"


def _what(outcome: Outcome, variant: str) -> str:
    """What tells a further run from the others."""
    parts = (variant or f"{outcome.preset} preset").split(", ")
    more = len(parts) - _LONGEST_CONFIG
    return ", ".join(parts[:_LONGEST_CONFIG]) + (f", and {more} more" if more > 0 else "")
