"""Outcomes as JSON: what a person reads in the store and a program on standard output.

JSON has no infinity and no NaN; they are written as the strings "inf", "-inf" and "nan".
"""

import math
from dataclasses import asdict
from typing import Any, get_args

import numpy as np

from theorylab.claims.claim import Demand, Finding, Kind, Source, Verdict

from .outcome import Judged, Outcome, Value


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Everything about an outcome but its arrays and its figure."""
    return {
        "experiment": outcome.experiment,
        "title": outcome.title,
        "description": outcome.description,
        "formula": outcome.formula,
        "preset": outcome.preset,
        "config": outcome.config,
        "as_expected": outcome.as_expected,
        "findings": [judged_json(judged) for judged in outcome.judged],
        "seconds": outcome.seconds,
        "environment": outcome.environment,
        "key": outcome.key,
        "failure": outcome.failure,
        "sources": outcome.sources,
    }


def judged_json(judged: Judged) -> dict[str, Any]:
    """A claim and what was found."""
    finding = judged.finding
    return {
        "statement": judged.statement,
        "formula": judged.formula,
        "source": asdict(judged.source),
        "kind": judged.kind,
        "quote": judged.quote,
        "regime": judged.regime,
        "why": judged.why,
        "expected": str(judged.expected),
        "as_expected": judged.as_expected,
        "verdict": str(finding.verdict),
        "measured": _number(finding.measured),
        "interval": [_number(finding.low), _number(finding.high)],
        "demand": [_number(finding.demand.low), _number(finding.demand.high)],
        "demanded_by": judged.demand,
        "method": finding.method,
    }


def outcome_of(record: Any, arrays: dict[str, np.ndarray], figure: str) -> Outcome:
    """Read a record back; it comes from the store, where anybody may have written.

    Raises:
        KeyError, TypeError, ValueError: It is not a whole record.
    """
    return Outcome(
        experiment=_of(str, record, "experiment"),
        title=_of(str, record, "title"),
        formula=_of(str, record, "formula"),
        preset=_of(str, record, "preset"),
        config=_config(_of(dict, record, "config")),
        judged=tuple(judged_of(judged) for judged in _of(list, record, "findings")),
        arrays=arrays,
        figure=figure,
        seconds=_seconds(_of((int, float), record, "seconds")),
        environment=_texts(_of(dict, record, "environment"), "environment"),
        key=_of(str, record, "key"),
        stored=True,
        description=_of(str, record, "description"),
        failure=_of(str, record, "failure"),
        sources=_texts(_of(dict, {"sources": {}} | record, "sources"), "sources"),
    )


def judged_of(record: Any) -> Judged:
    """Read a claim and what was found back."""
    low, high = map(_float, _of(list, record, "interval"))
    finding = Finding(
        measured=_float(_of((int, float, str), record, "measured")),
        low=low,
        high=high,
        demand=Demand(*map(_float, _of(list, record, "demand"))),
        verdict=Verdict(_of(str, record, "verdict")),
        method=_of(str, record, "method"),
    )
    kind = _of(str, record, "kind")
    if kind not in get_args(Kind):
        raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, got {kind!r}")
    return Judged(
        statement=_of(str, record, "statement"),
        formula=_of(str, record, "formula"),
        source=Source(**_texts(_of(dict, record, "source"), "source")),
        kind=kind,
        expected=Verdict(_of(str, record, "expected")),
        finding=finding,
        quote=_text(record, "quote"),
        regime=_text(record, "regime"),
        why=_text(record, "why"),
        demand=_text(record, "demanded_by"),
    )


def _text(record: Any, name: str) -> str:
    """A text that earlier versions did not write."""
    return _of(str, {name: ""} | record, name)


def _of(kind: type | tuple[type, ...], record: Any, name: str) -> Any:
    """An entry of a record, which must be of some type."""
    if not isinstance(record, dict):
        raise TypeError(f"what has {name} must be an object, got {type(record).__name__}")
    value = record[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} must not be of type {type(value).__name__}")
    return value


def _texts(value: dict[str, Any], name: str) -> dict[str, str]:
    if not all(isinstance(each, str) for each in value.values()):
        raise TypeError(f"{name} must have texts only")
    return value


def _config(value: dict[str, Any]) -> dict[str, Value]:
    """The fields of a config: numbers, texts, lists of numbers."""
    for name, entry in value.items():
        entries = entry if isinstance(entry, list) else [entry]
        if not all(isinstance(each, bool | int | float | str) for each in entries):
            raise TypeError(f"{name} of config must be a number, a text or a list of these")
    return value


def _seconds(value: float) -> float:
    if not 0 <= value < math.inf:
        raise ValueError(f"seconds must be positive and finite, got {value}")
    return float(value)


def _float(value: Any) -> float:
    """A number; those that JSON has not are texts."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(f"a number must not be of type {type(value).__name__}")
    return float(value)


def _number(value: float) -> float | str:
    value = float(value)
    return value if math.isfinite(value) else str(value)
