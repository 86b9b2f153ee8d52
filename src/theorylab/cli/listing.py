"""`list` and `show`: what there is, read from the tree without importing it."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from theorylab.claims.claim import Verdict
from theorylab.experiments.coverage import count, system_counts, systems
from theorylab.experiments.entry import Entry, Field, Outline, Statement
from theorylab.experiments.tree import Tree
from theorylab.folders import cache_folder
from theorylab.lab.outlines import outlines
from theorylab.lab.records import PRESETS, Record, RecordedClaim, read_record
from theorylab.lab.requests import find, nearest
from theorylab.report.numbers import duration
from theorylab.sources import DOCUMENTS, documents

from .commands import Parsed, shown
from .systems import system_columns
from .usage import Usage, notice

KEYS = tuple(DOCUMENTS)


def list_experiments(tree: Tree, parsed: Parsed) -> int:
    """`theorylab list`: the experiments, or the systems that they test."""
    if parsed.words:
        raise Usage(f"list takes no names, got {parsed.words[0]!r}. Perhaps --concept?")
    entries = _chosen(outlines(tree, cache_folder(), notice), parsed.options)
    if "--by" in parsed.options:
        whole = not {"--concept", "--search"} & parsed.options.keys()
        rows = systems(entries, _keys(parsed.options) if whole else ())
        if "--json" in parsed.options:
            print_json(rows)
        else:
            _print_rows(system_columns(rows))
            notice(system_counts(rows))
    elif "--json" in parsed.options:
        print_json([summary(entry) | _recorded(tree, entry) for entry in entries])
    else:
        _print_rows([(entry.name, _verdicts(tree, entry), entry.title) for entry in entries])
    return 0


def show_experiment(tree: Tree, parsed: Parsed) -> int:
    """`theorylab show NAME`: statement, source, formula, fields, presets."""
    if len(parsed.words) != 1:
        got = " ".join(parsed.words) or "none"
        raise Usage(f"show needs the name of one experiment, got {got}. theorylab list shows them.")
    entry = find(tree, parsed.words[0], notice).entry
    if "--json" in parsed.options:
        print_json(summary(entry) | details(entry) | _recorded(tree, entry))
    else:
        records = {each: recorded_of(tree, entry.name, notice, each) for each in PRESETS}
        print("\n".join(_page(entry, {k: v for k, v in records.items() if v is not None})))
    return 0


def summary(entry: Outline) -> dict[str, Any]:
    """What `list` says about an experiment."""
    return {
        "name": entry.name,
        "concept": entry.concept,
        "title": entry.title,
        "sources": sorted({str(claim.source) for claim in entry.claims}),
        "claims": len(entry.claims),
    }


def details(entry: Entry) -> dict[str, Any]:
    """What `show` says besides."""
    return {
        "description": entry.description,
        "precision": entry.precision,
        "formula": entry.formula,
        "summary": entry.summary,
        "fields": [_field(field) for field in entry.fields],
        "presets": entry.presets,
        "claims": [asdict(claim) for claim in entry.claims],
    }


def _field(field: Field) -> dict[str, Any]:
    """A field of the config, for a program."""
    return {
        "name": field.name,
        "type": field.type,
        "domain": field.domain,
        "default": field.default,
        "help": field.help,
    }


def _keys(options: dict[str, str]) -> tuple[str, ...]:
    """The documents that are asked for."""
    return (options["--source"],) if options.get("--source") in DOCUMENTS else KEYS


def print_json(value: Any) -> None:
    """Print JSON; in an alphabet that standard output has."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, indent=2, ensure_ascii=not unicode, allow_nan=False))


def _has(entry: Outline, words: str) -> bool:
    """Whether an experiment has all the words, large or small, in what it says of itself."""
    claims = [f"{claim.statement} {claim.source}" for claim in entry.claims]
    said = " ".join([entry.name, entry.title, entry.description, *claims]).casefold()
    return all(word in said for word in words.casefold().split())


def _chosen(entries: Sequence[Outline], options: dict[str, str]) -> list[Outline]:
    concept, key = options.get("--concept"), options.get("--source")
    concepts = sorted({entry.concept for entry in entries})
    inside = f"{concept}/"
    if concept is not None and not any(entry.name.startswith(inside) for entry in entries):
        offer = nearest(concept, concepts) or f" They are {', '.join(concepts)}."
        raise Usage(f"--concept must be one that has experiments, got {concept!r}.{offer}")
    keys = dict.fromkeys((*KEYS, *(key for entry in entries for key in entry.keys)))
    if key is not None and key not in keys:
        must = f"--source must be one of {', '.join(keys)}, got {key!r}."
        raise Usage(f"{must} theorylab list --help says which documents they are.")
    return [
        entry
        for entry in entries
        if (concept is None or entry.name.startswith(inside))
        and (key is None or key in entry.keys)
        and _has(entry, options.get("--search", ""))
    ]


def recorded_of(
    tree: Tree, name: str, notice: Callable[[str], None], preset: str = "default"
) -> Record | None:
    """The record of an experiment; a damaged one costs a line."""
    try:
        return read_record(tree.records, name, preset) if tree.records else None
    except ValueError as error:
        notice(str(error))
        return None


