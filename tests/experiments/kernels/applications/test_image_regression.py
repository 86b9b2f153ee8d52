"""The experiment on images from half of their pixels: verdicts, what can fail, bad configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.applications import image_regression as experiment

TINY = experiment.Config(image_size=8, cutoff=1.5, width=8, num_steps=2, num_seeds=2)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """The order of embeddings turned around; all of them equal; patience that does not help."""
    turned = smoke._replace(fields=smoke.fields[::-1], photographs=smoke.photographs[::-1])
    assert verdict("better fields than plain", turned) == Verdict.REFUTED
    assert verdict("2 decibels better", turned) == Verdict.REFUTED
    assert verdict("Many waves give better", turned) != Verdict.SUPPORTED
    assert verdict("much better photographs", turned) == Verdict.REFUTED
    turned = smoke._replace(networks=smoke.networks[::-1])
    assert verdict("order one wave and many", turned) == Verdict.REFUTED
    equal = smoke._replace(networks=np.zeros_like(smoke.networks))
    assert verdict("order plain coordinates", equal) != Verdict.SUPPORTED
    steps = np.array([[0.0], [1.0], [5.0], [5.0]]) + 0 * smoke.photographs
    clear = smoke._replace(photographs=steps)
    assert verdict("better photographs than plain", clear) == Verdict.SUPPORTED
    assert verdict("much better photographs", clear) == Verdict.SUPPORTED
    apart = smoke.photographs + np.array([[0.0], [0.0], [0.0], [5.0]])
    assert verdict("within 1.5 decibels", smoke._replace(photographs=apart)) == Verdict.REFUTED
    same = smoke._replace(patient=smoke.fields)
    assert verdict("With enough time", same) == Verdict.REFUTED


def test_signal_to_noise_of_a_known_error():
    """Oracle: an error of 0.1 everywhere is −10 log₁₀ 0.01 = 20 decibels."""
    assert experiment._psnr(np.full((4, 1), 0.6), np.full((4, 1), 0.5)) == pytest.approx(20.0)


def test_figure_has_four_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 4


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("image_size", 9, "image_size must be even, got 9"),
        ("cutoff", 0.0, "cutoff must be a finite number, positive, got 0.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
