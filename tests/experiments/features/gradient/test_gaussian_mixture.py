"""Gaussian clusters: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import gaussian_mixture as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("a third as often", "probability", 0.1),
        ("below 1e-20", "exponent", -3.0),
        ("random features", "network", 0.6),
        ("at most by a point", "tangent", 0.5),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    old = getattr(smoke, field)
    new = np.full_like(old, value) if isinstance(old, np.ndarray) else value
    assert verdict(words, smoke._replace(**{field: new})) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_clusters": 64}, "num_clusters must be below dimension = 64"),
        ({"noise": 0.0}, "noise must be a finite number, positive, got 0"),
        ({"thresholds": (1.0, 0.5, 2.0)}, "two or more and increasing"),
        ({"thresholds": (1.0, 2.0)}, "thresholds must be three or more"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
        ({"trained_clusters": (4, 64)}, "trained_clusters must be below 64"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
