"""A claim, where it comes from, and what was found.

    Result, Config ─► judge ─► Finding: the number, its interval, what was demanded, a verdict

A verdict is *supported* (the interval lies inside what is demanded), *refuted* (it lies outside) or
*inconclusive* (it straddles, or something is not finite).
"""

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


class Verdict(enum.StrEnum):
    """What the measurement says about the claim."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Source:
    """Where a statement stands.

    Args:
        key: The document; `theorylab.experiments.sources` has author and title of five. Of another
            one, the experiment's module says them in `SOURCES`.
        system: What of the document it is about: a model, an algorithm, a measurement or a bound,
            by the id that the project gives to it.
        place: The section, theorem or equation.
    """

    key: str
    system: str
    place: str

    def __str__(self) -> str:
        return f"{self.key} · {self.system} · {self.place}"


@dataclass(frozen=True)
class Demand:
    """The closed region [low, high] in which the measured number must lie."""

    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not self.low <= self.high:  # also false for NaN
            raise ValueError(f"a demand needs low <= high, got [{self.low}, {self.high}].")

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"≤ {self.high:.4g}"
        if math.isinf(self.high):
            return f"≥ {self.low:.4g}"
        return f"in [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True)
class Finding:
    """What a judge found: a number with its interval, the demand on it, the verdict."""

    measured: float
    low: float
    high: float
    demand: Demand
    verdict: Verdict
    method: str  # how the interval was made: "exact", "sign interval over 10 seeds, 97.9 %", ...


Judge = Callable[[Any, Any], Finding]  # (result, config) ─► finding
Kind = Literal["claim", "control", "printed", "corrected"]


@dataclass(frozen=True)
class Claim:
    """A statement that a run can support or refute.

    Args:
        statement: In words, as a sentence.
        judge: Turns the experiment's `Result` and `Config` into a `Finding`; trains nothing.
        source: Where the statement stands.
        kind: A plain claim; a negative control; or one half of an erratum: the statement as it is
            printed (expected to be refuted) and as it should read (expected to be supported).
        formula: The statement in LaTeX, for reports.
    """

    statement: str
    judge: Judge
    source: Source
    kind: Kind = "claim"
    formula: str = ""

    @property
    def expected(self) -> Verdict:
        """The verdict that surprises nobody."""
        return Verdict.REFUTED if self.kind == "printed" else Verdict.SUPPORTED


def erratum(
    source: Source,
    printed: tuple[str, Judge] | tuple[str, Judge, str],
    corrected: tuple[str, Judge] | tuple[str, Judge, str],
    formula: str = "",
) -> tuple[Claim, Claim]:
    """Make the two claims of a misprint: as it is printed, and as it should read.

    Args:
        source: Where it is printed.
        printed: The statement as it is printed, its judge, and its formula if it has one;
            expected to be refuted.
        corrected: The statement as it should read, likewise.
        formula: The corrected statement in LaTeX, where `corrected` has none.

    Example:
        >>> from theorylab.claims import at_most
        >>> place = Source("zhu", "nqm-2d-map", "Eq. 3.11")
        >>> wrong, right = erratum(
        ...     place,
        ...     printed=("It is at most 1.", lambda r, c: at_most(r, 1.0)),
        ...     corrected=("It is at most 2.", lambda r, c: at_most(r, 2.0)),
        ... )
        >>> str(wrong.expected), str(right.judge(1.5, None).verdict)
        ('refuted', 'supported')
    """
    wrong, wrong_judge, *wrong_formula = printed
    right, right_judge, *right_formula = corrected
    return (
        Claim(wrong, wrong_judge, source, "printed", *wrong_formula),
        Claim(right, right_judge, source, "corrected", *(right_formula or [formula])),
    )


def verdict(low: float, high: float, demand: Demand) -> Verdict:
    """Judge an interval [low, high] against a demanded region.

    Example:
        >>> str(verdict(0.9, 1.1, Demand(0.5, 1.5)))
        'supported'
        >>> str(verdict(0.9, 1.1, Demand(high=1.0)))
        'inconclusive'
    """
    # A comparison with NaN is false, and would pass for a refutation.
    if math.isnan(low) or math.isnan(high):
        return Verdict.INCONCLUSIVE
    if demand.low <= low and high <= demand.high:
        return Verdict.SUPPORTED
    if high < demand.low or demand.high < low:
        return Verdict.REFUTED
    return Verdict.INCONCLUSIVE
