import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features import parity_six as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("network learns the parity", "network", 0.99),
        ("stays below the ceiling", "tangent", 0.95),
        ("was trained well", "tangent", 0.6),
        ("Random features are", "random", 0.9),
        ("12 points better", "tangent", 0.95),
        ("27/32 at best", "of_five", 0.84),
        ("structure the network is at chance", "fair_network", 0.6),
        ("structure fixed features", "fair_random", 0.6),
        ("relevant patterns: cos ≥", "cosines", 0.9),
        ("relevant patterns: cos stays", "fair_cosines", 0.9),
        ("weights gets beyond", "two_step", 0.92),
        ("as they are, is at chance", "one_step", 0.9),
        ("multiplied by one constant", "one_step_scaled", 0.9),
        ("less noisy", "improved", 0.5),
        ("what n samples allow", "noise", 1.0),
        ("about half", "dead", 0.0),
        ("bumps", "good_error", 0.1),
        ("covary at other", "covariances", 0.0),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [("must improve them", "one_step_scaled", 0.6), ("leaves none", "dead", 0.0)],
)
def test_printed_statements_could_be_right(smoke, verdict, words, field, value):
    right = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, right) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_relevant": 4}, "num_relevant must be odd"),
        ({"dimension": 50}, r"dimension must be in \[num_patterns = 100"),
        ({"batch_size": 60000}, "batch_size must be at most num_samples = 50000"),
        ({"num_steps": 2}, r"num_steps must be in \[3"),
        ({"num_pairs": 0}, r"num_pairs must be in \[1"),
        ({"num_seeds": 0}, r"num_seeds must be in \[1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
