"""Detectors of clusters: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import cluster_detectors as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("below its bound", "losses", 1.0),
        ("exceeds the bound", "losses", 0.0),
        ("more than 1000 times", "losses", 1.0),
        ("by a certificate", "detectors", -1.0),
        ("by a certificate", "certificate", -1.0),
        ("by a certificate", "entries", 1.1),
        ("a thirtieth of B_a1", "bounded", 0.0),
        ("says nothing", "violated", 0),
        ("has the √d of B_x1", "terms", 1.0 + np.arange(9.0).reshape(3, 3)),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    old = getattr(smoke, field)
    new = np.full_like(old, value) if isinstance(old, np.ndarray) else value
    assert verdict(words, smoke._replace(**{field: new})) != Verdict.SUPPORTED


def test_at_least_one_sample_is_drawn():
    with pytest.raises(ValueError, match="num_samples must be a whole number, at least 1, got 0"):
        experiment.Config(num_samples=0)
