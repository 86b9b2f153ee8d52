"""The XOR of clusters: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import xor_mixture as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "factor"),
    [
        ("slower than d", "dimensions", 0),
        ("lemma's formula, within a factor of 2", "formula", 5),
        ("to a factor of 2", "probability", 3),
        ("beats random features", "random", 0),
        ("beats the tangents", "tangent", 0),
        ("within a point", "network", -100),
        ("asks for a width", "demanded", 0),
        ("A line is at chance", "linear", 0.1),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, factor):
    broken = smoke._replace(**{field: factor * getattr(smoke, field)})
    if field == "dimensions":  # a power law in d
        broken = smoke._replace(probability=smoke.probability / np.sqrt(smoke.dimensions)[None, :])
    if field == "network":
        broken = smoke._replace(wide=smoke.wide + 0.05)
    assert verdict(words, broken) != Verdict.SUPPORTED


def test_a_barrier_in_weak_noise_would_be_seen(smoke, verdict):
    assert verdict("a point worse", smoke._replace(wide=smoke.linear)) == Verdict.SUPPORTED


def test_a_law_that_steepens_does_not_flatten(smoke, verdict):
    power = np.broadcast_to(smoke.dimensions[None, :] ** -0.25, smoke.probability.shape)
    power = power * (smoke.dimensions[None, :] ** -0.01) ** np.log(smoke.dimensions)[None, :]
    assert verdict("It flattens", smoke._replace(probability=power)) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimensions": (64, 32, 128)}, "dimensions must be three or more, growing"),
        ({"dimension": 8}, "dimensions must be from 16 to 10"),
        ({"dimension": 66}, "dimension must be divisible by 4, got 66"),
        ({"num_steps": 0}, "num_steps must be from 1 to 10"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
