"""What many outcomes say together, in numbers and in words that all reports share."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from theorylab.claims.claim import Finding, Kind, Verdict
from theorylab.lab.outcome import Judged, Outcome

# What stands beside a statement that is no plain claim.
KINDS: dict[Kind, str] = {
    "claim": "",
    "control": "control",
    "printed": "as printed",
    "corrected": "as corrected",
}


class Summary(NamedTuple):
    """How many claims there are, and how they fared."""

    num_experiments: int
    num_claims: int
    verdicts: dict[Verdict, int]
    num_surprises: int

    @property
    def sentence(self) -> str:
        """What was tested, how it came out, whether it surprises."""
        if not self.num_claims:
            return "No claim was tested."
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items())
        where = f" in {self.num_experiments} experiments" if self.num_experiments > 1 else ""
        return f"{_count(self.num_claims, 'claim')}{where}: {counts}. {self.expectation}"

    @property
    def expectation(self) -> str:
        """Whether anything surprises."""
        if not self.num_surprises:
            return "Every verdict is as expected."
        verb = "is" if self.num_surprises == 1 else "are"
        return f"{_count(self.num_surprises, 'verdict')} {verb} not as expected."


def summarise(outcomes: Sequence[Outcome]) -> Summary:
    """Count the verdicts of all outcomes.

    Example:
        >>> summarise([]).sentence
        'No claim was tested.'
    """
    judged = [claim for outcome in outcomes for claim in outcome.judged]
    counts = Counter(claim.finding.verdict for claim in judged)
    return Summary(
        num_experiments=len(outcomes),
        num_claims=len(judged),
        verdicts={verdict: counts[verdict] for verdict in Verdict},
        num_surprises=sum(not claim.as_expected for claim in judged),
    )


def expectation(judged: Judged) -> str:
    """Say whether a verdict surprises, and what would not have."""
    return "as expected" if judged.as_expected else f"expected {judged.expected}"


def why_inconclusive(finding: Finding) -> str:
    """Say why nothing is concluded; nothing, if something is.

    Example:
        >>> from theorylab.claims import Demand
        >>> few = "2 seeds, at least 6 are needed"
        >>> demand, verdict = Demand(high=1.0), Verdict.INCONCLUSIVE
        >>> why_inconclusive(Finding(0.5, -math.inf, math.inf, demand, verdict, few))
        '2 seeds, at least 6 are needed'
    """
    if finding.verdict != Verdict.INCONCLUSIVE:
        return ""
    ends = finding.low, finding.high
    if any(map(math.isnan, ends)) or all(map(math.isinf, ends)):
        return finding.method
    return "the interval lies partly inside what is demanded and partly outside"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")
