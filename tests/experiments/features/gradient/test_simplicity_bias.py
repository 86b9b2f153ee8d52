"""Simplicity bias: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import simplicity_bias as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("rank correlation", "agreement", 0.5),
        ("twice as early", "times", 100.0),
        ("With equal masses", "control", 1.0),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


def test_a_loss_above_the_best_of_fewer_features_is_seen(smoke, verdict):
    broken = smoke._replace(losses=smoke.losses + 1)
    assert verdict("ends below the best", broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_pairs": 2}, "num_pairs must be at least 3 and below half of dimension"),
        ({"ratio": 1.0}, "ratio must be a finite number, between 0 and 1, got 1"),
        ({"num_steps": 5}, "num_steps must be a whole number, at least 10"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
