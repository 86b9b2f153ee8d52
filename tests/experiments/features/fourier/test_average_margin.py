import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.fourier import average_margin as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("never finds more", "ascended", 1.001),
        ("reaches γ*", "ascended", 0.99),
        ("one frequency in all", "concentration", 0.99),
        ("phases of the best", "residual", 0.1),
        ("No random network", "random_average", 1.1),
        ("bound is loose", "random_average", 0.9),
        ("products of transforms", "by_examples", 1.0),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


def test_the_misprint_could_be_right(smoke, verdict):
    """Oracle: p = 7 and 5, 1 - 1/(p - 1) is 5/6 and 3/4, where 7/6 and 5/4 should be."""
    right = smoke._replace(by_examples=smoke.centred * np.array([5 / 6, 3 / 4]))
    assert verdict("is 1 - 1/(p - 1)", right) == Verdict.SUPPORTED
    assert verdict("is 1 + 1/(p - 1)", right) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"moduli": (5,)}, "num_terms and moduli must be as many"),
        ({"ascent_moduli": (4,)}, "ascent_moduli must be .* odd"),
        ({"ascent_moduli": (10_001,)}, "ascent_moduli must be at most 10000"),
        ({"ascent_terms": (21,)}, "ascent_terms must be at most 20"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
