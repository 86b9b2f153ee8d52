"""Structure that is needed: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import structure_needed as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("at chance in every large case", "fair", 0.53),
        ("at chance in every large case", "fair", 0.47),
        ("solves every one", "structured", 0.98),
        ("some neuron points", "structured_cosines", 0.9),
        ("none does", "fair_cosines", 0.7),
        ("parities are few", "few", 0.6),
        ("allows what fails", "asked", 1.0),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"few_patterns": (10,)}, "few_patterns and few_relevant must be as many"),
        ({"many_patterns": (), "many_relevant": ()}, "many_patterns and many_relevant must be"),
        ({"many_relevant": (3, 4)}, "many_relevant must be odd, got 4"),
        ({"few_relevant": (2, 10)}, "relevant patterns must be 1 ≤ k < D ≤ 10⁴, got 10 of 10"),
        ({"batch_size": 20001}, "batch_size must be at most num_samples"),
        ({"num_seeds": 0}, "num_seeds must be in"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
