"""Gradient features: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import gradient_features as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("four of their errors", "deviations", 5.0),
        ("Bernstein's tail", "tail_bound", 0.0),
        ("wider by the error", "sampled_shares", 0.0),
        ("finds every cluster", "cosines", 0.9),
        ("five times smaller", "control_cosines", 0.99),
        ("in a cone below 0.1", "openings", 0.5),
        ("at least mp/4", "counts", 0),
        ("half of the probability", "counts", 1),
        ("fewer than mp/4", "astray", 10**6),
        ("shares of all samples", "weights", 0.4),
        ("They are not, but all", "longer", 0.02),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("not σ_j²I", "misread", 1.0),
        ("the weights p_j given it", "weights", 1.0),
        ("Inputs are bounded", "longer", 0.0),
    ],
)
def test_printed_statements_could_be_right(smoke, verdict, words, field, value):
    right = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, right) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_clusters": 64}, "num_clusters must be from 2 to dimension - 1, got 64"),
        ({"deviation": 0.0}, "deviation must be positive, got 0"),
        ({"opening": 0.5}, r"opening must be in \(0, 0.3\), got 0.5"),
        ({"width": 10**9}, "width must be from 1 to 10"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
