"""The five documents whose claims are tested: what is in them, read from one TOML file each.

    author, title, published     how the document is cited
    [[chapters]]                 its chapters; each has systems
    [[chapters.systems]]         a model, an algorithm, a measurement, a bound or an experiment:
                                 id, title, place; what is `missing` here of what the source has;
                                 the `tool` that has it, where it makes no claims of its own
    [[errata]]                   what the document prints, what is right, and where it is judged

A claim names a document and a system of it, `Source("zhu", "nqm-2d-map", "Thm 3.3.1")`.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class System:
    """A part of a document that can be built and tested."""

    id: str
    title: str
    place: str
    chapter: str
    also: tuple[str, ...] = ()  # other ids that claims may name
    tool: str = ""  # where the library has it, if it makes no claims
    missing: str = ""  # what the source has of it and the lab has not


@dataclass(frozen=True)
class Erratum:
    """Something that a document prints wrongly."""

    place: str
    printed: str
    corrected: str
    judged: tuple[str, ...] = ()  # the experiments that judge both
    why: str = ""  # no experiment does, or not all of it


@dataclass(frozen=True)
class Document:
    """One of the five sources, read whole."""

    key: str
    citation: str
    systems: tuple[System, ...]
    errata: tuple[Erratum, ...]

    def system(self, name: str) -> System | None:
        """The system with this id, or None."""
        return next((each for each in self.systems if name in (each.id, *each.also)), None)


@cache
def document(key: str) -> Document:
    """Read a document.

    Args:
        key: One of `DOCUMENTS`.

    Example:
        >>> zhu = document("zhu")
        >>> zhu.system("hessian-norm").place[:9]
        'Thm 2.3.6'
    """
    if key not in DOCUMENTS:
        raise KeyError(f"the document must be one of {', '.join(DOCUMENTS)}, got {key!r}.")
    content = tomllib.loads(_text(key))
    systems = [
        System(chapter=chapter["title"], **_tuples(system))
        for chapter in content["chapters"]
        for system in chapter["systems"]
    ]
    errata = [Erratum(**_tuples(each)) for each in content.get("errata", ())]
    return Document(key, DOCUMENTS[key], tuple(systems), tuple(errata))


def documents(keys: Iterable[str], others: Mapping[str, str] | None = None) -> dict[str, str]:
    """How documents are cited, in the order of their keys.

    Args:
        keys: Which documents.
        others: Author and title of documents that are none of the five, as experiments say them in
            `SOURCES`; a document of which nobody says anything is called by its key.

    Example:
        >>> list(documents(["zhu", "arora", "zhu"]))
        ['arora', 'zhu']
    """
    known = {**(others or {}), **DOCUMENTS}
    return {key: known.get(key, key) for key in sorted(set(keys))}


def _text(key: str) -> str:
    return (_FOLDER / f"{key}.toml").read_text(encoding="utf-8")


def _citation(key: str) -> str:
    """Author, title and year, from the lines before the first chapter."""
    head = tomllib.loads(_text(key).partition("[[")[0])
    return f"{head['author']}, {head['title']}, {head['published']}"


def _tuples(table: dict[str, Any]) -> dict[str, Any]:
    """A table whose lists are tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in table.items()}


DOCUMENTS = {path.stem: _citation(path.stem) for path in sorted(_FOLDER.glob("*.toml"))}
