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
    assert verdict("four of five rises of the rate spike", calm) == Verdict.REFUTED
    constant = smoke._replace(constant=smoke.moving)
    assert verdict("At a constant low rate", constant) == Verdict.REFUTED


def spiking(smoke, name, step):
    """A single spike in every cycle."""
    watched = getattr(smoke, name)
    loss = np.ones_like(watched.loss)
    loss[:, step + 1 : -1 : PERIOD] = 2.0
    return smoke._replace(**{name: watched.replace(loss=loss)})


def test_a_rise_and_a_fall_are_told_apart(smoke, verdict):
    """Spikes in the rise of every cycle, or in the first half of its fall."""
    for name, words in (
        ("moving", "four of five rises of the rate spike"),
        ("fixed", "between fixed bounds"),
    ):
        seen = [spiking(smoke, name, PERIOD // 2 - before) for before in (1, 0)]
        assert verdict(words, seen[1]) == Verdict.REFUTED
        assert verdict(words, seen[0]) != Verdict.REFUTED
    rising, falling = (spiking(smoke, "moving", PERIOD // 2 - before) for before in (1, 0))
    assert verdict("early in its fall", rising) == Verdict.REFUTED
    assert verdict("early in its fall", falling) == Verdict.SUPPORTED


def test_kernels_that_grow_and_spikes_elsewhere_are_told(smoke, verdict):
    def changed(name, **fields):
        return smoke._replace(**{name: getattr(smoke, name).replace(**fields)})

    grown = changed("moving", kernel_norm=1 / smoke.moving.kernel_norm)
    assert verdict("after the high rates than before", grown) == Verdict.REFUTED
    elsewhere = changed("fixed", top=smoke.fixed.top / 3)
    assert verdict("top direction", elsewhere) == Verdict.REFUTED
    late = changed("moving", loss=np.roll(smoke.moving.loss, PERIOD // 2, axis=-1))
    assert verdict("while the rate is high", late) == Verdict.REFUTED


def test_a_kernel_that_falls_at_each_spike_would_be_supported(smoke, verdict):
    """Ten times as many seeds, whose kernels fall at every step."""

    def falling(watched):
        many = jax.tree.map(lambda leaf: np.concatenate([leaf] * 10), watched)
        return many.replace(kernel_norm=0 * many.loss - np.arange(many.loss.shape[1]) + 1e6)

    fallen = smoke._replace(fixed=falling(smoke.fixed), moving=falling(smoke.moving))
    assert verdict("according to each spike", fallen) == Verdict.SUPPORTED


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
