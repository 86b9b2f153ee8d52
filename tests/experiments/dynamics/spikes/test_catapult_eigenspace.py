from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.spikes import catapult_eigenspace as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def changed(result, part="high", **fields):
    return result._replace(**{part: getattr(result, part)._replace(**fields)})


def test_a_spike_outside_the_top_directions_is_told(smoke, verdict):
    """Half of L_≤5 moved to the rest: the rest then spikes as well."""
    top = smoke.high.top
    outside = changed(smoke, top=0.5 * top)
    assert verdict("corresponds to the spike", outside) == Verdict.REFUTED
    assert verdict("never doubles", outside) == Verdict.REFUTED
    assert verdict("both positive", changed(smoke, top=1.5 * top)) == Verdict.REFUTED


def test_a_rest_that_rises_is_told_and_one_that_falls_is_supported(smoke, verdict):
    """All of the loss but a line that falls, or rises, is in the top directions."""
    words = ("at every step, on every task", "almost monotonically")
    line = np.linspace(0.1, 0.05, smoke.high.loss.shape[-1]) * smoke.high.loss[..., :1]
    for rest, expected in ((line, Verdict.SUPPORTED), (line[..., ::-1], Verdict.REFUTED)):
        top = np.stack([smoke.high.loss - rest] * 2, axis=-1)
        assert [verdict(each, changed(smoke, top=top)) for each in words] == [expected] * 2


def test_a_run_without_catapult_is_told(smoke, verdict):
    calm = changed(smoke, loss=smoke.low.loss)
    assert verdict("rises drastically", calm) == Verdict.REFUTED
    same = changed(smoke, kernel_norm=np.ones_like(smoke.high.kernel_norm))
    assert verdict("Afterwards the kernel is smaller", same) == Verdict.REFUTED
    fast = changed(smoke, learning_rate=3 * smoke.high.learning_rate)
    assert verdict("so that the step is stable", fast) == Verdict.REFUTED


def test_controls_can_fail(smoke, verdict):
    spiking = changed(smoke, "low", loss=smoke.high.loss, ends=smoke.high.kernel_norm)
    assert verdict("falls at every step", spiking) == Verdict.REFUTED
    assert verdict("stays within 10 %", spiking) == Verdict.REFUTED


def test_a_kernel_that_moves_on_one_task_is_told(smoke, verdict):
    """Up on one task and down on another: the mean over tasks would not see it."""
    ends = smoke.low.ends.copy()
    ends[0, :, 1], ends[1, :, 1] = 1.2 * ends[0, :, 0], 0.8 * ends[1, :, 0]
    assert verdict("stays within 10 %", changed(smoke, "low", ends=ends)) == Verdict.REFUTED


def test_networks_of_the_paper_pass_through_the_program():
    """In their sizes, on other images: five layers, five convolutions, WRN-10-10."""
    paper = experiment.PRESETS["paper"]
    assert 1e9 < experiment.memory(paper) < 1e12
    here = replace(paper, images="digits")
    for number in (3, 4, 6):
        task = experiment._tasks(here)[number]
        found = jax.eval_shape(
            lambda key, task=task: experiment._descend(here, task, jnp.array(1.67), key),
            jax.random.key(0),
        )
        assert found.loss.shape == (201,)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 0}, "width must be a whole number, at least 1, got 0"),
        ({"num_classified": 4}, "num_classified must be a whole number, from 5 to 300, got 4"),
        ({"num_tasks": 2}, "num_tasks must be a whole number, from 3 to 7, got 2"),
        ({"ratio": 0.5}, "ratio must be a finite number, above 1, got 0.5"),
        ({"deep_width": 10**7}, "mlp must have a width from 1 to 1000000"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
