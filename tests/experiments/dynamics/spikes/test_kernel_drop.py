from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.spikes import kernel_drop as experiment
from theorylab.experiments.dynamics.spikes._tasks import task_data
from theorylab.training import ensemble


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def with_high(result, **fields):
    return result._replace(high=result.high.replace(**fields))


def twice(result):
    """All seeds twice: enough spikes to tell that all of them are so."""
    return result._replace(high=jax.tree.map(lambda leaf: np.concatenate([leaf] * 2), result.high))


def test_a_kernel_that_grows_at_spikes_is_told(smoke, verdict):
    inverse = with_high(smoke, kernel_norm=1 / smoke.high.kernel_norm)
    assert verdict("smaller three steps after", inverse) == Verdict.REFUTED
    assert verdict("changes less", inverse) == Verdict.REFUTED
    shrinking = with_high(smoke, kernel_norm=np.sort(smoke.high.kernel_norm)[:, ::-1])
    assert verdict("At other steps", shrinking) == Verdict.REFUTED
    assert verdict("At each spike", twice(shrinking)) == Verdict.SUPPORTED


def test_spikes_elsewhere_and_missing_ones_are_told(smoke, verdict):
    half = with_high(smoke, top=smoke.high.top / 2)
    assert verdict("four fifths of a spike", half) == Verdict.REFUTED
    all_there = with_high(smoke, top=np.stack([smoke.high.loss] * 2, axis=-1))
    assert verdict("They occur only there", twice(all_there)) == Verdict.SUPPORTED
    calm = with_high(smoke, loss=np.sort(smoke.high.loss)[..., ::-1])
    assert verdict("at least 30 spikes", calm) == Verdict.REFUTED


def test_the_same_is_told_in_pytorchs_parametrization(smoke, verdict):
    """Corrupted: a kernel that grows at spikes, and spikes elsewhere."""

    def with_torch(**fields):
        return smoke._replace(torch=smoke.torch.replace(**fields))

    inverse = with_torch(kernel_norm=1 / smoke.torch.kernel_norm)
    assert verdict("after most spikes", inverse) == Verdict.REFUTED
    assert verdict("falls by more", inverse) == Verdict.REFUTED
    assert verdict("most of a spike lies", with_torch(top=smoke.torch.top / 4)) == Verdict.REFUTED


def test_controls_can_fail(smoke, verdict):
    assert verdict("nothing spikes", smoke._replace(low=smoke.high)) == Verdict.REFUTED
    half = smoke.low.replace(
        kernel_norm=np.geomspace(1, 0.5, smoke.low.loss.shape[1])[None] + 0 * smoke.low.loss
    )
    assert verdict("loses nothing", smoke._replace(low=half)) == Verdict.REFUTED


def test_other_networks_are_a_choice():
    """Ten steps of a tiny one in PyTorch's parametrization: all that is seen is finite."""
    config = experiment.Config(
        architecture="vit",
        data="images",
        width=2,
        depth=2,
        num_samples=5,
        batch_size=2,
        num_steps=10,
        num_seeds=1,
        num_others=1,
    )
    draw, ratio = task_data("vit", "images", 5), jnp.array(config.torch_ratio)
    keys = jax.random.split(jax.random.key(0), 1)
    seen = ensemble(lambda key: experiment._train(config, draw, ratio, key, torch=True), keys)
    assert seen.loss.shape == (1, 10)
    assert np.isfinite(seen.kernel_norm).all()
    assert experiment.memory(config) > 0


def test_the_transformer_of_the_source_passes_through_the_program():
    """With the preset of the paper, on other images; tests of other experiments have the others."""
    paper = replace(experiment.PRESETS["paper"], architecture="vit", width=64, depth=4)
    assert paper.images == "cifar10"
    assert 1e7 < experiment.memory(paper) < 1e12
    config, draw = replace(paper, images="digits"), task_data("vit", "images", 128)
    seen = jax.eval_shape(
        lambda key: experiment._train(config, draw, jnp.array(1.3), key), jax.random.key(0)
    )
    assert seen.loss.shape == (2000,)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"depth": 1}, "depth must be .* at least 2, got 1"),
        ({"batch_size": 1000}, "batch_size must be at most num_samples = 64, got 1000"),
        ({"data": "rank-4", "architecture": "vit"}, "must be learned by mlp, got vit"),
        (
            {"data": "images", "num_samples": 1000},
            "must be at most 340 images, got 1000",
        ),
        ({"control_ratio": 2.0}, "control_ratio must be below ratio = 1.3, got 2.0"),
        ({"torch_ratio": 0.0}, "torch_ratio must be .* positive, got 0"),
        ({"num_others": 49}, "num_others must be at most num_seeds = 48, got 49"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
