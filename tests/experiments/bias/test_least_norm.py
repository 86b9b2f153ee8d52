"""The experiment on the least norm: its verdicts, and that each of them can change."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.bias import least_norm as experiment


def test_all_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("the one of the closed form", "iterates", lambda r: r.iterates * (1 + 1e-9)),
        ("sum of the powers", "summed", lambda r: r.summed_as_printed),
        ("From 0, descent ends", "iterates", lambda r: r.iterates + 1e-6),
        ("in steps of random size", "random_end", lambda r: r.least_norm),
        ("That is not the solution", "random_end", lambda r: r.least_norm),
        ("below 1/λ_max", "threshold", lambda r: r.threshold / 4),
        ("up to 2/λ_max", "threshold", lambda r: r.threshold / 2),
        ("deficient rank", "penrose", lambda r: r.penrose + 1e-6),
        ("Two formulas", "right_inverse", lambda r: r.right_inverse + 1e-6),
        ("eigenvalues below 1", "neumann", lambda r: r.neumann + 1e-6),
        ("has the eigenvalue 1", "neumann_singular", lambda r: r.neumann),
    ],
)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, words, field, change):
    assert verdict(words, smoke._replace(**{field: change(smoke)})) != Verdict.SUPPORTED


def test_what_is_printed_could_be_supported(smoke, verdict):
    """The erratum is a finding, not a judge that always says no."""
    same = smoke._replace(summed_as_printed=smoke.summed)
    assert verdict("power of its last index", same) == Verdict.SUPPORTED


def test_the_figure_draws_the_distance_and_every_direction(smoke):
    distance, directions = experiment.plot(smoke, experiment.PRESETS["smoke"]).axes
    assert len(distance.get_lines()) == 1
    assert len(directions.get_lines()) == 2 * 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_samples": 21}, "num_samples must be at most dimension/2 = 20, got 21"),
        ({"num_samples": 1}, "num_samples must be a whole number, at least 2, got 1"),
        ({"num_steps": 29}, "num_steps must be a whole number, at least 30, got 29"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1, got 0"),
    ],
)
def test_a_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
