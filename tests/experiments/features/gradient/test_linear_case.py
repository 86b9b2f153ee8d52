"""Separable data: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import linear_case as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("The larger the bias", "cosine", 0.5),
        ("lie in its cone", "inside", 0.4),
        ("1 - cos", "cosine", 0.0),
        ("length of E[yx]", "length", 0.5),
        ("no hinge loss", "best", 0.1),
        ("ε = 1 %", "error", 0.02),
        ("γ is loose", "cosine", 0.0),
        ("are silent", "silent", 0.9),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimension": 1}, "dimension must be a whole number, at least 2, got 1"),
        ({"margin": 0.0}, "margin must be a finite number, positive, got 0"),
        ({"exponents": (1.0, 0.5)}, "two or more and increasing"),
        ({"exponents": (0.1, 0.3)}, "the last of exponents must be in"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
