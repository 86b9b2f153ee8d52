"""The experiment on gated patches: verdicts, claims that can fail, bad configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.local_signal import patch_lower_bound as experiment

TINY = experiment.Config(num_draws=6, num_patches=300, num_samples=8)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Gates and patches turned round, gates that all succeed, a simulation that disagrees."""
    turned = smoke._replace(errors=smoke.errors[:, ::-1])
    for words in ("Behind one gate", "More gates err less", "with probability 1/(1.28 log k)²"):
        assert verdict(words, turned) == Verdict.REFUTED
    fewer = smoke._replace(errors=smoke.errors[::-1], needed=smoke.needed[::-1])
    assert verdict("More noisy patches", fewer) == Verdict.REFUTED
    assert verdict("The gates that are needed", fewer) == Verdict.REFUTED
    failing = smoke._replace(errors=0 * smoke.errors + 0.4)
    assert verdict("does not hold yet", failing) != Verdict.SUPPORTED
    assert verdict("one of few gates", failing) == Verdict.REFUTED
    perfect = smoke._replace(best_errors=0 * smoke.best_errors)
    assert verdict("With the best choice", perfect) == Verdict.REFUTED
    shut = smoke._replace(best_errors=smoke.best_errors + 0.2)
    assert verdict("shutting some", shut) == Verdict.REFUTED
    off = smoke._replace(fitted=smoke.expected + 0.1, simulated=smoke.simulated + 0.1)
    assert verdict("cost of fitting", off) == Verdict.REFUTED
    assert verdict("Weights fitted to", off) == Verdict.REFUTED


def test_needed_gates_are_interpolated():
    """By hand: the median is a tenth halfway between 4 and 8 gates, in logarithms."""
    medians = np.array([0.4, 0.3, 0.1 * 2**0.5, 0.1 / 2**0.5, 0.05, 0.01, 0.001])
    assert experiment._needed(medians) == pytest.approx(4 * 2**0.5)


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_draws", 5, "num_draws must be a whole number, at least 6, got 5"),
        ("num_patches", 299, "num_patches must be a whole number, at least 300, got 299"),
        ("num_samples", 3, "num_samples must be a whole number, at least 4, got 3"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
