"""The experiment on the kernel's flow: its verdicts, and that each of them can change."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.prediction import flow as experiment


def test_all_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "part", "field", "change"),
    [
        ("an ODE solver", "flow", "closed", lambda r: 1.001 * r.closed),
        ("predictions of the closed form", "steps", "outputs", lambda r: r.outputs[:, ::-1]),
        ("by its own factor", "steps", "modes", lambda r: -r.modes),
        ("The weights are", "steps", "weights", lambda r: r.weights + 1e-4),
        ("squared distance", "steps", "distance", lambda r: 2 * r.distance),
        ("on its way, or faster", "flow", "errors", lambda r: r.errors**0.3),
        ("twenty times that rate", "flow", "lowest", lambda r: r.lowest / 20),
        ("stays above half", "flow", "lowest", lambda r: r.lowest * np.linspace(1, 0.1, 25)),
    ],
)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, words, part, field, change):
    record = getattr(smoke, part)
    wrong = smoke._replace(**{part: record._replace(**{field: change(record)})})
    assert verdict(words, wrong) != Verdict.SUPPORTED


def test_half_the_threshold_is_not_supported(smoke, verdict):
    wrong = smoke._replace(threshold=smoke.threshold / 2)
    assert verdict("if and only if", wrong) == Verdict.REFUTED


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
