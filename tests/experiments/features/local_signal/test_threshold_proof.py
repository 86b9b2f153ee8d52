"""The experiment on what the proof takes for granted: verdicts, claims that can fail, configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.local_signal import threshold_proof as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Bounds that are passed, variances of another size, a descent that takes too long."""
    wrong = smoke._replace(
        bounds=smoke.misses / 2,
        bias_spread=2 * smoke.bias_spread,
        weight_spread=0 * smoke.weight_spread + 1e-300,
        bounded=10 * smoke.bounded,
        reached=10 * smoke.times.sum(),
    )
    slow = dataclasses.replace(experiment.PRESETS["smoke"], learning_rate=1e-300)
    for words in ("The start has", "the variance k/4", "By Chebyshev", "formal device"):
        assert verdict(words, wrong, slow) == Verdict.REFUTED
    for words in ("an error of at least 0.01 bound", "both summands"):
        assert verdict(words, wrong, slow) == Verdict.REFUTED
    assert verdict("Batches of 150", smoke._replace(bias_spread=0 * smoke.bias_spread)) == (
        Verdict.REFUTED
    )
    short = smoke._replace(
        unbounded=smoke.bounded, sound_bounds=-smoke.sound_bounds, sound_size=900.0
    )
    for words in ("The error is needed", "errs less than 2k", "That k₀ is about 1600"):
        assert verdict(words, short) == Verdict.REFUTED
    assert verdict("the network is dead", smoke._replace(unsound_error=0.0)) == Verdict.REFUTED


def test_a_descent_that_does_not_arrive_says_nothing(smoke, verdict):
    """By hand: the error is below 0.01 for good from the third record on, or never."""
    steps = np.arange(4)
    assert experiment._reached(steps, np.array([0.5, 0.001, 0.3, 0.001])) == 3
    never = experiment._reached(steps, np.full(4, 0.5))
    assert verdict("both summands", smoke._replace(reached=never)) == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_patches", 1000, "num_patches must be a whole number, at least 1650, got 1000"),
        ("dimension", 1, "dimension must be a whole number, at least 2, got 1"),
        ("num_steps", 9, "num_steps must be a whole number, from 60 to 10000000, got 9"),
        ("learning_rate", 0.0, r"learning_rate must be a finite number, positive, got 0\.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(experiment.Config(), **{field: value})
