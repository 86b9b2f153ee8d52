import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.fourier import maximum_margin as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("attains γ*", "attained", 1 + 1e-9),
        ("never finds more", "ascended", 1.001),
        ("reaches γ*", "ascended", 0.99),
        ("one frequency in all", "concentration", 0.99),
        ("phases of the best", "residual", 0.1),
        ("No random network", "random_average", 1.1),
        ("has a smaller margin", "incomplete", 1.0),
        ("takes 32", "per_frequency", 56),
        ("2ᵏ⁻¹ products", "products", 4),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"moduli": (5,)}, "num_terms and moduli must be as many"),
        ({"ascent_moduli": (4,)}, "modulus must be odd and at least 3, got 4"),
        ({"num_starts": 0}, "num_starts must be at least 1, got 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
