"""The good subnetwork: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import good_subnetwork as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("below its bound", "bound", -1),
        ("of either sign", "counts", 0),
        ("square root of the width", "counts", 7),
        ("below 0.2", "loss", 1),
        ("its fourth root", "norm", 7),
        ("its square root or faster", "largest", 7),
        ("20 to 1000 times", "distance", 100),
        ("within ε_a + √(2γ)", "farthest", 1.1),
        ("half of that", "farthest", 0.4),
        ("times √(mp)", "counts", 7),
        ("make no good network", "shuffled", 0),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


def test_the_printed_sign_would_be_believed_if_it_left_some(smoke, verdict):
    some = smoke._replace(positive=smoke.counts)
    assert verdict("sign of their outputs", some) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimension": 4}, "num_clusters must be below dimension = 4"),
        ({"threshold": 0.0}, "threshold must be a finite number, positive, got 0"),
        ({"widths": (100, 10)}, "two or more and increasing"),
        ({"opening": 0.5}, "opening must be a finite number, between 0 and 1, from 0 to 0.29"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
