"""Numbers as a person reads them: four digits, more where four would hide a difference.

    Finding ─► Reading("0.9987", "[0.9812, 1.016]", "in [0.9, 1.1]")

Every report writes its numbers with these functions.
"""

import math
from typing import NamedTuple

from theorylab.answers.digits import DIGITS, number
from theorylab.claims.claim import Demand, Finding, Verdict


class Reading(NamedTuple):
    """The three numbers of a finding, as text."""

    measured: str
    interval: str
    demanded: str


def interval(low: float, high: float, digits: int = DIGITS) -> str:
    """Write an interval; one without width is exact, one without numbers is not there.

    Example:
        >>> interval(0.98, 1.02), interval(2.0, 2.0), interval(-math.inf, 3.0)
        ('[0.98, 1.02]', 'exact', '(-∞, 3]')
        >>> interval(math.nan, 1.0)
        'no interval'
    """
    if math.isnan(low) or math.isnan(high):
        return "no interval"
    if low == high:
        return "exact"
    opening = "(" if math.isinf(low) else "["
    closing = ")" if math.isinf(high) else "]"
    return f"{opening}{number(low, digits)}, {number(high, digits)}{closing}"


def demanded(demand: Demand, digits: int = DIGITS) -> str:
    """Write the region in which a number must lie.

    Example:
        >>> demanded(Demand(high=2.0)), demanded(Demand(0.4, 0.6)), demanded(Demand(1.0, 1.0))
        ('≤ 2', 'in [0.4, 0.6]', '= 1')
    """
    low, high = demand.low, demand.high
    if math.isinf(low) and math.isinf(high):
        return "any number"
    if math.isinf(low):
        return f"≤ {number(high, digits)}"
    if math.isinf(high):
        return f"≥ {number(low, digits)}"
    if low == high:
        return f"= {number(low, digits)}"
    return f"in {interval(low, high, digits)}"


def reading(finding: Finding) -> Reading:
    """Write a finding with as many digits as tell what was measured from what was demanded.

    Example:
        >>> from theorylab.claims.claim import Verdict
        >>> at = 1.000004
        >>> reading(Finding(at, at, at, Demand(high=1.0), Verdict.REFUTED, "exact"))
        Reading(measured='1.000004', interval='exact', demanded='≤ 1')
    """
    if finding.verdict == Verdict.NOT_JUDGED:
        return Reading(measured="–", interval="–", demanded="–")
    digits = _telling_digits(finding)
    return Reading(
        measured=number(finding.measured, digits),
        interval=interval(finding.low, finding.high, digits),
        demanded=demanded(finding.demand, digits),
    )


def duration(seconds: float) -> str:
    """Write a time span.

    Example:
        >>> duration(0.04), duration(9.32), duration(75.0), duration(3 * 3600 + 125.0)
        ('0.04 s', '9.3 s', '1 min 15 s', '3 h 2 min')
    """
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 10:
        return f"{number(seconds, 2)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _telling_digits(finding: Finding) -> int:
    """At least DIGITS, and so many that no number looks like a bound that it is not."""
    bounds = [bound for bound in (finding.demand.low, finding.demand.high) if math.isfinite(bound)]
    found = [
        value for value in (finding.measured, finding.low, finding.high) if math.isfinite(value)
    ]
    pairs = [(value, bound) for value in found for bound in bounds if value != bound]
    for digits in range(DIGITS, 17):
        if all(number(value, digits) != number(bound, digits) for value, bound in pairs):
            return digits
    return 17  # a float64 has no more
