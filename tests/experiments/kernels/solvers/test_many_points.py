"""The experiment on solvers: verdicts, claims that can fail, bad configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.solvers import many_points as experiment

TINY = experiment.Config(sizes=(25, 36), multiples=(1.0, 2.0), num_test=10, num_seeds=1)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    def judged(words, **fields):
        return verdict(words, smoke._replace(**fields))

    cubic = smoke.operations * np.asarray(experiment.PRESETS["smoke"].sizes) ** 1.5
    growing = smoke.centre_iterations * np.array([1, 2, 4])
    turned = smoke.accuracy[:, ::-1]
    assert judged("costs about n^1.5", operations=cubic) == Verdict.REFUTED
    assert judged("3 log n iterations", centre_iterations=growing) == Verdict.REFUTED
    assert judged("Accuracy grows", accuracy=turned) == Verdict.REFUTED
    assert judged("at least 1 %", usual_accuracy=smoke.exact_accuracy) == Verdict.REFUTED
    assert judged("at most 2 % is lost", accuracy=turned) == Verdict.REFUTED
    assert judged("√n centres are too few", accuracy=turned) == Verdict.REFUTED
    assert judged("serves all outputs", block_error=smoke.block_error + 0.01) == Verdict.REFUTED
    assert judged("give one solution", conjugate_error=smoke.block_error + 0.01) == Verdict.REFUTED
    printed, corrected = smoke.printed_gradient, smoke.corrected_gradient
    assert judged("(Θ + 2λI)α = y", corrected_gradient=printed) == Verdict.REFUTED
    assert judged("(Θ + λI)α = y", printed_gradient=corrected) == Verdict.SUPPORTED
    assert judged("as a preconditioner", plain_iterations=smoke.iterations) == Verdict.REFUTED


def test_same_config_same_bytes():
    first, second = (experiment.run(TINY) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_seeds", 0, "num_seeds must be a whole number, at least 1, got 0"),
        ("sizes", (100,), "sizes must be whole numbers, two or more and increasing"),
        ("sizes", (100, 4995), "leave room for the tests among 5000 digits"),
        ("multiples", (5.0, 1.0), "multiples must be finite numbers, two or more and increasing"),
        ("multiples", (1.0, 50.0), r"multiples must be at most √n, got \(1.0, 50.0\)"),
        ("ridge", 0.0, r"ridge must be a finite number, positive, got 0\.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
