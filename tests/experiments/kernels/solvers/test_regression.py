"""The experiment on kernel regression: its verdicts, and that each of them can change."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.solvers import regression as experiment


def test_all_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("the same predictions", "by_features", lambda r: r.by_features[:, ::-1]),
        ("by its own factor", "directions", lambda r: -r.directions),
        ("ends at regression", "end", lambda r: r.end + 1e-4),
        ("the least norm", "other_norms", lambda r: r.norms - 0.1),
        ("cost nothing", "same_norms", lambda r: r.other_norms),
        ("A jitter", "jitter_residual", lambda r: 0 * r.jitter_residual),
    ],
)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, words, field, change):
    assert verdict(words, smoke._replace(**{field: change(smoke)})) != Verdict.SUPPORTED


def test_the_figure_draws_predictions_and_every_direction(smoke):
    predictions, directions = experiment.plot(smoke, experiment.PRESETS["smoke"]).axes
    assert len(predictions.get_lines()) == 1 + 1
    assert len(directions.get_lines()) == 2 * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_samples": 9}, "num_samples must be a whole number, from 2 to 8, got 9"),
        ({"num_test": 2}, "num_test must be a whole number, at least 3, got 2"),
        ({"num_steps": 10}, "num_steps must be a whole number, at least 1000, got 10"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1, got 0"),
    ],
)
def test_a_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
