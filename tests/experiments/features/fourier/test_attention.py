import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.fourier import attention as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "runs", "field", "value"),
    [
        ("learn to add", "regularized", "held_out", 0.5),
        ("sums of two terms", "regularized", "held_out", 0.5),
        ("scores of live heads", "regularized", "after", 0.3),
        ("three times as large", "regularized", "before", 0.9),
        ("memorised", "free", "held_out", 1.0),
        ("less concentrated", "free", "after", 1.1),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, runs, field, value):
    part = getattr(smoke, runs)
    broken = part._replace(**{field: np.full_like(getattr(part, field), value)})
    assert verdict(words, smoke._replace(**{runs: broken})) == Verdict.REFUTED


@pytest.mark.parametrize(("known", "expected"), [(0, "REFUTED"), (7, "SUPPORTED")])
def test_networks_that_did_not_learn_three_terms_are_counted(smoke, verdict, known, expected):
    """Oracle: Clopper and Pearson for 0 and 7 of 10, [0, 0.31] and [0.35, 0.93]."""
    held_out = np.where(np.arange(10) < known, 1.0, 0.5)[None, :]
    changed = smoke._replace(regularized=smoke.regularized._replace(held_out=held_out))
    assert verdict("sums of three terms", changed) == Verdict[expected]


def test_spectra_of_what_was_memorised_say_nothing(smoke, verdict):
    """Five networks that know the held-out sums are too few."""
    some = np.ones_like(smoke.regularized.held_out)
    some[0, 5:] = 0.5
    for held_out in (some, 0 * some):
        broken = smoke._replace(regularized=smoke.regularized._replace(held_out=held_out))
        assert verdict("scores of live heads", broken) == Verdict.INCONCLUSIVE
        assert verdict("three times as large", broken) == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"moduli": (11, 13)}, "num_terms and moduli must be as many"),
        ({"moduli": (4,)}, "moduli must be .* odd"),
        ({"moduli": (3,)}, "moduli must be at least 5"),
        ({"num_heads": 0}, "num_heads must be a whole number, at least 1"),
        ({"fraction": 1.0}, "fraction must be a finite number, between 0 and 1"),
        ({"weight_decay": 0.0}, "penalty or weight_decay must be positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
