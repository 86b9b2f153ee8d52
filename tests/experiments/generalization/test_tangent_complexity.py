"""The experiment on the complexity measure: verdicts, claims that can fail, bad configs."""

import dataclasses

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.generalization import tangent_complexity as experiment

TINY = experiment.Config(
    num_samples=12,
    num_test=6,
    num_levels=3,
    num_noises=1,
    width=8,
    num_fitted=6,
    num_steps=2,
    narrow=2,
    num_trials=4,
    num_seeds=2,
)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Levels turned round, a gap beyond its bound, networks that err, traces that are too large."""
    backward = smoke._replace(
        measure=smoke.measure[:, :, ::-1], travelled=smoke.travelled[:, :, ::-1]
    )
    assert verdict("rank alike", backward) == Verdict.REFUTED
    assert verdict("The measure grows", backward) == Verdict.REFUTED
    assert verdict("at least twice", backward) == Verdict.REFUTED
    assert (
        verdict("never exceeds", smoke._replace(gap_margin=smoke.gap_margin - 9)) == Verdict.REFUTED
    )
    astray = smoke._replace(network_error=smoke.kernel_error + 0.1)
    assert verdict("to 1.5 points", astray) == Verdict.REFUTED
    assert verdict("With probability 1 − δ", smoke._replace(traces=2 * smoke.traces)) == (
        Verdict.REFUTED
    )
    assert verdict("A fifth of that", smoke._replace(traces=0 * smoke.traces)) == Verdict.REFUTED
    far = smoke._replace(network_movement=1.2 * smoke.network_movement)
    assert verdict("travels B = √", far) == Verdict.REFUTED
    learned = smoke._replace(test_error=0 * smoke.test_error)
    assert verdict("nothing is learned", learned) == Verdict.REFUTED


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("width", 0, "width must be a whole number, at least 1, got 0"),
        ("num_test", 400, "num_samples . num_test must be at most 350 for digits, got 412"),
        ("num_fitted", 20, "num_fitted must be at most num_samples, got 20"),
        ("num_levels", 2, "num_levels must be at least 3, got 2"),
        ("delta", 1.0, "delta must be a finite number, between 0 and 1, got 1.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
