"""Outcomes as JSON: what a person reads in the store and a program on standard output.

JSON has no infinity and no NaN; they are written as the strings "inf", "-inf" and "nan".
"""

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from theorylab.claims.claim import Demand, Finding, Source, Verdict

from .outcome import Judged, Outcome


def record(outcome: Outcome) -> dict[str, Any]:
    """Everything about an outcome but its arrays and its figure."""
    return {
        "experiment": outcome.experiment,
        "title": outcome.title,
        "description": outcome.description,
        "formula": outcome.formula,
        "preset": outcome.preset,
        "config": outcome.config,
        "as_expected": outcome.as_expected,
        "findings": [judged_record(judged) for judged in outcome.judged],
        "seconds": outcome.seconds,
        "environment": outcome.environment,
        "key": outcome.key,
        "failure": outcome.failure,
    }


def judged_record(judged: Judged) -> dict[str, Any]:
    """A claim and what was found."""
    finding = judged.finding
    return {
        "statement": judged.statement,
        "formula": judged.formula,
        "source": asdict(judged.source),
        "kind": judged.kind,
        "expected": str(judged.expected),
        "as_expected": judged.as_expected,
        "verdict": str(finding.verdict),
        "measured": _number(finding.measured),
        "interval": [_number(finding.low), _number(finding.high)],
        "demand": [_number(finding.demand.low), _number(finding.demand.high)],
        "method": finding.method,
    }


def outcome_of(record: dict[str, Any], arrays: dict[str, np.ndarray], figure: str) -> Outcome:
    """Read a record back; it comes from the store.

    Raises:
        KeyError, TypeError, ValueError: It is not a whole record.
    """
    return Outcome(
        experiment=record["experiment"],
        title=record["title"],
        formula=record["formula"],
        preset=record["preset"],
        config=record["config"],
        judged=tuple(judged_of(judged) for judged in record["findings"]),
        arrays=arrays,
        figure=figure,
        seconds=float(record["seconds"]),
        environment=record["environment"],
        key=record["key"],
        stored=True,
        description=record.get("description", ""),
        failure=record.get("failure", ""),
    )


def judged_of(record: dict[str, Any]) -> Judged:
    """Read a claim and what was found back."""
    low, high = map(float, record["interval"])
    finding = Finding(
        measured=float(record["measured"]),
        low=low,
        high=high,
        demand=Demand(*map(float, record["demand"])),
        verdict=Verdict(record["verdict"]),
        method=record["method"],
    )
    return Judged(
        statement=record["statement"],
        formula=record["formula"],
        source=Source(**record["source"]),
        kind=record["kind"],
        expected=Verdict(record["expected"]),
        finding=finding,
    )


def _number(value: float) -> float | str:
    value = float(value)
    return value if math.isfinite(value) else str(value)
