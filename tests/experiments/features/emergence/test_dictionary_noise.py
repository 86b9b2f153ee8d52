import numpy as np
import pytest

from theorylab.claims import Verdict
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
        ("11 points better", "tangent", 0.99),
        ("After two steps", "second", 0.5),
        ("At the start", "start", 0.9),
        ("has the mean γ", "moment", 1.3),
        ("ζ/σ̃", "square", 1.2),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    noisy = smoke.noisy._replace(**{field: np.full_like(getattr(smoke.noisy, field), value)})
    assert verdict(words, smoke._replace(noisy=noisy)) != Verdict.SUPPORTED


def test_the_printed_statement_could_be_right(smoke, verdict):
    right = smoke.noisy._replace(printed_square=np.ones_like(smoke.noisy.printed_square))
    assert verdict("ζ/σ_ζ", smoke._replace(noisy=right)) == Verdict.SUPPORTED


def test_noise_that_is_divided_by_its_own_size_is_as_long_as_the_dimension(smoke):
    """Oracle: E‖ζ/σ_ζ‖² = d = 150, and the patterns' part is at most 1."""
    np.testing.assert_allclose(smoke.noisy.printed_square, 150.5, atol=2.0)


def test_the_allowed_noise_is_the_smaller_of_two_bounds():
    """By hand: 16 fair coins have σ̃ = 2, so ½ up to d = 16, then 2/√d."""
    assert _config(16).allowed_noise == pytest.approx(0.5)
    assert _config(100).allowed_noise == pytest.approx(0.2)


def _config(dimension):
    return experiment.Config(num_patterns=16, num_relevant=3, dimension=dimension, fractions=(0.5,))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"multiples": (1.0, 0.5, 2.0)}, "multiples must be .* two or more and increasing"),
        ({"multiples": (0.0, 0.5, 2.0)}, "multiples must be .* each positive"),
        ({"multiples": (0.5, 2.0)}, "multiples must be three or more up to 1000"),
        ({"multiples": (0.5, 2.0, 1e9)}, "multiples must be three or more up to 1000"),
        ({"fractions": ()}, "fractions must be .* one or more"),
        ({"fractions": (0.8, 1.0)}, "fractions must be .* each between 0 and 1"),
        ({"num_relevant": 4}, "num_relevant must be a whole number, odd"),
        ({"dimension": 10}, "dimension must be at least num_patterns = 20"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
