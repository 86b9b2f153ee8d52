"""Conditions on outcomes as SQL: which names there are, and how parts are put together.

A part is true or false, never unknown: what is not there, or is no number, fits nothing. Values are
parameters throughout.
"""

from typing import Literal, NamedTuple, get_args

from theorylab.claims.claim import Kind, Verdict

Value = int | float | str | bool
Type = Literal["number", "text", "date", "truth"]


class Column(NamedTuple):
    """A name that everything has: how SQL says it, and what may be compared with it."""

    sql: str
    type: Type
    words: tuple[str, ...] = ()  # all values, if there are few


def _of_claim(name: str) -> str:
    return f"(SELECT c.{name} FROM claims c WHERE c.id = f.claim)"


_VERDICTS = tuple(map(str, Verdict))
OF_OUTCOMES = {
    "experiment": Column("o.folder", "text"),
    "key": Column("o.key", "text"),
    "preset": Column("o.preset", "text"),
    "seconds": Column("o.seconds", "number"),
    "date": Column("o.date", "date"),
}
OF_FINDINGS = {
    "value": Column("f.value", "number"),
    "low": Column("f.low", "number"),
    "high": Column("f.high", "number"),
    "verdict": Column("f.verdict", "text", _VERDICTS),
    "expected": Column(_of_claim("expected"), "text", _VERDICTS),
    "as_expected": Column(f"(f.verdict IN ('not judged', {_of_claim('expected')}))", "truth"),
    "claim": Column(_of_claim("statement"), "text"),
    "kind": Column(_of_claim("kind"), "text", get_args(Kind)),
    "source": Column(_of_claim("source"), "text"),
    "system": Column(_of_claim("system"), "text"),
    "place": Column(_of_claim("place"), "text"),
}


class Part(NamedTuple):
    """A piece of SQL with the values of its parameters."""

    sql: str
    values: tuple[Value, ...] = ()
    of_finding: bool = False  # whether it speaks of the finding `f`


def compared(column: str, operator: str, values: tuple[Value, ...]) -> Part:
    """A comparison that is true or false, never unknown."""
    if operator == "IN":
        return Part(f"(({column} IN ({', '.join('?' * len(values))})) IS TRUE)", values)
    if operator == "~":
        return Part(f"((instr(lower({column}), lower(?)) > 0) IS TRUE)", values)
    return Part(f"(({column} {operator} ?) IS TRUE)", values)


def joined(word: Literal["AND", "OR"], parts: list[Part]) -> Part:
    """Parts with a word between them, balanced: SQLite limits how deep an expression is."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    left, right = joined(word, parts[:middle]), joined(word, parts[middle:])
    sql, values = f"({left.sql} {word} {right.sql})", left.values + right.values
    return Part(sql, values, left.of_finding or right.of_finding)


def negated(part: Part) -> Part:
    """What holds where a part does not."""
    return part._replace(sql=f"(NOT {part.sql})")


def some_finding(part: Part) -> Part:
    """Whether one of the findings fits."""
    sql = f"EXISTS (SELECT 1 FROM findings f WHERE f.outcome = o.id AND {part.sql})"
    return Part(sql, part.values)
