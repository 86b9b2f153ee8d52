"""What `--where` says is what Python says of the same outcomes; errors have their place."""

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from made_up import judged, made_up

from theorylab.claims.claim import Verdict
from theorylab.lab import Judged, Outcome, Refused, Store
from theorylab.lab.where import LONGEST, condition

VERDICTS = (Verdict.SUPPORTED, Verdict.REFUTED, Verdict.NOT_JUDGED)
Holds = Callable[[Outcome, Judged], bool]  # of an outcome and one of its findings


def outcomes() -> list[Outcome]:
    chance, made = random.Random(1), []
    for number in range(60):
        claims = []
        for _ in range(chance.randrange(1, 4)):
            value = chance.choice([0.5, 1.0, 2.0, math.nan, math.inf])
            claim = judged(value)
            finding = replace(claim.finding, verdict=chance.choice(VERDICTS))
            kind = chance.choice(["claim", "control"])
            claims.append(replace(claim, finding=finding, kind=kind))
        config = {
            "width": chance.choice([1, 2, 3]),
            "ratios": [chance.choice([1.0, 2.0, 3.0]) for _ in range(chance.randrange(3))],
            "name": chance.choice(["relu", "erf", "it's"]),
            "fair": chance.random() < 0.5,
            "low": chance.choice([7, 8]),
        }
        if number % 3 == 0:
            del config["width"]
        preset = chance.choice(["smoke", "paper"])
        made.append(made_up(f"{number:04x}", config=config, judged=tuple(claims), preset=preset))
    return made


@pytest.fixture(scope="module")
def asked(tmp_path_factory) -> tuple[Store, list[Outcome]]:
    store, made = Store(tmp_path_factory.mktemp("store")), outcomes()
    for outcome in made:
        store.write(outcome)
    return store, made


def entries(value) -> list:
    return value if isinstance(value, list) else [value]


