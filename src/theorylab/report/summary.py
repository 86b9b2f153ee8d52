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
    "found": "found here, not in the source",
    "check": "check of the lab",
}


class Summary(NamedTuple):
    """How many claims there are, and how they fared."""

    num_experiments: int
    num_claims: int
    verdicts: dict[Verdict, int]
    num_surprises: int
    num_not_reproduced: int

    @property
    def sentence(self) -> str:
        """What was tested, how it came out, whether it surprises."""
        if not self.num_claims:
            return "No claim was tested."
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items())
        if self.num_not_reproduced:
            counts += f" ({self.num_not_reproduced} of the source's not reproduced)"
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
        verdicts={
            verdict: counts[verdict]
            for verdict in Verdict
            if counts[verdict] or verdict != Verdict.NOT_JUDGED
        },
        num_surprises=sum(not claim.as_expected for claim in judged),
        num_not_reproduced=sum(claim.not_reproduced for claim in judged),
    )


def expectation(judged: Judged) -> str:
    """Say whether a verdict surprises, and what would not have."""
    if judged.finding.verdict == Verdict.NOT_JUDGED:
        return "here"
    if judged.not_reproduced:
        return "not reproduced"
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


def remarks(judged: Judged) -> list[str]:
    """What has to be said beside a verdict: what it lacks, or why the statement does not hold.

    Example:
        >>> from theorylab.claims import Demand, Source
        >>> finding = Finding(math.nan, math.nan, math.nan, Demand(), Verdict.NOT_JUDGED, "needs n")
        >>> source = Source("zhu", "nqm-multi", "Thm 3.3.6")
        >>> claim = Judged("It holds.", "", source, "claim", Verdict.SUPPORTED, finding)
        >>> remarks(claim)
        ['Not judged here: needs n.']
    """
    finding, said = judged.finding, []
    if finding.verdict == Verdict.NOT_JUDGED:
        said.append(f"Not judged here: {finding.method}.")
    if why := why_inconclusive(finding):
        said.append(f"Inconclusive: {why}.")
    if judged.why:
        said.append(f"Expected {judged.expected}: {judged.why}")
    if judged.demand:
        said.append(f"What is demanded is {_origin(judged.demand)}.")
    return said


def _origin(demand: str) -> str:
    """Whose number it is, in words."""
    whose, _, reason = demand.partition(": ")
    words = {"source": "the source's", "derived": "derived", "lab": "the lab's"}[whose]
    return f"{words}: {reason.rstrip('.')}" if reason else words


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")
