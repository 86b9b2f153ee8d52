import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import parity_six as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("network learns the parity", "network", 0.99),
        ("stops at one threshold", "tangent", 0.95),
        ("was trained well", "tangent", 0.6),
        ("Random features are", "random", 0.9),
        ("12 points better", "tangent", 0.95),
        ("structure the network is at chance", "fair_network", 0.6),
        ("structure fixed features", "fair_random", 0.6),
        ("relevant patterns: cos ≥", "cosines", 0.9),
        ("relevant patterns: cos stays", "fair_cosines", 0.9),
        ("values that the theorem prints", "theorem", 0.9),
        ("one learning rate", "equal", 1.0),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


def test_limits_of_the_sources_sizes_are_the_catalogues(smoke, verdict):
    """What is enough in a smaller network is refuted in one of the source's size."""
    assert experiment.Config().is_sources
    for words, field, value in [
        ("trained well", "tangent", 0.81),
    ]:
        between = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
        assert verdict(words, between) == Verdict.SUPPORTED
        assert verdict(words, between, experiment.Config()) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_relevant": 4}, "num_relevant must be a whole number, odd"),
        ({"dimension": 50}, "dimension must be at least num_patterns = 100"),
        ({"batch_size": 60000}, "batch_size must be at most num_samples = 50000"),
        ({"num_steps": 2}, "num_steps must be at least 3"),
        ({"num_pairs": 0}, "num_pairs must be a whole number, at least 1"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