def _verdicts(tree: Tree, entry: Outline) -> str:
    """How many claims an experiment has, and how many verdicts of its record are as expected."""
    recorded = recorded_of(tree, entry.name, notice)
    if recorded is None:
        return count(len(entry.claims))
    expected = sum(claim.as_expected for claim in recorded.claims)
    return f"{expected} of {count(len(recorded.claims))} as expected"


def _recorded(tree: Tree, entry: Outline) -> dict[str, Any]:
    """What was recorded, for a program."""
    recorded = recorded_of(tree, entry.name, notice)
    if recorded is None:
        return {"recorded": None}
    claims = [
        {
            "statement": claim.statement,
            "verdict": str(claim.verdict),
            "as_expected": claim.as_expected,
            "unstable": claim.unstable,
        }
        for claim in recorded.claims
    ]
    about = {name: getattr(recorded, name) for name in ("date", "seed", "seconds", "key")}
    return {"recorded": about | {"claims": claims}}


def _page(entry: Entry, records: Mapping[str, Record]) -> Iterable[str]:
    """The lines of `show`; `records` are those of its presets."""
    recorded = records.get("default")
    yield _bold(entry.name)
    yield entry.title
    if entry.description:
        yield from ("", entry.description)
    yield from ("", f"{_bold('formula')}    {entry.formula}")
    yield f"{_bold('precision')}  {entry.precision}"
    yield from ("", _bold("fields") + (f"  {entry.summary}" if entry.summary else ""))
    flags = [f"{field.flag} {shown(field.default)}" for field in entry.fields]
    width = min(max(map(len, flags), default=0), 36) + 2
    for flag, field in zip(flags, entry.fields, strict=True):
        yield f"  {flag:{width}}{field.domain}{'; ' + field.help if field.help else ''}"
    yield from ("", _bold("presets"))
    for preset, config in entry.presets.items():
        default = entry.presets["default"]
        changes = [f"{k}={shown(v)}" for k, v in config.items() if v != default[k]]
        told = [" ".join(changes)] if changes else []
        if preset in records:
            told.append(f"took {duration(records[preset].seconds)} when recorded")
        yield f"  {preset:9}{'; '.join(told)}".rstrip()
    yield from ("", _bold("claims") + (f"  {_record_line(entry, recorded)}" if recorded else ""))
    known = {claim.statement: claim for claim in recorded.claims} if recorded else {}
    for claim in entry.claims:
        yield from _claim(claim, known.get(claim.statement))
    yield from ("", _bold("sources"))
    for key, citation in documents(entry.keys, entry.sources).items():
        text = f"{key}: {citation}"
        yield from textwrap.wrap(text, _width() - 2, initial_indent="  ", subsequent_indent="    ")


def _record_line(entry: Entry, recorded: Record) -> str:
    """When the record was made, what it says, and whether the claims have changed since."""
    same = [claim.statement for claim in recorded.claims] == [c.statement for c in entry.claims]
    return recorded.sentence + ("" if same else "; the claims have changed since")


def _claim(claim: Statement, recorded: RecordedClaim | None) -> Iterable[str]:
    """A claim with its kind, formula, source, what else it says, and its recorded verdict."""
    kinds = {
        "control": " (control)",
        "printed": " (as printed)",
        "corrected": " (as corrected)",
        "found": " (found here, not in the source)",
        "check": " (check of the lab)",
    }
    text = claim.statement + kinds.get(claim.kind, "")
    yield from textwrap.wrap(text, _width() - 2, initial_indent="  ", subsequent_indent="    ")
    if claim.formula:
        yield f"    {claim.formula}"
    details = (
        f"“{claim.quote}”" if claim.quote else "",
        str(claim.source),
        f"judged where {claim.regime}" if claim.regime else "",
        f"expected {claim.expected}: {claim.why}" if claim.why else "",
        _finding(recorded) if recorded else "",
    )
    for detail in filter(None, details):
        yield from textwrap.wrap(
            detail, _width() - 2, initial_indent="    ", subsequent_indent="    "
        )


def _finding(claim: RecordedClaim) -> str:
    """The recorded verdict with its number."""
    seeds = "; other seeds differ" if claim.unstable else ""
    if claim.verdict == Verdict.NOT_JUDGED:
        return str(claim.verdict)
    interval = "" if claim.low == claim.high else f" [{claim.low:.4g}, {claim.high:.4g}]"
    return f"{claim.verdict}: {claim.measured:.4g}{interval}{seeds}"


def _print_rows(rows: Sequence[tuple[str, str, str]]) -> None:
    """Three columns; a terminal's last column is cut, a pipe's is not."""
    first, second = (max((len(row[i]) for row in rows), default=0) for i in (0, 1))
    for name, middle, text in rows:
        room = max(_width() - first - second - 5, 20)
        if sys.stdout.isatty() and len(text) > room:
            text = text[: room - 1] + "…"
        print(f"{_bold(name)}{'':{first - len(name)}}  {middle:>{second}}  {text}")


def _bold(text: str) -> str:
    """Bold, on a terminal that wants it."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not sys.stdout.isatty() else f"\033[1m{text}\033[0m"


def _width() -> int:
    return min(shutil.get_terminal_size((100, 24)).columns, 100)
