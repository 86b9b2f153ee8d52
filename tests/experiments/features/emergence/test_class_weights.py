import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.data import parity_mixture
from theorylab.experiments.features.emergence import class_weights as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("structure the network learns", "fair_network", 0.9),
        ("Weighted classes", "unweighed", 1.0),
        ("that of saying", "unweighed_plain", 0.5),
        ("no better than a coin", "unweighed", 0.9),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


def test_other_shares_of_the_classes_would_be_reported(smoke, verdict, monkeypatch):
    """Oracle: fair coins and a threshold in the middle have half of each class."""
    monkeypatch.setattr(experiment.Config, "law", lambda self, probability: parity_mixture(9, 3))
    assert verdict("source's sizes", smoke) == Verdict.REFUTED


@pytest.mark.parametrize("words", ["Weighted labels have", "times a relevant pattern"])
def test_other_weights_would_be_reported(smoke, verdict, monkeypatch, words):
    """Oracle: without weights labels have the mean Pr[y = 1] − Pr[y = −1]."""
    monkeypatch.setattr(experiment, "_weights", lambda config: np.ones(config.num_relevant + 1))
    assert verdict(words, smoke) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"least": 31}, "least must be at most num_relevant = 30, got 31"),
        ({"num_relevant": 10**9, "least": 5}, "num_relevant must be at most num_patterns = 100"),
        ({"num_relevant": 2000, "num_patterns": 3000}, "and 1000, got 2000"),
        ({"num_patterns": 20}, "num_relevant must be at most num_patterns = 20"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
