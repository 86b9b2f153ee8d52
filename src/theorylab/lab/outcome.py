"""What a run leaves behind: the claims with their findings, the arrays, the figure.

experiment + config ─► conduct ─► Outcome ─► store ─► report
"""

from dataclasses import dataclass

import numpy as np

from theorylab.claims.claim import Finding, Kind, Source, Verdict

Value = (
    bool | int | float | str | list[int] | list[float]
)  # of one field of a config, as JSON has it


@dataclass(frozen=True)
class Judged:
    """A claim beside what was found about it."""

    statement: str
    formula: str  # LaTeX, may be empty
    source: Source
    kind: Kind
    expected: Verdict
    finding: Finding

    @property
    def as_expected(self) -> bool:
        """Whether the verdict surprises nobody."""
        return self.finding.verdict == self.expected


@dataclass(frozen=True, eq=False)  # arrays have no truth value
class Outcome:
    """One experiment, run whole with one config."""

    experiment: str  # "dynamics/catapult"
    title: str
    formula: str  # LaTeX
    preset: str  # "smoke", "default" or "paper": where the config started from
    config: dict[str, Value]  # every field
    judged: tuple[Judged, ...]
    arrays: dict[str, np.ndarray]  # the Result by name; empty when read for a report only
    figure: str  # SVG
    seconds: float  # of the run, its judgement and its drawing
    environment: dict[str, str]  # theorylab, jax, numpy, python, platform, precision
    key: str  # the hash under which the store keeps it
    stored: bool = False  # read from the store instead of run
    description: str = ""  # what it is about, as the module says it
    failure: str = ""  # why there is no figure

    @property
    def as_expected(self) -> bool:
        """Whether every verdict is the expected one, and nothing failed."""
        return not self.failure and all(judged.as_expected for judged in self.judged)
