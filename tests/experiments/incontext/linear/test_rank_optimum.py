import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.linear import rank_optimum as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("full matrix form", "full", 1.0),
        ("4 standard errors", "deviations", 4.5),
        ("is the loss of the theorem's matrix", "attained", 0.5),
        ("BFGS", "found", 0.5),
        ("within 2 %", "trained", 1.05),
        ("within 0.1 radians", "angles", 0.2),
        ("One rank less", "below", 1.1),
        ("any other eigenvectors", "others", 0.0),
        ("Untrained keys", "initial", 0.1),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rank": 6}, "rank must be below the dimension, got 6"),
        ({"dimension": 1000}, "dimension must be a whole number, from 2 to 64, got 1000"),
        ({"num_examples": 0}, "num_examples must be a whole number, at least 1"),
        ({"num_steps": 0}, "num_steps must be a whole number, at least 1, got 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
