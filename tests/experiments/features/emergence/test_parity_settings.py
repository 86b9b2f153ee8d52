import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import parity_settings as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "settings", "field", "value"),
    [
        ("classes the network still learns", "unequal", "network", 0.9),
        ("beats fixed features", "unequal", "random", 0.95),
        ("second step's weights has", "unequal", "probes", 0.98),
        ("as they are, is at chance", "unequal", "probes", 0.6),
        ("as they are, is at chance", "fewer", "probes", 0.4),
        ("Multiplied by one constant", "fewer", "probes", 0.7),
        ("some neuron points", "unequal", "second", 0.9),
        ("some neuron points", "fewer", "second", 0.9),
        ("Without structure", "unequal", "fair", 0.6),
        ("Without structure", "fewer", "fair", 0.6),
        ("samples the network still learns", "fewer", "network", 0.9),
        ("still outperforms", "fewer", "tangent", 0.95),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, settings, field, value):
    part = getattr(smoke, settings)
    broken = part._replace(**{field: np.full_like(getattr(part, field), value)})
    assert verdict(words, smoke._replace(**{settings: broken})) == Verdict.REFUTED


def test_the_majoritys_guess_is_refuted(smoke, verdict):
    assert verdict("majority's guess", smoke._replace(plain=0 * smoke.plain + 0.8)) == "refuted"


def test_a_tangent_model_that_varies_with_its_seed_is_seen(smoke, verdict):
    """Oracle: seeds that differ by 6 points from their median with unequal classes alone."""
    varied = np.array(smoke.unequal.tangent)
    varied[-1] = varied[-1].mean() + 0.06 * (-1.0) ** np.arange(varied.shape[1])
    broken = smoke._replace(unequal=smoke.unequal._replace(tangent=varied))
    assert verdict("tangent model is stable", broken) == Verdict.REFUTED
    assert verdict("tangent model is less stable", broken) == Verdict.SUPPORTED


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
