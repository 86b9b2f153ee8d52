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
        ("has a smaller margin", "incomplete", 1.0),
        ("takes 32", "per_frequency", 56),
        ("2ᵏ⁻¹ products", "products", 4),
        ("on the margin of", "largest", 1.1),
        ("outputs are -½", "wrong", 0.0),
        ("maximises", "flipped", 0.0),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("outputs are 0", "wrong", 0.0),
        ("takes 56", "per_frequency", 56),
        ("minimises", "flipped", 2.0),
    ],
)
def test_printed_statements_could_be_right(smoke, verdict, words, field, value):
    right = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, right) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"moduli": (5,)}, "num_terms and moduli must be as many"),
        ({"moduli": (5, 5, 5, 5, 4)}, "moduli must be .* odd"),
        ({"num_terms": (2,), "moduli": (1,)}, "modulus must be"),
        ({"num_terms": (40,), "moduli": (5,)}, "modulus.num_terms must be below"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
