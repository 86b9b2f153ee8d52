from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.spikes import catapult_eigenspace as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_a_spike_outside_the_top_directions_is_told(smoke, verdict):
    """Half of L_≤5 moved to the rest: the rest then spikes as well."""
    outside = smoke._replace(top=0.5 * smoke.top)
    assert verdict("At least 99 % of the spike", outside) == Verdict.REFUTED
    assert verdict("never doubles", outside) == Verdict.REFUTED
    beyond = smoke._replace(top=1.5 * smoke.top)
    assert verdict("both positive", beyond) == Verdict.REFUTED


def test_a_run_without_catapult_is_told(smoke, verdict):
    calm = smoke._replace(loss=smoke.control_loss)
    assert verdict("to more than twice what it was", calm) == Verdict.REFUTED
    same = smoke._replace(kernel_norm=np.ones_like(smoke.kernel_norm))
    assert verdict("Afterwards the kernel is smaller", same) == Verdict.REFUTED
    fast = smoke._replace(learning_rate=3 * smoke.learning_rate)
    assert verdict("So small that the step is stable", fast) == Verdict.REFUTED


def test_controls_can_fail(smoke, verdict):
    assert verdict("falls at every step", smoke._replace(control_loss=smoke.loss)) == (
        Verdict.REFUTED
    )
    assert verdict("stays within 10 %", smoke._replace(control_norm=smoke.kernel_norm)) == (
        Verdict.REFUTED
    )


def test_a_kernel_that_moves_on_one_task_is_told(smoke, verdict):
    """Up on one task and down on another: the mean over tasks would not see it."""
    moved = smoke.control_norm.copy()
    moved[0, :, 1], moved[1, :, 1] = 1.2 * moved[0, :, 0], 0.8 * moved[1, :, 0]
    assert verdict("stays within 10 %", smoke._replace(control_norm=moved)) == Verdict.REFUTED


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
        assert found[2].shape == (201,)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 0}, "width must be a whole number, at least 1, got 0"),
        ({"num_classified": 4}, "num_classified must be from 5 to 300, got 4"),
        ({"num_tasks": 2}, "num_tasks must be from 3 to 7, got 2"),
        ({"ratio": 0.5}, "ratio must be above 1, got 0.5"),
        ({"deep_width": 10**7}, "mlp must have a width from 1 to 1000000"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
