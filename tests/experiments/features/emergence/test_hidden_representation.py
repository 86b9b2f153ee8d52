import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import hidden_representation as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "labels", "field", "value"),
    [
        ("neurons form clusters", "true", "within", 0.5),
        ("below 0.3", "true", "within", 0.9),
        ("silhouette is above", "true", "silhouette", 0.2),
        ("silhouette is below", "true", "silhouette", 0.9),
        ("opposite", "true", "opposite", 0.9),
        ("stand at", "true", "aligned", 0.5),
        ("three times as far", "true", "separation", 0.5),
        ("do not turn", "shuffled", "aligned", 0.9),
        ("at most a third", "shuffled", "separation", 9.0),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, labels, field, value):
    part = getattr(smoke, labels)
    broken = part._replace(**{field: np.full_like(getattr(part, field), value)})
    assert verdict(words, smoke._replace(**{labels: broken})) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_relevant": 0}, "num_relevant must be a whole number, at least 1"),
        ({"num_relevant": 300}, "num_relevant must be at most num_patterns = 250"),
        ({"num_pairs": 2}, "num_pairs must be a whole number, at least 3"),
        ({"dimension": 200}, "dimension must be at least num_patterns = 250"),
        ({"num_each": 10**9}, "num_each must be a whole number, from 1 to 100000"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
