import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import parity_settings as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("classes the network still learns", "network", 0.9),
        ("by 12 points", "tangent", 0.95),
        ("plus 3 points", "random", 0.99),
        ("classes some neuron", "second", 0.9),
        ("majority's guess", "plain", 0.8),
        ("samples the network still learns", "fewer_network", 0.9),
        ("classes and without structure", "fair", 0.6),
        ("12 points behind", "fewer_tangent", 0.95),
        ("samples some neuron", "fewer_second", 0.9),
        ("as they are, is at chance", "probes", 0.6),
        ("as they are, is at chance", "fewer_probes", 0.4),
        ("Multiplied by one constant", "probes", 0.7),
        ("Multiplied by one constant", "fewer_probes", 0.7),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


def test_a_tangent_model_that_varies_with_its_seed_is_refuted(smoke, verdict):
    off = 0.06 * (-1.0) ** np.arange(smoke.tangent.shape[1])
    varied = smoke._replace(tangent=smoke.tangent.mean() + off + 0 * smoke.tangent)
    assert verdict("tangent model is stable", varied) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"fractions": (0.8, 0.9)}, "fractions must be 0.5 and one or more others"),
        ({"fractions": (0.5,)}, "fractions must be 0.5 and one or more others"),
        ({"fractions": (0.5, 1.0)}, "fractions must be .* each between 0 and 1"),
        ({"fewer_samples": (500, 10000)}, r"batch_size must be at most fewer_samples = \(500"),
        ({"fewer_pairs": (50,)}, "fewer_samples and fewer_pairs must be as many"),
        ({"fewer_samples": (), "fewer_pairs": ()}, "fewer_samples must be .* one or more"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
