"""The experiment on the kernel's flow: its verdicts, and that each of them can change."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.prediction import flow as experiment


def test_all_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("an ODE solver", "closed", lambda r: 1.001 * r.closed),
        ("predictions of the closed form", "by_steps", lambda r: r.by_steps[:, ::-1]),
        ("by its own factor", "modes", lambda r: -r.modes),
        ("stable up to", "threshold", lambda r: r.threshold / 2),
        ("The slowest mode", "modes", lambda r: r.modes[:, [0, -1]]),
        ("The weights are", "weights", lambda r: r.weights + 1e-4),
        ("In all they move", "distance", lambda r: 2 * r.distance),
        ("on its way, or faster", "errors", lambda r: np.sqrt(r.errors)),
        ("stays above half", "lowest", lambda r: r.lowest * np.linspace(1, 0.1, 25)),
        ("Where it does", "errors", lambda r: r.errors**0.1),
        ("the highest eigenvalue", "highest", lambda r: 0 * r.highest),
    ],
)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, words, field, change):
    assert verdict(words, smoke._replace(**{field: change(smoke)})) != Verdict.SUPPORTED


def test_the_figure_draws_every_output_and_mode(smoke):
    outputs, modes, error = experiment.plot(smoke, experiment.PRESETS["smoke"]).axes
    assert len(outputs.get_lines()) == 2 * (4 + 1 + 3)
    assert len(modes.get_lines()) == 2 * 4
    assert len(error.get_lines()) == 2 * 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "width must be a whole number, at least 1, got 0"),
        ({"num_samples": 9}, "num_samples must be at most 2 dimension = 8, got 9"),
        ({"num_steps": 1000}, "num_steps must be a whole number, at least 1001, got 1000"),
    ],
)
def test_a_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
