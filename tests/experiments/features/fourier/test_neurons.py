import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.fourier import neurons as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("95 % of their power", "mean", 0.9),
        ("Half of the vectors", "median", 0.9),
        ("spread before", "initial", 0.99),
        ("phases add up", "agreement", 0.5),
        ("belongs to some neuron", "coverage", 0.8),
        ("above 0.7 γ*", "margin", 0.6),
        ("margin above γ*", "average", 1.01),
        ("The loss is within", "excess", 1.1),
        ("No loss is below", "excess", 0.99),
        ("in place of the norm", "decayed_margin", 0.9),
        ("half of the sums", "halved_margin", 0.9),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


def test_a_margin_that_falls_with_smaller_penalties_is_seen(smoke, verdict):
    falling = np.broadcast_to(np.array([0.9, 0.8, 0.7]), smoke.path.shape)
    broken = smoke._replace(path=falling)
    assert verdict("every smaller λ", broken) == Verdict.REFUTED


def test_unequal_frequencies_are_seen(smoke, verdict):
    uneven = smoke._replace(p_value=0 * smoke.p_value, imbalance=0 * smoke.imbalance + 5)
    assert verdict("used about equally", uneven) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"moduli": (13, 11)}, "num_terms and moduli must be as many"),
        ({"moduli": (13, 11, 3)}, "moduli must be at least 5, for two frequencies, got 3"),
        ({"penalty": 0.0}, "penalty must be positive, got 0"),
        ({"path": (0.1, 0.2)}, "path must be two penalties or more that fall"),
        ({"fraction": 1.5}, r"fraction must be in \(0, 1\], got 1.5"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
