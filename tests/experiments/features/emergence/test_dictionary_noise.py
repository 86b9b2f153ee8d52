import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.data import parity_mixture
from theorylab.experiments.features.emergence import dictionary_noise as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("allowed noise the network learns", "network", 0.95),
        ("stays below 88 %", "tangent", 0.95),
        ("costs accuracy", "network", 1.0),
        ("no longer at 90 %", "network", 0.95),
        ("other fractions", "network", 0.95),
        ("11 points better", "tangent", 0.99),
        ("After two steps", "second", 0.5),
        ("At the start", "start", 0.9),
        ("have mean 0", "label", 0.1),
        ("has the mean γ", "moment", np.array([0.2, 0.25])),
        ("Samples have this mean", "sampled", 1.3),
        ("ζ/σ̃", "square", 1.2),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


def test_the_printed_statement_could_be_right(smoke, verdict):
    right = smoke._replace(printed_square=np.ones_like(smoke.printed_square))
    assert verdict("ζ/σ_ζ", right) == Verdict.SUPPORTED


def test_the_allowed_noise_is_the_smaller_of_two_bounds():
    """By hand: 16 fair coins have σ̃ = 2, so ½ or 2/√d; they meet at d = 16."""
    law = parity_mixture(16, 3)
    assert experiment.allowed_noise(law, 4) == pytest.approx(0.5)
    assert experiment.allowed_noise(law, 100) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"multiples": (1.0, 0.5, 2.0)}, "multiples must be three or more, growing"),
        ({"multiples": (0.0, 0.5, 2.0)}, r"multiples must be in \(0, 1000\]"),
        ({"fractions": (0.8, 1.0)}, r"fractions must be in \(0, 1\)"),
        ({"num_relevant": 4}, "num_relevant must be odd"),
        ({"dimension": 10}, r"dimension must be in \[num_patterns = 20"),
        ({"num_seeds": 0}, r"num_seeds must be in \[1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
