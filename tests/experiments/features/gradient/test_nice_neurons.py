"""Nice neurons: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import nice_neurons as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("at least mp/4", "counts", 0),
        ("Twice as many", "counts", 10**6),
        ("half of the probability", "counts", 1),
        ("fewer than mp/4", "astray", 10**6),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_clusters": 1}, "num_clusters must be a whole number, at least 2, got 1"),
        ({"opening": 0.3}, "opening must be a finite number, between 0 and 1, from 0 to 0.29"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
