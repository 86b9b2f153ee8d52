"""The experiment on the kernel's velocity: verdicts, results that are not so, bad configs."""

import dataclasses

import jax
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.finite import velocity as experiment
from theorylab.models import Standard, mlp, network

TINY = experiment.Config(
    width=3,
    depth=2,
    num_samples=8,
    batch_size=2,
    num_steps=6,
    interval=1,
    spawns=(0, 1, 3),
    num_copies=2,
    num_points=2,
    num_segment=3,
    num_seeds=1,
)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """A kernel that turns on, barriers that grow or stay, copies that part for ever."""
    backwards = smoke._replace(
        velocity=smoke.velocity[:, ::-1],
        barrier=smoke.barrier[:, ::-1],
        kernel_distance=smoke.kernel_distance[:, ::-1],
        pattern_distance=smoke.pattern_distance[:, ::-1],
        function_distance=smoke.function_distance[:, ::-1],
        error=1 - smoke.error,
        same_barrier=smoke.same_barrier + 0.01,
    )
    for words in (
        "The kernel turns at least",
        "Copies that part at the start",
        "Velocity and barrier",
        "for single networks",
        "the nearer are their kernels",
        "the fewer neurons",
        "the fewer images",
        "have learned",
        "with the same batches",
    ):
        assert verdict(words, backwards) != Verdict.SUPPORTED, words


def test_active_neurons_are_those_of_the_network():
    """Oracle: zeroing what is not active by hand gives the outputs of the network."""
    model = network(mlp([5, 4], num_outputs=2), (3,), Standard())
    params = model.init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (6, 3))
    active = np.asarray(experiment._active(params, x)).astype(float)
    first, second, last = (np.asarray(layer["weight"]) for layer in params if layer)
    hidden = (np.asarray(x) @ first) * active[:, :5]
    outputs = (hidden @ second * active[:, 5:]) @ last
    np.testing.assert_allclose(model.apply(params, x), outputs, rtol=1e-6)


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("width", 0, "width must be a whole number, at least 1, got 0"),
        ("num_samples", 1800, "num_samples must be a whole number, from 1 to 1700, got 1800"),
        ("num_segment", 2, "num_segment must be a whole number, at least 3, got 2"),
        ("interval", 4, "must be multiples of interval = 4, got 6"),
        ("spawns", (1, 2, 3), r"spawns must begin with 0, got \(1, 2, 3\)"),
        ("spawns", (0, 1), r"spawns must be three or more, the last in \[2, 4\], got \(0, 1\)"),
        ("learning_rate", 0.0, "learning_rate must be a finite number, positive, got 0.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
