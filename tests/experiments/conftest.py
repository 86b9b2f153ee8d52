"""The smoke run of an experiment, made once: its result, its outcome, and a verdict by words.

A test module imports its own: `from theorylab.experiments.bias import least_norm as experiment`.
Where THEORYLAB_STORE is set, the outcome is stored, and the gallery need not run it again.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from theorylab.claims import Claim, Verdict
from theorylab.experiments.reader import read
from theorylab.lab import Outcome, Store
from theorylab.lab.conduct import as_numpy, conduct, precision


class Conducted(NamedTuple):
    """What a run measured, and what the lab made of it."""

    result: Any
    outcome: Outcome


@pytest.fixture(scope="module")
def conducted(request: pytest.FixtureRequest) -> Conducted:
    """The smoke run of the module's `experiment`, as the lab conducts it."""
    experiment = request.module.experiment
    run, results = experiment.run, []

    def kept(config: Any) -> Any:
        results.append(run(config))
        return results[-1]

    experiment.run = kept
    try:
        outcome = conduct(experiment, experiment.PRESETS["smoke"], "smoke")
    finally:
        experiment.run = run
    methods = [judged.finding.method for judged in outcome.judged]
    failures = [method for method in methods if method.startswith("the judge failed")]
    assert [*failures, outcome.failure] == [""], "judges and figures do not fail"
    if "THEORYLAB_STORE" in os.environ:
        store = Store(Path(os.environ["THEORYLAB_STORE"]))
        store.prepare()
        store.write(outcome)
    return Conducted(as_numpy(results[-1]), outcome)  # a first one may be traced, for its memory


@pytest.fixture(scope="module")
def smoke(conducted: Conducted) -> Any:
    """What the smoke run measured."""
    return conducted.result


@pytest.fixture(scope="module")
def surprises(conducted: Conducted) -> list[tuple[str, str, float]]:
    """Statements whose verdict is not the expected one, with the verdict and the number."""
    return [
        (judged.statement, judged.finding.verdict.value, judged.finding.measured)
        for judged in conducted.outcome.judged
        if not judged.as_expected
    ]


@pytest.fixture(scope="module")
def verdict(request: pytest.FixtureRequest) -> Callable[..., Verdict]:
    """The verdict of the one claim whose statement has these words, on any result."""
    experiment = request.module.experiment
    digits = read(Path(experiment.__file__)).precision

    def judged(words: str, result: Any, config: Any = None) -> Verdict:
        found: list[Claim] = [claim for claim in experiment.CLAIMS if words in claim.statement]
        assert len(found) == 1, f"{len(found)} claims say {words!r}"
        with precision(digits):
            return found[0].judge(result, config or experiment.PRESETS["smoke"]).verdict

    return judged
