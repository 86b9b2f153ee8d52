"""The experiment on linear models: its verdicts, and that each of them can change."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import linear_descent as experiment


def test_all_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("is the closed form", "iterates", lambda r: r.iterates * (1 + 1e-9)),
        ("1.99/λ_max", "iterates", lambda r: r.iterates[:, [0, 1, 3, 2]]),
        ("2.01/λ_max", "iterates", lambda r: r.iterates[:, [0, 1, 3, 2]]),
        ("The largest step", "threshold", lambda r: r.threshold / 2),
        ("whose rows are samples", "square_end", lambda r: r.square_misread),
    ],
)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, words, field, change):
    assert verdict(words, smoke._replace(**{field: change(smoke)})) != Verdict.SUPPORTED


def test_the_printed_pseudo_inverse_could_be_supported(smoke, verdict):
    right = smoke._replace(square_end=smoke.square_misread)
    assert verdict("whose columns are samples", right) == Verdict.SUPPORTED


def test_the_figure_draws_every_step_size(smoke):
    distance, thresholds = experiment.plot(smoke, experiment.PRESETS["smoke"]).axes
    assert len(distance.get_lines()) == 4
    assert len(thresholds.get_lines()) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimension": 21}, "dimension must be at most num_samples/2 = 20, got 21"),
        ({"num_steps": 999}, "num_steps must be .* at least 1000"),
        ({"num_seeds": 0}, "num_seeds must be .* at least 1, got 0"),
    ],
)
def test_a_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
