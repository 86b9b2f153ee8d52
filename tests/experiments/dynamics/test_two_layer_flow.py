"""The experiment on two layers: its verdicts, and that each of them can change."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import two_layer_flow as experiment

RATES = experiment.Config.learning_rates


def test_all_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("of the linear network, as", "written", lambda r: -r.written),
        ("So are those", "written", lambda r: -r.written),
        ("layers is conserved", "drift", lambda r: r.drift[:, ::-1]),
        ("the loss falls", "losses", lambda r: r.losses[:, :, ::-1]),
        ("the imbalance moves", "drift", lambda r: r.drift[:, ::-1]),
        ("every neuron", "diagonal_drift", lambda r: r.drift),
        ("no neuron", "diagonal_drift", lambda r: r.diagonal_drift[:, ::-1]),
        ("In discrete steps", "step_drift", lambda r: r.step_drift * RATES),
    ],
)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, words, field, change):
    assert verdict(words, smoke._replace(**{field: change(smoke)})) != Verdict.SUPPORTED


def test_the_figure_draws_every_activation_and_seed(smoke):
    drift, steps = experiment.plot(smoke, experiment.PRESETS["smoke"]).axes
    assert len(drift.get_lines()) == 2 * 3
    assert len(steps.get_lines()) == 8 + 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "width must be .* at least 1, got 0"),
        ({"learning_rates": (0.02, 0.01)}, "learning_rates must be .* increasing"),
        ({"learning_rates": (0.1, 0.2)}, "learning_rates must be .* each from 1e-06 to 0.1"),
        ({"learning_rates": (0.1,)}, "learning_rates must be .* two or more"),
    ],
)
def test_a_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
