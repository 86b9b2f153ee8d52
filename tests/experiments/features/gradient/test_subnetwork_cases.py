"""Good subnetworks of a half-space and of a parity: verdicts, and corrupted measurements."""

import dataclasses
from functools import partial

import jax
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import subnetwork_cases as experiment
from theorylab.features.gradient import risk


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_the_targets_have_no_loss_and_their_constants_bound_them():
    """Oracle: both g* have margin 1 everywhere, by construction."""
    config = experiment.PRESETS["smoke"]
    for make in (experiment.half_space, experiment.parity):
        law, task, _ = make(jax.random.key(0), config)
        assert float(risk(task.target, law)) < 1e-4
        assert float(np.abs(task.target.biases).max()) <= task.constants.bias_bound + 1e-6


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("half-space the subnetwork's loss is below", "bound", -1),
        ("parity the subnetwork's loss is below", "bound", -1),
        ("there are some neurons", "fewest", 0),
        ("half-space their number grows", "counts", 7),
        ("parity their number grows", "counts", 7),
        ("5 to 1000 times", "distance", 100),
        ("20 to 1000 times", "distance", 100),
        ("within ε_a + √(2γ)", "farthest", 1.1),
        ("within half of that", "farthest", 0.2),
        ("below 0.2", "loss", 1),
        ("no good network at these widths", "loss", 0),
        ("on other neurons make no good", "shuffled", 0),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"block_size": 4},
            "odd and at least 1, from 3 to 15, got 4",
        ),
        (
            {"block_size": 17},
            "odd and at least 1, from 3 to 15, got 17",
        ),
        ({"dimension": 5}, "dimension must exceed block_size, got 5"),
        ({"widths": (100, 10)}, "two or more and increasing"),
        ({"opening": 0.5}, "opening must be a finite number, between 0 and 1, from 0 to 0.29"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)


@pytest.mark.parametrize("make", [experiment.half_space, experiment.parity])
def test_blocks_of_neurons_measure_what_all_at_once_do(make, monkeypatch):
    """Oracle: the same start with the gradients of all neurons kept; a block is not full."""
    config = experiment.Config(dimension=24, num_samples=200, widths=(500, 12500))
    law, task, bias = make(jax.random.key(1), config)
    task = task._replace(constants=dataclasses.replace(task.constants, probability=0.02))
    measured = partial(experiment._measured, law=law, task=task, bias=bias, width=12500)
    kept = jax.jit(measured)(jax.random.key(2))
    monkeypatch.setattr(experiment, "NARROW", 0)
    in_blocks = jax.jit(lambda key: measured(key))(jax.random.key(2))
    assert kept["counts"] > 0
    for name, value in kept.items():
        np.testing.assert_allclose(in_blocks[name], value, rtol=2e-5, err_msg=name)
