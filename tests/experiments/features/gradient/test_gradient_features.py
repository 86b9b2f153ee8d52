"""Gradient features: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import gradient_features as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("to four errors", "deviations", 5.0),
        ("Bernstein's tail", "tail_bound", 0.0),
        ("wider by the error", "sampled_shares", 0.0),
        ("finds every cluster", "cosines", 0.9),
        ("five times smaller", "control_cosines", 0.99),
        ("by autodiff", "steps", np.arange(2.0)[:, None]),
        ("wᵢ = −wᵢ₊₂ₘ", "mirrored", 0.1),
        ("wᵢ = −wᵢ₊₂ₘ", "started", 0.1),
        ("40 times as large", "tail_low", 0.0),
        ("have no bound B_x", "longer", 0.02),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


def test_a_bound_that_is_least_in_the_widest_cone_would_be_seen(smoke, verdict):
    assert verdict("in a cone below 0.1", smoke._replace(terms=smoke.terms[::-1])) == (
        Verdict.REFUTED
    )


def test_a_monte_carlo_that_sees_no_difference_fails_the_control(smoke, verdict):
    blind = smoke._replace(misread=smoke.deviations)
    assert verdict("in place of σ_j²", blind) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_clusters": 64}, "num_clusters must be below dimension = 64, got 64"),
        ({"threshold": 0.0}, "threshold must be a finite number, positive, got 0"),
        ({"opening": 0.5}, "opening must be a finite number, between 0 and 1, from 0 to 0.29"),
        ({"width": 10**10}, "width must be below 2³¹"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
