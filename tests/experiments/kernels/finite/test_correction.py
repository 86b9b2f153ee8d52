"""The experiment on predicted movement of kernels: verdicts, results that are not so, configs."""

import dataclasses
import math

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.finite import correction as experiment

TINY = experiment.Config(
    widths=(8, 16), num_samples=2, num_test=1, time=0.5, num_seeds=2, num_groups=2
)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """A hierarchy no better than a constant kernel, an error that stays, a ReLU that is smooth."""
    same = smoke._replace(truncated_error=smoke.constant_error)
    assert verdict("Cut after O₄", same) == Verdict.REFUTED
    stays = smoke._replace(kernel_error=smoke.relu_error, mean_error=smoke.mean_error[:, ::-1])
    assert verdict("The closed form predicts", stays) == Verdict.REFUTED
    assert verdict("The error of that prediction falls", stays) != Verdict.SUPPORTED
    assert verdict("The mean movement", stays) != Verdict.SUPPORTED
    assert verdict("That error, too", stays) == Verdict.REFUTED
    smooth = smoke._replace(relu_error=smoke.kernel_error)
    assert verdict("For ReLU networks", smooth) == Verdict.REFUTED


def test_figure_has_two_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_test", 0, "num_test must be a whole number, at least 1, got 0"),
        ("widths", (16, 8), "widths must be whole numbers, two or more and increasing"),
        ("widths", (8,), "widths must be whole numbers, two or more and increasing"),
        ("num_samples", 9, "num_samples must be a whole number, from 1 to 8, got 9"),
        ("num_seeds", 3, "num_seeds must be a multiple of num_groups = 2, got 3"),
        ("time", math.inf, "time must be a finite number, positive, got inf"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
