"""A claim, where it comes from, and what was found.

    Result, Config ─► judge ─► Finding: the number, its interval, what was demanded, a verdict

A verdict is *supported* (the interval lies inside what is demanded), *refuted* (it lies outside) or
*inconclusive* (it straddles, or something is not finite). Outside the regime in which a claim can
be judged at all, it is *not judged*.
"""

import enum
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack


class Verdict(enum.StrEnum):
    """What the measurement says about the claim."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    NOT_JUDGED = "not judged"


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
Kind = Literal["claim", "control", "printed", "corrected", "found", "check"]
Expected = Literal["", "supported", "refuted", "inconclusive"]


Formulated = tuple[str, Judge] | tuple[str, Judge, str]  # a statement, its judge, its formula
_ORIGIN = re.compile(r"source|(derived|lab): \S.*", re.DOTALL)


class Details(TypedDict, total=False):
    """What a claim may say besides its statement; `Claim` explains each."""

    formula: str
    quote: str
    regime: str
    expected: Expected
    why: str
    demand: str


@dataclass(frozen=True)
class Source:
    """Where statements stand, and what is claimed there.

    Args:
        key: The document; `theorylab.sources` has author and title of five. Of another
            one, the experiment's module says them in `SOURCES`.
        system: What of the document it is about: a model, an algorithm, a measurement or a bound,
            by the id that the project gives to it.
        place: The section, theorem or equation.

    Example:
        >>> from theorylab.claims import at_most
        >>> theorem = Source("zhu", "nqm-multi", "Thm 3.3.6")
        >>> claim = theorem.claim("The loss is at most 1.", lambda r, c: at_most(r, 1.0))
        >>> str(claim.source), str(claim.judge(0.5, None).verdict)
        ('zhu · nqm-multi · Thm 3.3.6', 'supported')
    """

    key: str
    system: str
    place: str

    def __str__(self) -> str:
        return f"{self.key} · {self.system} · {self.place}"

    def claim(self, statement: str, judge: Judge, **details: Unpack[Details]) -> "Claim":
        """Make a claim: what the source says, with its quantifiers and constants."""
        return Claim(statement, judge, self, "claim", **details)

    def control(self, statement: str, judge: Judge, **details: Unpack[Details]) -> "Claim":
        """Make a negative control: a setting in which the effect must be absent."""
        return Claim(statement, judge, self, "control", **details)

    def printed(self, statement: str, judge: Judge, **details: Unpack[Details]) -> "Claim":
        """Make the claim of a misprint as it is printed, expected to be refuted."""
        return Claim(statement, judge, self, "printed", **details)

    def corrected(self, statement: str, judge: Judge, **details: Unpack[Details]) -> "Claim":
        """Make the claim of a misprint as it should read."""
        return Claim(statement, judge, self, "corrected", **details)

    def found(self, statement: str, judge: Judge, **details: Unpack[Details]) -> "Claim":
        """Make a claim of the lab's own: an observation beside what the source says."""
        return Claim(statement, judge, self, "found", **details)

    def check(self, statement: str, judge: Judge, **details: Unpack[Details]) -> "Claim":
        """Make a check of the lab's own machinery, such as a solver's residual."""
        return Claim(statement, judge, self, "check", **details)

    def erratum(
        self,
        printed: Formulated,
        corrected: Formulated,
        formula: str = "",
        quote: str = "",
        regime: str = "",
    ) -> tuple["Claim", "Claim"]:
        """Make the two claims of a misprint: as it is printed, and as it should read.

        Args:
            printed: The statement as it is printed, its judge, and its formula if it has one;
                expected to be refuted.
            corrected: The statement as it should read, likewise.
            formula: The corrected statement in LaTeX, where `corrected` has none.
            quote: What is printed, in the source's own words.
            regime: Where both can be judged.

        Example:
            >>> from theorylab.claims import at_most
            >>> wrong, right = Source("zhu", "nqm-2d-map", "Eq. 3.11").erratum(
            ...     printed=("It is at most 1.", lambda r, c: at_most(r, 1.0)),
            ...     corrected=("It is at most 2.", lambda r, c: at_most(r, 2.0)),
            ... )
            >>> str(wrong.expected), str(right.judge(1.5, None).verdict)
            ('refuted', 'supported')
        """
        wrong, wrong_judge, *rest = printed
        wrong_formula = rest[0] if rest else ""
        right, right_judge, *rest = corrected
        right_formula = rest[0] if rest else formula
        return (
            self.printed(wrong, wrong_judge, formula=wrong_formula, quote=quote, regime=regime),
            self.corrected(right, right_judge, formula=right_formula, regime=regime),
        )


@dataclass(frozen=True)
class Claim:
    """A statement that a run can support or refute; its `Source` makes it.

    Args:
        statement: In words, as a sentence.
        judge: Turns the experiment's `Result` and `Config` into a `Finding`; trains nothing.
        source: Where the statement stands.
        kind: Whose statement it is: the source's (`claim`); a negative control; one half of an
            erratum, as it is `printed` (expected to be refuted) or `corrected`; an observation of
            the lab's own (`found`); a `check` of the lab's machinery.
        formula: The statement in LaTeX, for reports.
        quote: The source's own words, verbatim and short; … stands for words left out.
        regime: The configs in which the claim can be judged at all, as a condition on fields:
            "width >= 1000 and num_seeds >= 10". Elsewhere it is not judged.
        expected: The verdict that surprises nobody. It follows from the kind, unless a statement
            is not reproduced: then it stays as the source has it, and `why` says the reason.
        why: Why the expected verdict is another one, and what would be needed.
        demand: Whose number the judge demands: "source", "derived: …" with the derivation, or
            "lab: …" with the runs on which it was set.
    """

    statement: str
    judge: Judge
    source: Source
    kind: Kind = "claim"
    formula: str = ""
    quote: str = ""
    regime: str = ""
    expected: Expected | Verdict = ""
    why: str = ""
    demand: str = ""

    def __post_init__(self) -> None:
        usual = usual_verdict(self.kind)
        expected = Verdict(self.expected or usual)
        if (expected != usual) != bool(self.why):
            raise ValueError(
                f"a {self.kind} that is expected {expected} needs"
                f" {'a reason in' if not self.why else 'no'} `why`, got {self.why!r}."
            )
        if self.demand and not _ORIGIN.fullmatch(self.demand):
            must = 'demand must be "source", "derived: …" or "lab: …"'
            raise ValueError(f"{must}, got {self.demand!r}.")
        object.__setattr__(self, "expected", expected)


def usual_verdict(kind: Kind) -> Verdict:
    """The verdict that a kind of claim leads to expect: what is printed wrongly is refuted.

    Example:
        >>> str(usual_verdict("claim")), str(usual_verdict("printed"))
        ('supported', 'refuted')
    """
    return Verdict.REFUTED if kind == "printed" else Verdict.SUPPORTED


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
