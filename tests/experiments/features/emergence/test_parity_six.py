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
        ("second step's weights has", "two_step", 0.92),
        ("as they are, is at chance", "one_step", 0.9),
        ("multiplied by one constant", "one_step_scaled", 0.9),
        ("less noisy", "improved", 0.5),
        ("what n samples allow", "noise", 1.0),
        ("about half", "dead", 0.0),
        ("bumps", "good_error", 0.1),
        ("values that the theorem prints", "theorem", 0.9),
        ("one learning rate", "equal", 1.0),
        ("no sample is beyond", "beyond", 0.01),
        ("many samples are", "beyond", 0.1),
        ("ten times the lemma", "sizes", 11.0),
        ("regret inequality", "regret", -0.1),
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


def test_limits_of_the_sources_sizes_are_the_catalogues(smoke, verdict):
    """What is enough in a smaller network is refuted in one of the source's size."""
    for words, field, value in [
        ("trained well", "tangent", 0.81),
        ("multiplied by one constant", "one_step_scaled", 0.99),
        ("second step's weights has", "two_step", 0.99),
    ]:
        between = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
        assert verdict(words, between) == Verdict.SUPPORTED
        assert verdict(words, between._replace(is_sources=True)) == Verdict.REFUTED
    assert experiment.Config().is_sources


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_relevant": 4}, "num_relevant must be odd"),
        ({"dimension": 50}, r"dimension must be in \[num_patterns = 100"),
        ({"batch_size": 60000}, "batch_size must be at most num_samples = 50000"),
        ({"num_steps": 2}, r"num_steps must be in \[3"),
        ({"num_pairs": 0}, r"num_pairs must be in \[1"),
        ({"num_seeds": 0}, "num_seeds must be at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
