from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.spikes import many_catapults as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_a_kernel_that_grows_is_told(smoke, verdict):
    grown = smoke._replace(kernel_norm=1 / smoke.kernel_norm)
    assert verdict("smaller after each catapult", grown) == Verdict.REFUTED
    assert verdict("More catapults reach", grown) == Verdict.REFUTED
    still = smoke._replace(kernel_norm=smoke.kernel_norm[::-1])
    assert verdict("Without a raise", still) == Verdict.REFUTED


def test_a_rate_that_could_be_had_at_once_is_told(smoke, verdict):
    rate = smoke.learning_rate[-1, :, -1]
    assert verdict("much larger rate", smoke._replace(largest_constant=rate)) == Verdict.REFUTED
    climbing = smoke._replace(loss=smoke.loss[..., ::-1])
    assert verdict("much larger rate", climbing) == Verdict.REFUTED
    converged = smoke._replace(restarted_loss=np.zeros_like(smoke.restarted_loss))
    assert verdict("diverges, for most seeds", converged) == Verdict.REFUTED


def test_raises_that_are_missing_or_do_not_spike_are_told(smoke, verdict):
    missing = smoke._replace(num_raises=np.minimum(smoke.num_raises, 1))
    assert verdict("Every number of raises", missing) == Verdict.REFUTED
    falling = smoke._replace(loss=np.sort(smoke.loss)[..., ::-1])
    assert verdict("triggers another catapult", falling) == Verdict.REFUTED
    loss = np.minimum(smoke.loss, smoke.loss[:, :, 40:41])  # the first raise comes after 40 steps
    assert verdict("triggers another catapult", smoke._replace(loss=loss)) != Verdict.SUPPORTED
    assert verdict("10 top directions", smoke._replace(top=smoke.top / 2)) == Verdict.REFUTED


@pytest.mark.parametrize(("kind", "width"), [("mlp", 1024), ("cnn", 512)])
def test_networks_of_the_paper_pass_through_the_program(kind, width):
    """In their sizes, on other images."""
    paper = replace(experiment.PRESETS["paper"], architecture=kind, width=width)
    assert paper.images == "cifar10"
    assert 1e8 < experiment.memory(paper) < 1e12
    here = replace(paper, images="digits")
    draw = experiment._drawing(here)
    found = jax.eval_shape(
        lambda key: experiment._raise(here, draw, jnp.array(2), key), jax.random.key(0)
    )
    assert found["loss"].shape == (701,)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"raises": (1, 2)}, r"raises must increase from 0, got \(1, 2\)"),
        ({"num_steps": 50}, "must leave 40 steps for every raise, got 50"),
        ({"architecture": "cnn"}, "must be learned by mlp, got cnn"),
        ({"raises": (0,)}, "raises must be .* two or more and increasing"),
        ({"num_samples": 5}, "num_samples must be at least 10, got 5"),
        ({"depth": 10**6}, "a depth from 2 to 100"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
