import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import spike_match as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def with_high(result, **fields):
    return result._replace(high=result.high._replace(**fields))


def test_spikes_below_the_critical_rate_are_told(smoke, verdict):
    """Critical rates of the batch before: they know nothing of the step."""
    shifted = with_high(smoke, critical=np.roll(smoke.high.critical, 1, axis=-1))
    assert verdict("At least 98 % of the spikes", shifted) == Verdict.REFUTED


def test_a_base_rate_of_one_explains_everything(smoke, verdict):
    """Always above: every rise matches, and Fisher's test sees that it means nothing."""
    always = with_high(smoke, critical=0 * smoke.high.critical)
    assert verdict("three of four steps", always) == Verdict.SUPPORTED
    assert verdict("Fisher's test", always) == Verdict.REFUTED


def test_runs_without_spikes_and_controls_with_them_are_told(smoke, verdict):
    calm = with_high(smoke, loss=np.sort(smoke.high.loss)[..., ::-1])
    assert verdict("at least 30 spikes", calm) == Verdict.REFUTED
    assert verdict("nothing spikes", smoke._replace(low=smoke.high)) == Verdict.REFUTED
    assert verdict("5 top directions", with_high(smoke, top=smoke.high.top / 2)) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_samples": 4}, "num_samples must be from 5 to 300, got 4"),
        ({"batch_size": 200}, "batch_size must be at most 128 samples, got 200"),
        ({"ratio": 0.1}, "must be positive and increasing, got 0.3 and 0.1"),
        ({"num_steps": 2}, "num_steps must be at least 10, got 2"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
