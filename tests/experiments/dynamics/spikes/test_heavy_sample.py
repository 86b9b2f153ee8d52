import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.spikes import heavy_sample as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_spikes_at_other_examples_are_told(smoke, verdict):
    """The same losses, each one step after another example than it was."""
    moved = smoke._replace(chosen=np.roll(smoke.chosen, 1, axis=-1))
    assert verdict("only at steps that use", moved) == Verdict.REFUTED
    slow = smoke._replace(critical=10 * smoke.critical)
    assert verdict("98 % of the spikes", slow) == Verdict.REFUTED
    alike = smoke._replace(critical=np.ones_like(smoke.critical))
    assert verdict("four times smaller", alike) == Verdict.REFUTED
    low = smoke._replace(other_critical=smoke.heavy_critical)
    assert verdict("lie between", low) == Verdict.REFUTED


def test_an_exact_match_would_be_supported(smoke, verdict):
    """Critical rates of 0 at the spikes, and infinite elsewhere."""
    rising = np.diff(smoke.loss, append=0) > 0.1 * smoke.loss
    exact = smoke._replace(critical=np.where(rising, 0.0, np.inf))
    assert verdict("match exactly", exact) == Verdict.SUPPORTED


def test_a_loss_that_only_falls_is_no_spike(smoke, verdict):
    falling = smoke._replace(loss=np.sort(smoke.loss)[..., ::-1])
    assert verdict("at least 5 spikes", falling) == Verdict.REFUTED
    assert verdict("Small rises", falling) == Verdict.REFUTED
    assert verdict("nothing spikes", smoke._replace(loss=smoke.loss[::-1])) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_steps": 1}, "num_steps must be .* at least 2, got 1"),
        ({"learning_rates": ()}, "learning_rates must be .* one or more"),
        ({"weight": 0.0}, "weight must be .* positive, got 0.0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
