"""The experiment on the hierarchy's scaling: verdicts, results that are not so, bad configs."""

import dataclasses

import jax
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.finite import hierarchy as experiment
from theorylab.kernels import ntk
from theorylab.models import Standard, mlp, network
from theorylab.models.nested import nested

TINY = experiment.Config(widths=(4, 8), num_seeds=4, num_groups=2)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Orders that do not fall, or fall too fast; a control in which they fall."""
    flat = smoke._replace(third=smoke.standard_third, means=smoke.means[[0, 1, 2, 3, 3, 1, 0, 0]])
    for words in ("is O(1/m)", "So is the mean of what moves that", "of even size", "of odd size"):
        assert verdict(words, flat) == Verdict.REFUTED, words
    steep = smoke._replace(means=smoke.means[[3, 3, 3, 4, 4, 4, 4, 4]])
    for words in ("bounds are attained", "smaller by ½"):
        assert verdict(words, steep) == Verdict.REFUTED, words
    growing = smoke._replace(means=1 / smoke.means[[5, 5, 5, 5, 5, 5, 5, 5]])
    assert verdict("tangent kernel is O(1)", growing) == Verdict.REFUTED
    control = smoke._replace(standard_third=smoke.third)
    assert verdict("In the standard parametrization", control) == Verdict.REFUTED


def test_the_control_is_the_standard_parametrization():
    """Oracle: the kernel of a network in that parametrization, at the same function."""
    x = jax.random.normal(jax.random.key(0), (2, 8))
    config = dataclasses.replace(TINY, widths=(4, 8), num_seeds=2)
    keys = jax.random.split(jax.random.key(1), (4, 2))
    _, standard = experiment._orders(x, jax.random.key(1), config)
    networks = nested(8, 8, "erf")
    inner, outer = networks.init(keys[2, 1])
    model = network(mlp([8], activation="erf"), (8,), Standard())
    params = ({"weight": inner / np.sqrt(8)}, (), {"weight": outer / np.sqrt(8)})
    kernel = ntk(model.apply, params, x, learning_rates=({"weight": 1 / 8}, (), {"weight": 1.0}))
    np.testing.assert_allclose(standard[1][0, 1], kernel, rtol=1e-10)


def test_figure_has_two_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("dimension", 0, "dimension must be a whole number, at least 1, got 0"),
        ("widths", (8, 8), "widths must be whole numbers, two or more and increasing"),
        ("num_samples", 9, "num_samples must be a whole number, from 1 to 8, got 9"),
        ("num_seeds", 3, "num_seeds must be a multiple of num_groups = 2, got 3"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
