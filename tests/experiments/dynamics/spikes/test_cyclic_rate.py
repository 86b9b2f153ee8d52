from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.spikes import cyclic_rate as experiment
from theorylab.experiments.dynamics.spikes._tasks import task_data

PERIOD = experiment.PRESETS["smoke"].period


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_cycles_that_do_not_spike_are_told(smoke, verdict):
    calm = smoke._replace(moving=smoke.constant)
    assert verdict("four of five rises of the rate are catapults", calm) == Verdict.REFUTED
    assert verdict("With bounds of the start", smoke._replace(fixed=smoke.moving)) == (
        Verdict.REFUTED
    )
    assert verdict("At a constant low rate", smoke._replace(constant=smoke.moving)) == (
        Verdict.REFUTED
    )


def test_a_rise_and_a_fall_are_told_apart(smoke, verdict):
    """A single spike in every cycle: in its rise, or in the first half of its fall."""

    def spiking(step):
        loss = np.ones_like(smoke.moving.loss)
        loss[:, step + 1 : -1 : PERIOD] = 2.0
        return smoke._replace(moving=smoke.moving._replace(loss=loss))

    rising, falling = spiking(PERIOD // 2 - 1), spiking(PERIOD // 2)
    assert verdict("four of five rises of the rate are catapults", rising) == Verdict.SUPPORTED
    assert verdict("early in its fall", rising) == Verdict.REFUTED
    assert verdict("four of five rises of the rate are catapults", falling) == Verdict.REFUTED
    assert verdict("early in its fall", falling) == Verdict.SUPPORTED


def test_kernels_that_grow_and_spikes_elsewhere_are_told(smoke, verdict):
    def moved(**fields):
        return smoke._replace(moving=smoke.moving._replace(**fields))

    grown = moved(kernel_norm=1 / smoke.moving.kernel_norm)
    assert verdict("the kernel is smaller", grown) == Verdict.REFUTED
    assert verdict("first direction", moved(top=smoke.moving.top / 3)) == Verdict.REFUTED
    late = moved(loss=np.roll(smoke.moving.loss, PERIOD // 2, axis=-1))
    assert verdict("while the rate is high", late) == Verdict.REFUTED


def test_the_paper_has_the_network_and_the_images_of_the_source():
    """And it passes through the program in its size, on other images."""
    config = experiment.PRESETS["paper"]
    assert (config.architecture, config.width, config.images) == ("wide_resnet", 10, "cifar10")
    assert 1e9 < experiment.memory(config) < 1e12
    here = replace(config, images="digits")
    draw = task_data("wide_resnet", "images", 128)
    seen = jax.eval_shape(
        lambda key: experiment._train(here, draw, (jnp.array(1.5), jnp.array(True)), key),
        jax.random.key(0),
    )
    assert seen.loss.shape == (4 * 400 + 1,)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"period": 10}, "period must be a multiple of 4, at least 8, got 10"),
        ({"low": 2.0}, "low must be below high = 1.5, got 2.0"),
        ({"depth": 1}, "depth must be .* at least 2, got 1"),
        ({"data": "rank-2", "architecture": "cnn"}, "must be learned by mlp, got cnn"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
