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
    for words in ("Simulated gradients", "only shrink it", "is −Θ(1)"):
        assert verdict(words, turned) == Verdict.REFUTED
    for words in ("times its length", "As long as the error"):
        assert verdict(words, turned) == Verdict.REFUTED
    vanishing = smoke._replace(
        drag_bound=0 * smoke.drag,
        variance_ratio=0 * smoke.variance_ratio,
        absolute_ratio=0 * smoke.absolute_ratio,
        within=0 * smoke.within,
        threshold=smoke.threshold + 10,
        bias=smoke.bias + 1,
        beyond_gradient=0 * smoke.beyond_gradient,
    )
    for words in ("k Var S₁", "mean size", "probability 4/5", "As long as the error"):
        assert verdict(words, vanishing) == Verdict.REFUTED
    for words in ("at most 2√log k times", "In its positive phase"):
        assert verdict(words, vanishing) == Verdict.REFUTED
    # A bound of 0 is below the pull of the noise, wherever the bias is negative.
    assert verdict("no more than the bound", smoke._replace(drag_bound=0 * smoke.drag)) == (
        Verdict.REFUTED
    )


def test_a_rate_that_never_falls_refutes_the_control(smoke, verdict):
    constant = smoke._replace(beyond_gradient=np.ones_like(smoke.beyond_gradient))
    assert verdict("Once the error is below", constant) == Verdict.REFUTED


def test_a_run_without_late_steps_says_nothing(smoke, verdict):
    """All steps are early, or all have an error below 0.01."""
    early = smoke._replace(steps=0 * smoke.steps)
    assert verdict("Once the error is below", early) == Verdict.INCONCLUSIVE
    assert verdict("k Var S₁", early) == Verdict.INCONCLUSIVE
    done = smoke._replace(beyond_error=0 * smoke.beyond_error)
    assert verdict("As long as the error", done) == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_patches", 1, "num_patches must be a whole number, at least 2, got 1"),
        ("num_steps", 9, "num_steps must be a whole number, at least 10, got 9"),
        ("num_samples", 1, "num_samples must be a whole number, at least 2, got 1"),
        ("start_rest", 0.0, r"start_rest must be a finite number, positive, got 0\.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(experiment.Config(), **{field: value})
