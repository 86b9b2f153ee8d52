"""What of the systems of the sources is tested, and where.

sources (what is there) + experiments (what claims) ─► one row for each system
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from theorylab.sources import DOCUMENTS, System, document

from .entry import Outline


def systems(entries: Iterable[Outline], keys: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The systems of the sources: what they are, and what of them is tested where.

    Args:
        entries: The experiments whose claims count.
        keys: The documents of which also those systems are listed that have no claims.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        found |= {(key, system.id): [] for system in document(key).systems}
    for entry in entries:
        for claim in entry.claims:
            key, name = claim.source.key, claim.source.system
            system = _system(key, name)
            found.setdefault((key, system.id), []).append(entry.name)
    return [
        {
            "source": key,
            "system": name,
            "title": (system := _system(key, name)).title,
            "place": system.place,
            "chapter": system.chapter,
            "status": _status(system, len(names)),
            "missing": system.missing,
            "tool": system.tool,
            "claims": len(names),
            "experiments": sorted(set(names)),
        }
        for (key, name), names in sorted(found.items())
    ]


def _system(key: str, name: str) -> System:
    """A system of a document; of a document that is none of the five, its id says all."""
    known = document(key).system(name) if key in DOCUMENTS else None
    return known or System(id=name, title="", place="", chapter="")


def _status(system: System, num_claims: int) -> str:
    """How much of a system is here."""
    if num_claims:
        return "partial" if system.missing else "tested"
    return "tool only" if system.tool else "not there yet"


def system_counts(rows: Sequence[dict[str, Any]]) -> str:
    """Say how many systems there are of each status.

    Example:
        >>> system_counts([{"status": "tested"}, {"status": "not there yet"}, {"status": "tested"}])
        '3 systems: 2 tested, 1 not there yet.'
    """
    counts = Counter(row["status"] for row in rows)
    parts = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    return f"{len(rows)} systems: {parts}."


def count(number: int) -> str:
    """A number of claims.

    Example:
        >>> count(1), count(2)
        ('1 claim', '2 claims')
    """
    return f"{number} claim" + ("" if number == 1 else "s")