def compared(operator: str, left, right) -> bool:
    """Whether a comparison holds, as Python says it."""
    return {
        "=": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


def comparison(chance: random.Random) -> tuple[str, Holds, bool]:
    """A comparison as text, as Python, and whether it speaks of findings."""
    operator = chance.choice(["=", "!=", "<", "<=", ">", ">="])
    which = chance.randrange(6)
    if which == 0:
        name, limit = chance.choice(["width", "ratios", "config.low"]), chance.choice([1, 2, 7.5])
        field = name.removeprefix("config.")
        return (
            f"{name} {operator} {limit}",
            lambda o, f: any(
                compared(operator, e, limit) for e in entries(o.config.get(field, []))
            ),
            False,
        )
    if which == 1:
        text = chance.choice(["relu", "erf", "it's"])
        quoted = '"it\'s"' if chance.random() < 0.5 else "'it''s'"
        words = quoted if "'" in text else f"'{text}'"
        return (
            f"name {operator} {words}",
            lambda o, f: compared(operator, o.config["name"], text),
            False,
        )
    if which == 2:
        some = chance.sample([1, 2, 3], 2)
        negative = chance.random() < 0.5
        said = f"width {'NOT ' * negative}in ({', '.join(map(str, some))})"
        return said, lambda o, f: (o.config.get("width") in some) is not negative, False
    if which == 3:
        truth = chance.random() < 0.5
        return f"fair = {truth}".lower(), lambda o, f: o.config["fair"] is truth, False
    if which == 4:
        verdict = chance.choice(VERDICTS)
        return f"verdict='{verdict}'", lambda o, f: f.finding.verdict == verdict, True
    limit = chance.choice([0.5, 1, "inf"])
    return (
        f"value{operator}{limit}",
        lambda o, f: (
            not math.isnan(f.finding.measured)
            and compared(operator, f.finding.measured, float(limit))
        ),
        True,
    )


def expression(chance: random.Random, depth: int) -> tuple[str, Holds, bool]:
    if depth == 0 or chance.random() < 0.2:
        return comparison(chance)
    kind = chance.choice(["and", "or", "not", "any", "every", "none"])
    left, holds, of_finding = expression(chance, depth - 1)
    if kind == "not":
        return f"not ({left})", lambda o, f: not holds(o, f), of_finding
    if kind in ("and", "or"):
        right, also, too = expression(chance, depth - 1)
        join = all if kind == "and" else any
        return (
            f"({left}) {kind} ({right})",
            lambda o, f: join([holds(o, f), also(o, f)]),
            of_finding or too,
        )
    if not of_finding:
        return left, holds, of_finding
    if kind == "none":
        return f"none({left})", lambda o, f: not any(holds(o, g) for g in o.judged), False
    join = any if kind == "any" else all
    return f"{kind}({left})", lambda o, f: join(holds(o, g) for g in o.judged), False


@pytest.mark.parametrize("seed", range(60))
def test_what_is_found_is_what_python_finds(asked, seed):
    """Oracle: the same condition, as a function, asked of every finding of every outcome."""
    store, made = asked
    text, holds, _ = expression(random.Random(seed), 3)
    expected = {o.key for o in made if any(holds(o, finding) for finding in o.judged)}
    assert {hit.key for hit in store.find(text)} == expected, text


def test_and_binds_closer_than_or_and_not_closest(asked):
    store, made = asked
    text = "width = 1 or width = 2 and not config.low = 7 or name = 'erf'"
    expected = {
        o.key
        for o in made
        if o.config.get("width") == 1
        or (o.config.get("width") == 2 and o.config["low"] != 7)
        or o.config["name"] == "erf"
    }
    assert {hit.key for hit in store.find(text)} == expected


def test_dates_are_compared_by_as_much_as_is_said(asked):
    store, made = asked
    day = store.find()[0].date[:10]
    assert len(store.find(f"date = '{day}'")) == len(store.find(f"date <= '{day}'")) == len(made)
    assert len(store.find(f"date > '{day}' or date < '{day[:4]}'")) == 0
    assert len(store.find(f"date in ('{day[:7]}', '1999')")) == len(made)


def test_of_one_finding_all_must_hold(asked):
    """Oracle: Python. `verdict` and `value` are of the same finding, `any` asks for itself."""
    store, made = asked
    one = {
        o.key
        for o in made
        if any(f.finding.verdict == Verdict.REFUTED and f.finding.measured == 0.5 for f in o.judged)
    }
    apart = {
        o.key
        for o in made
        if any(f.finding.verdict == Verdict.REFUTED for f in o.judged)
        and any(f.finding.measured == 0.5 for f in o.judged)
    }
    assert one < apart
    assert {hit.key for hit in store.find("verdict='refuted' and value=0.5")} == one
    assert {hit.key for hit in store.find("any(verdict='refuted') and any(value=0.5)")} == apart


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("width >> 3", "must have a value, got '>' at character 8: width >> 3"),
        ("width", "compare width by =, !=, <, <=, >, >=, ~ or in, got the end at character 6"),
        ("width = relu", "got 'relu' at character 9: width = relu. Texts stand in quotes: 'relu'."),
        ("width = 'relu", "got a quote that does not end at character 9"),
        ("(width = 3", "have ')', got the end at character 11"),
        ("width = 3)", "go on with and, or, or end, got ')' at character 10"),
        ("width = 3 width = 4", "go on with and, or, or end, got 'width'"),
        ("width in 3", "have '(' after in, got '3'"),
        ("width in (3", "have ',' or ')', got the end"),
        ("width in ()", "have a value, got ')'"),
        ("width not = 3", "compare width by in, got '='"),
        ("and width = 3", "have a name or '(', got 'and' at character 1"),
        ("3 < width", "have a name or '(', got '3'"),
        ("wdth = 3", "got 'wdth' at character 1: wdth = 3. Did you mean width?"),
        ("config.value = 3", "got 'value' at character 1"),
        (
            "verdict = 'refutd'",
            "got \"'refutd'\" at character 11: verdict = 'refutd'. Did you mean refuted?",
        ),
        ("kind = 'opinion'", "compare kind with one of 'claim', 'control'"),
        ("value = 'much'", "compare value with a number, compared by its size"),
        ("seconds ~ 3", "compare seconds with a number"),
        ("preset = 3", "compare preset with a text in quotes"),
        ("date > '1.2.2026'", "compare date with a date such as '2026-01-31'"),
        ("as_expected > true", "compare as_expected with true or false"),
        ("width ~ 3", "have a text after ~"),
        ("none(width = 3)", "speak of findings inside none()"),
        ("width = 3; DROP TABLE outcomes", "got ';' at character 10"),
        ("width\n= $", "got '$' at character 9"),
        ("(" * 41 + "width = 3" + ")" * 41, "be at most 40 parentheses deep"),
        ("not " * 10 + "or", "have a name or '(', got 'or'"),
        (" or ".join(["width = 1"] * 201), "have at most 200 values"),
        ("x" * (LONGEST + 1), "must have at most 4000 characters, got 4001"),
    ],
)
def test_an_error_is_one_line_with_the_place(asked, text, message):
    with pytest.raises(Refused) as caught:
        asked[0].find(text)
    assert str(caught.value).startswith("where must ")
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) <= 600


@pytest.mark.parametrize(
    "text", ["x'; DROP TABLE outcomes; --", 'a" OR 1=1', "%", "\0", "\ud800", "?", "η" * 1000]
)
def test_what_the_user_wrote_never_becomes_sql(asked, text):
    """Oracle: no outcome has such a name, and all are still there."""
    store, made = asked
    quoted = "'" + text.replace("'", "''") + "'"
    assert list(store.find(f"name = {quoted} or claim = {quoted} or experiment = {quoted}")) == []
    assert len(store.find()) == len(made)
    with pytest.raises(Refused):
        store.find("", experiment=text)


def test_two_hundred_comparisons_are_not_too_many(asked):
    """SQLite allows expressions to be 1,000 deep."""
    store, made = asked
    text = " or ".join(f"value = {n}" for n in range(100)) + " or name in ('relu', 'erf')"
    assert 0 < len(store.find(text)) <= len(made)
    assert condition("  ").part.sql == "TRUE"
