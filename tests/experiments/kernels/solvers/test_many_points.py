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
    refuted = {
        "costs n^1.5": smoke._replace(operations=smoke.exact_operations),
        "fewer than 30 iterations at every": smoke._replace(
            centre_iterations=10 * smoke.centre_iterations
        ),
        "within 2 %": smoke._replace(accuracy=smoke.accuracy[:, ::-1]),
        "Accuracy grows": smoke._replace(accuracy=smoke.accuracy[:, ::-1]),
        "give one solution": smoke._replace(conjugate_outputs=1.01 * smoke.exact_outputs),
        "solves (Θ + 2λI)α = y": smoke._replace(corrected_gradient=smoke.printed_gradient),
        "Without a preconditioner": smoke._replace(plain_iterations=smoke.iterations),
        "√n centres are too few": smoke._replace(accuracy=smoke.accuracy[:, ::-1]),
    }
    for words, result in refuted.items():
        assert verdict(words, result) == Verdict.REFUTED, words
    corrected = smoke._replace(printed_gradient=smoke.corrected_gradient)
    assert verdict("solves (Θ + λI)α = y", corrected) == Verdict.SUPPORTED
    exact = smoke._replace(usual_accuracy=smoke.exact_accuracy)
    assert verdict("within 1 %", exact) == Verdict.SUPPORTED


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
