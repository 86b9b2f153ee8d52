import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.fourier import margin_limit as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("half of the sums", "halved_margin", 0.9),
        ("tends to γ*", "path", 0.9),
        ("With p = 7", "path", 0.9),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


def test_a_margin_that_falls_with_smaller_penalties_is_seen(smoke, verdict):
    falling = np.broadcast_to(np.array([0.9, 0.8, 0.7]), smoke.path.shape)
    broken = smoke._replace(path=falling)
    assert verdict("every smaller λ", broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"path": (0.1, 0.2)}, "path must be two penalties or more that fall"),
        ({"path": (0.1,)}, "path must be two penalties or more that fall"),
        ({"path": (0.1, 0.0)}, "path must be .* each positive"),
        ({"modulus": 4}, "modulus must be a whole number, odd"),
        ({"num_terms": 40}, "modulus.num_terms must be below"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
