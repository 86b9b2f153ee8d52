from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.spikes import spike_match as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def with_high(result, **fields):
    return result._replace(high=result.high.replace(**fields))


def test_spikes_below_the_critical_rate_are_told(smoke, verdict):
    """Critical rates of the batch before: they know nothing of the step."""
    shifted = with_high(smoke, critical=np.roll(smoke.high.critical, 1, axis=-1))
    assert verdict("At least 95 % of the spikes", shifted) == Verdict.REFUTED


def test_the_match_rate_of_the_source_would_be_supported(smoke, verdict):
    """Oracle: of 4000 steps that raise the loss, 3892 are above the critical rate."""
    loss = np.tile([1.0, 2.0], 4000)[None, None]  # every second step is up
    up = np.tile([True, False], 4000)[None, None]
    above = up & (np.cumsum(up, axis=-1) <= 3892)
    made = smoke.high.replace(
        loss=loss, critical=np.where(above, 0.0, np.inf), learning_rate=np.ones_like(loss)
    )
    assert verdict("Whenever the loss", smoke._replace(high=made)) == Verdict.SUPPORTED


def test_a_base_rate_of_one_explains_everything(smoke, verdict):
    """Always above: every rise matches, and Fisher's test sees that it means nothing."""
    always = with_high(smoke, critical=0 * smoke.high.critical)
    assert verdict("Fisher's test", always) == Verdict.REFUTED


def test_runs_without_spikes_and_controls_with_them_are_told(smoke, verdict):
    calm = with_high(smoke, loss=np.sort(smoke.high.loss)[..., ::-1])
    assert verdict("at least 30 spikes", calm) == Verdict.REFUTED
    restless = smoke._replace(low=smoke.high)
    assert verdict("nothing spikes", restless) == Verdict.REFUTED
    assert verdict("decreases monotonically", restless) == Verdict.REFUTED
    falling = smoke.low.replace(loss=np.sort(smoke.low.loss)[..., ::-1])
    assert verdict("decreases monotonically", smoke._replace(low=falling)) == Verdict.SUPPORTED
    assert verdict("top 5 directions", with_high(smoke, top=smoke.high.top / 2)) == Verdict.REFUTED


def test_the_rates_are_those_of_the_steps(smoke):
    """Oracle: counting, on the first task."""
    loss = smoke.high.loss[0]
    up = np.diff(loss) > 0
    above = (smoke.high.learning_rate > smoke.high.critical)[0, :, :-1]
    found = experiment._any_rise(smoke.high, 0)
    rates = (found.match_rate, found.base_rate, found.up_above, found.up_below)
    expected = (above[up].mean(), above.mean(), up[above].mean(), up[~above].mean())
    np.testing.assert_allclose(rates, expected, rtol=1e-12)
    big = (loss[:, 1:] > 1.5 * loss[:, :-1]) & (np.diff(loss) > 0.1)
    spiking = experiment._of_spikes(smoke.high, 0)
    np.testing.assert_allclose(spiking.match_rate, above[big].mean(), rtol=1e-12)


def test_spikes_as_common_as_any_step_are_told(smoke, verdict):
    """Always above: the base rate is 1, and no match rate is above it."""
    always = with_high(smoke, critical=0 * smoke.high.critical)
    assert verdict("more than their base rate", always) != Verdict.SUPPORTED
    # Above the critical rate at every fourth step that raises the loss, and at no other.
    up = np.diff(smoke.high.loss, append=0) > 0
    rare = up & (np.cumsum(up, axis=-1) % 4 == 0)
    only = with_high(smoke, critical=np.where(rare, 0.0, np.inf))
    assert verdict("a quarter of all steps", only) == Verdict.REFUTED
    assert verdict("lift is small", only) == Verdict.REFUTED


def test_the_paper_has_the_networks_and_photographs_of_the_source():
    """And all its networks pass through the program, in their sizes, on other images."""
    paper = experiment.PRESETS["paper"]
    assert (paper.images, paper.depth, paper.channels) == ("cifar10", 5, 512)
    assert 1e9 < experiment.memory(paper) < 1e12
    here = replace(paper, images="digits")
    for task in experiment._tasks(here)[3:]:
        seen = jax.eval_shape(
            lambda key, task=task: experiment._train(here, task, jnp.array(1.2), key),
            jax.random.key(0),
        )
        assert seen.loss.shape == (2000,)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_samples": 4}, "num_samples must be at least 5, got 4"),
        ({"batch_size": 200}, "batch_size must be at most num_samples = 128, got 200"),
        ({"ratio": 0.1}, "ratio must be above 0.3, got 0.1"),
        ({"num_networks": 4}, "num_networks must be at most 3, got 4"),
        ({"num_samples": 301}, "num_samples must be at most 300, got 301"),
        ({"width": 10**9}, "mlp must have a width from 1 to 1000000"),
        ({"num_steps": 2}, "num_steps must be at least 10, got 2"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
