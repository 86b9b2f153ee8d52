"""`list` and `show`: what there is, read from the tree without importing it."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from theorylab.experiments.entry import Entry, Field, Statement
from theorylab.experiments.reader import TreeError
from theorylab.experiments.sources import DOCUMENTS, documents
from theorylab.experiments.tree import Tree
from theorylab.lab.requests import find, nearest

from .commands import Parsed, shown
from .usage import Usage, notice

KEYS = tuple(DOCUMENTS)


def list_experiments(tree: Tree, parsed: Parsed) -> int:
    """`theorylab list`: the experiments, or the systems that they test."""
    if parsed.words:
        raise Usage(f"list takes no names, got {parsed.words[0]!r}. Perhaps --concept?")
    entries = _chosen(_readable(tree), parsed.options)
    by_system = "--by" in parsed.options
    if "--json" in parsed.options:
        print_json(systems(entries) if by_system else [summary(entry) for entry in entries])
    elif by_system:
        rows = [
            (
                f"{each['source']} · {each['system']}",
                _count(each["claims"]),
                ", ".join(each["experiments"]),
            )
            for each in systems(entries)
        ]
        _print_rows(rows)
    else:
        _print_rows([(entry.name, _count(len(entry.claims)), entry.title) for entry in entries])
    return 0


def show_experiment(tree: Tree, parsed: Parsed) -> int:
    """`theorylab show NAME`: statement, source, formula, fields, presets."""
    if len(parsed.words) != 1:
        got = " ".join(parsed.words) or "none"
        raise Usage(f"show needs the name of one experiment, got {got}. theorylab list shows them.")
    entry = find(tree, parsed.words[0], notice).entry
    if "--json" in parsed.options:
        print_json(summary(entry) | details(entry))
    else:
        print("\n".join(_page(entry)))
    return 0


def summary(entry: Entry) -> dict[str, Any]:
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


def systems(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """The systems of the sources that have claims: how many, and in which experiments."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        for claim in entry.claims:
            found.setdefault((claim.source.key, claim.source.system), []).append(entry.name)
    return [
        {"source": key, "system": system, "claims": len(names), "experiments": sorted(set(names))}
        for (key, system), names in sorted(found.items())
    ]


def print_json(value: Any) -> None:
    """Print JSON; in an alphabet that standard output has."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, indent=2, ensure_ascii=not unicode, allow_nan=False))


def _readable(tree: Tree) -> list[Entry]:
    """The experiments that can be read; of the others, a line says what is wrong."""
    entries = []
    for name in tree.names():
        try:
            entries.append(tree.entry(name))
        except TreeError as error:
            notice(f"{error} Left out.")
        except OSError as error:
            notice(f"{name} cannot be read: {error.strerror}. Left out.")
    return entries


def _has(entry: Entry, words: str) -> bool:
    """Whether an experiment has all the words, large or small, in what it says of itself."""
    claims = [f"{claim.statement} {claim.source}" for claim in entry.claims]
    said = " ".join([entry.name, entry.title, entry.description, *claims]).casefold()
    return all(word in said for word in words.casefold().split())


def _chosen(entries: Sequence[Entry], options: dict[str, str]) -> list[Entry]:
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


def _page(entry: Entry) -> Iterable[str]:
    """The lines of `show`."""
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
        yield f"  {preset:9}{' '.join(changes)}".rstrip()
    yield from ("", _bold("claims"))
    for claim in entry.claims:
        yield from _claim(claim)
    yield from ("", _bold("sources"))
    for key, document in documents(entry.keys, entry.sources).items():
        text = f"{key}: {document}"
        yield from textwrap.wrap(text, _width() - 2, initial_indent="  ", subsequent_indent="    ")


def _claim(claim: Statement) -> Iterable[str]:
    """A claim with its kind, formula, source, and what else it says."""
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
    )
    for detail in filter(None, details):
        yield from textwrap.wrap(
            detail, _width() - 2, initial_indent="    ", subsequent_indent="    "
        )


def _print_rows(rows: Sequence[tuple[str, str, str]]) -> None:
    """Three columns; a terminal's last column is cut, a pipe's is not."""
    first, second = (max((len(row[i]) for row in rows), default=0) for i in (0, 1))
    for name, count, text in rows:
        room = max(_width() - first - second - 5, 20)
        if sys.stdout.isatty() and len(text) > room:
            text = text[: room - 1] + "…"
        print(f"{_bold(name)}{'':{first - len(name)}}  {count:>{second}}  {text}")


def _count(number: int) -> str:
    return f"{number} claim" + ("" if number == 1 else "s")


def _bold(text: str) -> str:
    """Bold, on a terminal that wants it."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not sys.stdout.isatty() else f"\033[1m{text}\033[0m"


def _width() -> int:
    return min(shutil.get_terminal_size((100, 24)).columns, 100)
