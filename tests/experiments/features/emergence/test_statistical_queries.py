"""What averages tell of parities: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import statistical_queries as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("first gradient tells", "told", 1000.0),
        ("would fail", "sharp", 0.05),
        ("do not find the set", "found", 1.0),
        ("same D queries do", "found", 0.0),
        ("it is.", "agreement", 0.5),
        ("are uncorrelated", "correlation", 0.1),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("words", "expected"), [("p_o = 0.3", "supported"), ("p_o = ½", "refuted")]
)
def test_the_other_covariance_would_be_reported(smoke, verdict, monkeypatch, words, expected):
    other = {0.3: 0.0, 0.5: 0.1}
    monkeypatch.setattr(experiment, "_covariance", lambda config, p: other[p])
    assert verdict(words, smoke) == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimension": 17}, "dimension must be a whole number, from 4 to 16"),
        ({"num_bits": 4}, "num_bits must be a whole number, odd"),
        ({"num_bits": 1}, "num_bits must be from 3 to dimension"),
        ({"num_neurons": 3}, "num_neurons must be even"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, from 1 to"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
