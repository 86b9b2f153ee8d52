"""`list --by system`: the systems of the five documents in columns for a terminal."""

from collections.abc import Sequence
from typing import Any

from theorylab.experiments.coverage import count


def system_columns(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Three columns for a terminal: the system, what is here of it, and where."""
    columns = []
    for row in rows:
        told = {
            "tested": count(row["claims"]),
            "partial": f"{count(row['claims'])}, partial",
        }.get(row["status"], row["status"])
        title = f"{row['title']}: " if row["title"] else ""
        where = ", ".join(row["experiments"]) or row["tool"] or row["place"]
        columns.append((f"{row['source']} · {row['system']}", told, f"{title}{where}"))
    return columns
