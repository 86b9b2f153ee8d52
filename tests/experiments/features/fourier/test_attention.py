import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.fourier import attention as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("learn all sums", "accuracy", 0.5),
        ("held out", "held_out", 1.0),
        ("half of their power or more", "after", 0.3),
        ("three times as large", "before", 0.9),
        ("less concentrated", "free", 1.1),
        ("Before training", "before", 0.9),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


def test_spectra_of_what_was_not_learned_say_nothing(smoke, verdict):
    broken = smoke._replace(accuracy=0 * smoke.accuracy)
    assert verdict("half of their power or more", broken) == Verdict.INCONCLUSIVE
    assert verdict("three times as large", broken) == Verdict.INCONCLUSIVE
    some = smoke.accuracy.copy()
    some[0, :2] = 0.5
    assert verdict("three times as large", smoke._replace(accuracy=some)) == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"moduli": (11,)}, "num_terms and moduli must be as many"),
        ({"moduli": (11, 4)}, "moduli must be .* odd"),
        ({"moduli": (11, 3)}, "moduli must be at least 5"),
        ({"num_heads": 0}, "num_heads must be a whole number, at least 1"),
        ({"fraction": 0.0}, "fraction must be positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
