import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.fourier import neurons as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "runs", "field", "value"),
    [
        ("have one frequency: the mean", "normed", "mean", 0.9),
        ("power is spread", "normed", "initial", 0.99),
        ("phases add up", "normed", "agreement", 0.5),
        ("above 0.7 γ*", "normed", "margin", 0.6),
        ("margin above γ*", "normed", "average", 1.01),
        ("in place of the norm", "decayed", "margin", 0.9),
        ("The loss is within", "normed", "loss", 9.0),
        ("No loss is below", "normed", "loss", 0.1),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, runs, field, value):
    part = getattr(smoke, runs)
    broken = part._replace(**{field: np.full_like(getattr(part, field), value)})
    assert verdict(words, smoke._replace(**{runs: broken})) == Verdict.REFUTED


def test_a_frequency_without_a_neuron_is_seen(smoke, verdict):
    broken = smoke._replace(coverage=np.full_like(smoke.coverage, 0.8))
    assert verdict("there is a neuron that uses it", broken) == Verdict.REFUTED


def test_unequal_frequencies_are_seen(smoke, verdict):
    uneven = smoke._replace(p_value=0 * smoke.p_value, imbalance=0 * smoke.imbalance + 5)
    assert verdict("used about equally", uneven) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"moduli": (13, 11)}, "num_terms and moduli must be as many"),
        ({"moduli": (13, 11, 3)}, "moduli must be at least 5, for two frequencies"),
        ({"penalty": 0.0}, "penalty must be a finite number, positive"),
        ({"fraction": 1.5}, "fraction must be a finite number, from 0 to 1"),
        ({"fraction": 0.0}, "fraction must be positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
