"""One step, then the output layer: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import one_step_freeze as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("by at most the bound, always", "bounds", 0.0),
        ("in 95 %", "gap_bound", -1.0),
        ("never rises", "rises", 0.1),
        ("divided by ln 2", "opposed_loss", 0.5),
        ("100 times smaller", "losses", 0.0),
        ("100 times the gap", "gap_bound", 1e-3),
        ("slower than 1/t", "losses", 0.5),
        ("the loss rises at some step", "long_rises", 0.0),
        ("as fast as 1/√n", "gap", 0.1),
        ("Without the first step", "frozen", 0.0),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("words", "field"), [("its logistic loss says", "opposed"), ("step sizes 1/t", "printed")]
)
def test_printed_statements_could_be_right(smoke, verdict, words, field):
    right = smoke._replace(**{field: np.zeros_like(getattr(smoke, field))})
    assert verdict(words, right) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"margin": 0.0}, "margin must be a finite number, positive, got 0"),
        ({"sample_sizes": (100, 50)}, "two or more and increasing"),
        ({"num_steps": 5}, "num_steps must be a whole number, at least 10, got 5"),
        ({"width": 0}, "width must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
