import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import hidden_representation as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("close to their cluster's centre", "within", 0.5),
        ("below 0.3", "within", 0.9),
        ("silhouette is above", "silhouette", 0.2),
        ("silhouette is below", "silhouette", 0.9),
        ("opposite", "opposite", 0.9),
        ("stand at", "aligned", 0.5),
        ("three times as far", "separation", 0.5),
        ("do not turn", "shuffled_aligned", 0.9),
        ("at most a third", "shuffled_separation", 9.0),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_relevant": 0}, r"num_relevant must be in \[1"),
        ({"num_relevant": 300}, r"num_patterns must be in \[num_relevant = 300"),
        ({"num_pairs": 2}, "num_pairs must be at least 3"),
        ({"dimension": 200}, r"dimension must be in \[num_patterns = 250"),
        ({"num_each": 10**9}, r"num_each must be in \[1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
