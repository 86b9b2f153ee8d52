"""The experiment on piecewise-linear training: verdicts, results that are not so, bad configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.prediction import piecewise_linear as experiment

TINY = experiment.Config(
    width=3, num_samples=2, num_test=1, num_workers=2, updates=(1, 8, 20), time=0.1, num_seeds=1
)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Updates that do not help, a worker whose samples are lost, a kernel that suffices."""
    idle = smoke._replace(
        deviation=np.repeat(smoke.deviation[:, :1], smoke.deviation.shape[1], axis=1),
        loss=np.repeat(smoke.loss[:, :1], smoke.loss.shape[1], axis=1),
    )
    assert verdict("in proportion to 1/K", idle) == Verdict.REFUTED
    assert verdict("More updates always", idle) != Verdict.SUPPORTED
    assert verdict("With updates the outputs", idle) != Verdict.SUPPORTED
    assert verdict("With 20 updates or more", idle) == Verdict.REFUTED
    lost = smoke._replace(shared=smoke.lonely, never=smoke.central, lonely=smoke.central)
    assert verdict("from several workers", lost) == Verdict.REFUTED
    assert verdict("Without any update", lost) == Verdict.REFUTED
    assert verdict("One worker alone", lost) == Verdict.REFUTED
    enough = smoke._replace(loss=np.tile(smoke.descent_loss[:, None], smoke.loss.shape[1]))
    assert verdict("Without updates the loss", enough) == Verdict.REFUTED


def test_figure_has_two_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("width", 0, "width must be a whole number, at least 1, got 0"),
        ("updates", (2, 8, 20), r"updates must begin with 1, got \(2, 8, 20\)"),
        ("num_workers", 3, "num_workers must be at most num_samples = 2, got 3"),
        ("time", 0.0, "time must be a finite number, positive, got 0.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
