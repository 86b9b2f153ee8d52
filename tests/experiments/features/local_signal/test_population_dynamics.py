"""The experiment on the steps of the proof: verdicts, claims that can fail, bad configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.local_signal import population_dynamics as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Signs turned round, constants that vanish, bounds that are passed."""
    turned = smoke._replace(
        pull=-smoke.pull,
        drag=-smoke.drag,
        rest=smoke.rest[::-1],
        rest_gradient=-smoke.rest_gradient,
        bias_gradient=-smoke.bias_gradient,
        small_gradients=-smoke.small_gradients,
        deviations=smoke.deviations + 10,
    )
    for words in ("Simulated gradients", "never pulls", "never pushes", "is −1/2", "below −0.45"):
        assert verdict(words, turned) == Verdict.REFUTED
    for words in ("never grows", "times its length", "From the third step"):
        assert verdict(words, turned) == Verdict.REFUTED
    vanishing = smoke._replace(
        drag_bound=0 * smoke.drag,
        variance_ratio=0 * smoke.variance_ratio,
        probability_ratio=0 * smoke.probability_ratio,
        absolute_ratio=0 * smoke.absolute_ratio,
        within=0 * smoke.within,
        threshold=smoke.threshold + 10,
        bias=smoke.bias + 1,
        sound_bounds=-smoke.sound_bounds,
        beyond_gradient=0 * smoke.beyond_gradient,
    )
    for words in ("k Var S₁", "with probability k^", "mean size", "probability 4/5", "rate is"):
        assert verdict(words, vanishing) == Verdict.REFUTED
    for words in ("at most 2√log k times", "rises to η/k", "once k is large enough"):
        assert verdict(words, vanishing) == Verdict.REFUTED
    # A bound of 0 is below the pull of the noise, wherever the bias is negative.
    assert verdict("no more than the bound", smoke._replace(drag_bound=0 * smoke.drag)) == (
        Verdict.REFUTED
    )


def test_printed_statements_would_be_supported_if_they_were_so(smoke, verdict):
    """A rate that never falls, and a threshold that spares the signal."""
    constant = smoke._replace(beyond_gradient=np.ones_like(smoke.beyond_gradient))
    assert verdict("Whatever the error is", constant) == Verdict.SUPPORTED
    spared = smoke._replace(end_error=0.0)
    assert verdict("error is at most 2/k", spared) == Verdict.SUPPORTED
    assert verdict("the network is dead", spared) == Verdict.REFUTED


def test_a_run_without_late_steps_says_nothing(smoke, verdict):
    """All steps are early, or all have an error below 0.01."""
    early = smoke._replace(steps=0 * smoke.steps)
    assert verdict("Whatever the error is", early) == Verdict.INCONCLUSIVE
    assert verdict("k Var S₁", early) == Verdict.INCONCLUSIVE
    done = smoke._replace(beyond_error=0 * smoke.beyond_error)
    assert verdict("that rate is at least 0.1", done) == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_patches", 1, "num_patches must be at least 2, got 1"),
        ("num_steps", 9, "num_steps must be at least 1"),
        ("num_samples", 1, "num_samples must be a whole number, at least 2, got 1"),
        ("start_rest", 0.0, r"start_rest must be a finite number, positive, got 0\.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(experiment.Config(), **{field: value})
