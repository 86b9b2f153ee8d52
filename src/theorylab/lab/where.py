"""What `theorylab find --where` says: a small language, parsed into SQL with parameters.

    width >= 256 and verdict = 'refuted'
    source = 'zhu' and (value > 2 or not kind in ('claim', 'control'))
    preset = 'paper' and none(verdict = 'refuted')

Names are those of an outcome (experiment, key, preset, seconds, date), of a finding (value, low,
high, verdict, expected, as_expected, claim, kind, source, system, place), or else of a field of the
config; `config.low` is the field where both have a name. What is said of findings is said of one:
an outcome fits if one of its findings meets all of it. `any(…)`, `every(…)` and `none(…)` ask for
themselves. A field that is a list is compared by its entries: one that fits is enough.

Nothing that the user wrote becomes SQL: names are looked up in tables, values are parameters.
"""

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .conditions import (
    OF_FINDINGS,
    OF_OUTCOMES,
    Column,
    Part,
    Value,
    compared,
    joined,
    negated,
    some_finding,
)
from .failure import Refused, one_line
from .requests import nearest

LONGEST = 4000  # characters
DEEPEST = 40  # parentheses
MOST = 200  # values

_TOKENS = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]inf\b)
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<name>[^\W\d]\w*(?:\.\w+)*)
    |(?P<mark><=|>=|!=|<>|==|[=<>~(),])""",
    re.VERBOSE,
)
_OPERATORS = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">"}
_OPERATORS |= {">=": ">=", "~": "~"}
_QUANTIFIERS = ("any", "every", "none")
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d)?)?)?)?)?")


_EVERYTHING = Part("TRUE")


@dataclass(frozen=True)
class Condition:
    """What is asked for, as SQL about an outcome `o` in the tables of the index."""

    text: str = ""
    outcome: Part = _EVERYTHING  # of `o` alone
    finding: Part | None = None  # of one finding `f` of `o`
    fields: dict[str, int] = field(default_factory=dict)  # of configs, with their places

    @property
    def part(self) -> Part:
        """All of it, about `o`."""
        if self.finding is None:
            return self.outcome
        return joined("AND", [self.outcome, some_finding(self.finding)])

    def require(self, known: Collection[str]) -> None:
        """Refuse fields that no config has.

        Args:
            known: The fields that configs have.

        Raises:
            Refused: There is no such field.
        """
        for name, place in self.fields.items():
            if name not in known:
                names = [*known, *OF_OUTCOMES, *OF_FINDINGS]
                must = "have names of config fields, findings or outcomes"
                raise _wrong(self.text, place, must, repr(name[:60]), nearest(name, names))


def condition(text: str) -> Condition:
    """Read what is asked for.

    Args:
        text: As the user wrote it; an empty one asks for everything.

    Raises:
        Refused: It cannot be read; says where.

    Example:
        >>> condition("width >= 256").part.values
        ('width', 256)
        >>> print(condition("verdict = 'refuted'").finding.sql)
        ((f.verdict = ?) IS TRUE)
        >>> condition("width >> 256")
        Traceback (most recent call last):
        theorylab.lab.failure.Refused: where must have a value, got '>' at character 8: width >> 256
    """
    if len(text) > LONGEST:
        raise Refused(f"where must have at most {LONGEST} characters, got {len(text)}.")
    if not text.strip():
        return Condition(text)
    parser = _Parser(text)
    parts = parser.whole()
    of_findings = [part for part in parts if part.of_finding]
    return Condition(
        text,
        joined("AND", [part for part in parts if not part.of_finding] or [_EVERYTHING]),
        joined("AND", of_findings) if of_findings else None,
        parser.fields,
    )


class _Token(NamedTuple):
    kind: str  # "number", "text", "name", "mark", or "end"
    text: str
    place: int

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "name" else ""


class _Parser:
    """Reads by recursive descent: or, and, not, what is in parentheses, comparisons."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.fields: dict[str, int] = {}
        self._tokens = list(_tokens(text))
        self._next, self._depth, self._values = 0, 0, 0

    def whole(self) -> list[Part]:
        """The whole text, as parts that must all hold."""
        parts = self._all_of()
        if self._at.word == "or":
            parts = [self._rest_of_or(joined("AND", parts))]
        if self._at.kind != "end":
            raise self._error("go on with and, or, or end", self._at)
        return parts

    @property
    def _at(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._at
        self._next += token.kind != "end"
        return token

    def _either(self) -> Part:
        return self._rest_of_or(joined("AND", self._all_of()))

    def _rest_of_or(self, first: Part) -> Part:
        parts = [first]
        while self._at.word == "or":
            self._take()
            parts.append(joined("AND", self._all_of()))
        return joined("OR", parts)

    def _all_of(self) -> list[Part]:
        parts = [self._negated()]
        while self._at.word == "and":
            self._take()
            parts.append(self._negated())
        return parts

    def _negated(self) -> Part:
        negative = False
        while self._at.word == "not":
            self._take()
            negative = not negative
        part = self._single()
        return negated(part) if negative else part

    def _single(self) -> Part:
        token = self._take()
        if token.text == "(" and token.kind == "mark":
            return self._inside()
        if token.kind != "name" or token.word in ("and", "or", "in"):
            raise self._error("have a name or '('", token)
        if token.word in _QUANTIFIERS and self._at.text == "(":
            self._take()
            part = self._inside()
            if not part.of_finding:
                raise self._error(f"speak of findings inside {token.word}()", token)
            some = some_finding(negated(part) if token.word == "every" else part)
            return some if token.word == "any" else negated(some)
        return self._comparison(token)

    def _inside(self) -> Part:
        """What stands in parentheses, after the first."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error(f"be at most {DEEPEST} parentheses deep", self._at)
        part = self._either()
        if (token := self._take()).text != ")":
            raise self._error("have ')'", token)
        self._depth -= 1
        return part

    def _comparison(self, name: _Token) -> Part:
        operator = self._take()
        if negative := operator.word == "not":
            operator = self._take()
        if operator.word == "in":
            part = self._compared(name, "IN", self._list())
        elif operator.kind == "mark" and operator.text in _OPERATORS and not negative:
            part = self._compared(name, _OPERATORS[operator.text], [self._value()])
        else:
            must = "in" if negative else "=, !=, <, <=, >, >=, ~ or in"
            raise self._error(f"compare {name.text[:60]} by {must}", operator)
        return negated(part) if negative else part

    def _list(self) -> list[tuple[_Token, Value]]:
        if (token := self._take()).text != "(":
            raise self._error("have '(' after in", token)
        values = [self._value()]
        while (token := self._take()).text == ",":
            values.append(self._value())
        if token.text != ")":
            raise self._error("have ',' or ')'", token)
        return values

    def _value(self) -> tuple[_Token, Value]:
        token = self._take()
        self._values += 1
        if self._values > MOST:
            raise self._error(f"have at most {MOST} values", token)
        if token.kind == "text":
            quote = token.text[0]
            return token, _clean(token.text[1:-1].replace(2 * quote, quote))
        if token.kind == "number":
            return token, number(token.text)
        if token.word in ("true", "false"):
            return token, token.word == "true"
        if token.word in ("inf", "infinity"):
            return token, math.inf
        hint = f" Texts stand in quotes: '{token.text[:60]}'." if token.kind == "name" else ""
        raise self._error("have a value", token, hint)

    def _compared(self, name: _Token, operator: str, values: list[tuple[_Token, Value]]) -> Part:
        """A name compared with one value, or with a list."""
        column = OF_OUTCOMES.get(name.text) or OF_FINDINGS.get(name.text)
        if column is None:
            return self._field(name, operator, values)
        for token, value in values:
            self._require_fit(name, column, operator, token, value)
        said = tuple(value for _, value in values)
        of_finding = name.text in OF_FINDINGS
        if column.type == "date":  # by as much of it as was said: 2026-01 is a month
            said = tuple(str(value).replace(" ", "T") for value in said)
            pieces = [
                compared(f"substr({column.sql}, 1, {len(value)})", operator, (value,))
                for value in said
            ]
            return joined("OR", [piece._replace(of_finding=False) for piece in pieces])
        return compared(column.sql, operator, said)._replace(of_finding=of_finding)

    def _field(self, name: _Token, operator: str, values: list[tuple[_Token, Value]]) -> Part:
        """A field of the config, compared as a number or as a text."""
        field = name.text.removeprefix("config.")
        self.fields.setdefault(field, name.place)
        pieces = []
        for is_number in (True, False):
            said = [(token, value) for token, value in values if _is_number(value) is is_number]
            if said and is_number and operator == "~":
                raise self._error("have a text after ~", said[0][0])
            if said:
                texts = tuple(
                    str(value).lower() if isinstance(value, bool) else value for _, value in said
                )
                column = "g.number" if is_number else "g.text"
                pieces.append(compared(column, operator, texts))
        inner = joined("OR", pieces)
        sql = (
            f"EXISTS (SELECT 1 FROM fields g WHERE g.outcome = o.id AND g.name = ? AND {inner.sql})"
        )
        return Part(sql, (field, *inner.values))

    def _require_fit(
        self, name: _Token, column: Column, operator: str, token: _Token, value: Value
    ) -> None:
        """Refuse a value of another type than the name has."""
        fits = {
            "number": _is_number(value) and operator != "~",
            "text": isinstance(value, str),
            "date": isinstance(value, str) and bool(_DATE.fullmatch(value)) and operator != "~",
            "truth": isinstance(value, bool) and operator in ("=", "<>"),
        }
        kinds = {
            "number": "a number, compared by its size",
            "text": "a text in quotes",
            "date": "a date such as '2026-01-31' or '2026-01'",
            "truth": "true or false, after = or !=",
        }
        if not fits[column.type]:
            raise self._error(f"compare {name.text} with {kinds[column.type]}", token)
        if column.words and operator != "~" and value not in column.words:
            words = ", ".join(map(repr, column.words))
            offer = nearest(str(value), column.words)
            raise self._error(f"compare {name.text} with one of {words}", token, offer)

    def _error(self, must: str, token: _Token, hint: str = "") -> Refused:
        got = repr(token.text[:60]) if token.kind != "end" else "the end"
        return _wrong(self.text, token.place, must, got, hint)


def number(text: str) -> int | float:
    """A number as the index has it: whole ones that SQLite cannot hold are rounded.

    Example:
        >>> number("256"), number("1e-3"), number("1" * 400)
        (256, 0.001, inf)
    """
    if not re.fullmatch(r"[+-]?\d{1,18}", text):
        return float(text)
    return int(text)


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while place < len(text):
        found = _TOKENS.match(text, place)
        if found is None:
            got = "a quote that does not end" if text[place] in "'\"" else repr(text[place])
            raise _wrong(text, place, "have names, values and comparisons", got)
        if found.lastgroup != "space":
            yield _Token(str(found.lastgroup), found.group(), place)
        place = found.end()
    yield _Token("end", "", place)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _clean(text: str) -> str:
    """A text that SQLite takes: what is no character is replaced."""
    return text.encode("utf-8", "replace").decode()


def _wrong(text: str, place: int, must: str, got: str, hint: str = "") -> Refused:
    """What must hold, what came, and where; of a long text, what is around the place."""
    first = max(0, place - 40)
    around = text[first : place + 40]
    around = ("…" if first else "") + around + ("…" if place + 40 < len(text) else "")
    end = "" if not hint else f".{hint}" if hint.startswith(" ") else f". {hint}"
    said = _clean(f"where must {must}, got {got} at character {place + 1}: {around}{end}")
    return Refused(one_line(said, 600))
