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
        ("significantly lower", "random", 0.95),
        ("printed 86.4 %", "tangent", 0.6),
        ("printed 76.0 %", "random", 0.9),
        ("stops at one threshold", "tangent", 0.95),
        ("structure the network is at chance", "network", 0.6),
        ("structure fixed features", "random", 0.6),
        ("relevant patterns: cos >", "cosines", 0.9),
        ("no neuron does: cos stays", "cosines", 0.9),
        ("noise inside neurons", "network", 0.99),
        ("values that the theorem prints", "network", 0.9),
        ("one learning rate", "network", 1.0),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


def test_without_noise_some_neurons_still_learn(smoke):
    """Oracle: footnote 1; the smallest sizes get at least beyond one threshold of the count."""
    assert np.median(smoke.network[experiment.NOISELESS, :, -1]) > 27 / 32


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_relevant": 4}, "num_relevant must be a whole number, odd"),
        ({"dimension": 50}, "dimension must be at least num_patterns = 100"),
        ({"batch_size": 60000}, "batch_size must be at most num_samples = 50000"),
        ({"num_steps": 2}, "num_steps must be a whole number, at least 3"),
        ({"num_pairs": 0}, "num_pairs must be a whole number, at least 1"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
