import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.data import parity_mixture
from theorylab.experiments.features.emergence import interval_six as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("network learns it: at", "network", 0.98),
        ("network learns it: at", "plain", 0.98),
        ("Training and test", "train", 0.5),
        ("similar accuracy", "tangent", 0.9),
        ("twice as many steps", "tangent", 1.0),
        ("Random features", "random", 0.95),
        ("second step's weights", "two_step", 0.9),
        ("some neuron points", "cosines", 0.9),
        ("random directions", "cosines", 0.9),
        ("gives one answer", "one_step", 0.415),
        ("multiplied by one constant", "one_step_scaled", 0.9),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


def test_who_never_arrives_comes_after_the_end():
    curves = np.array([[0.5, 0.99, 0.98], [0.5, 0.6, 0.7]])
    steps = np.array([3, 6, 9])
    assert experiment._arrived(steps, curves).tolist() == [6, 10]


def test_a_label_of_two_thresholds_would_be_reported(smoke, verdict, monkeypatch):
    """Oracle: the parity of 3 patterns, for which one threshold of the count is not enough."""
    monkeypatch.setattr(experiment.Config, "law", lambda self, probability: parity_mixture(9, 3))
    assert verdict("always right", smoke) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"least": 31}, "least must be at most num_relevant = 30, got 31"),
        ({"num_relevant": 10**9, "least": 5}, "num_relevant must be at most num_patterns = 100"),
        ({"num_relevant": 2000, "num_patterns": 3000}, "and 1000, got 2000"),
        ({"num_patterns": 20}, "num_relevant must be at most num_patterns = 20"),
        ({"dimension": 50}, "dimension must be at least num_patterns = 100"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
