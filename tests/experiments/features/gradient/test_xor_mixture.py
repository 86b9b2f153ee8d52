"""The XOR of clusters: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import xor_mixture as experiment

DIMENSIONS = np.array(experiment.PRESETS["smoke"].dimensions)


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "factor"),
    [
        ("lemma's formula, within a factor of 2", "formula", 5),
        ("for d = 64, 256", "probability", 3),
        ("beats random features", "random", 0),
        ("beats the tangent features", "tangent", 0),
        ("A linear classifier is at chance", "linear", 0.1),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, factor):
    broken = smoke._replace(**{field: factor * getattr(smoke, field)})
    assert verdict(words, broken) != Verdict.SUPPORTED


def test_a_power_of_d_is_not_slower_than_one(smoke, verdict):
    power = smoke._replace(probability=smoke.probability / np.sqrt(DIMENSIONS)[None, :])
    assert verdict("slower than d", power) != Verdict.SUPPORTED


def test_wide_features_that_err_five_points_more_are_not_within_a_point(smoke, verdict):
    worse = smoke._replace(wide=smoke.wide + 0.05)
    assert verdict("within a point", worse) != Verdict.SUPPORTED


def test_a_barrier_in_weak_noise_would_be_seen(smoke, verdict):
    assert (
        verdict("fixed features are at chance", smoke._replace(wide=smoke.linear))
        == Verdict.SUPPORTED
    )


def test_narrow_networks_that_do_not_learn_are_seen(smoke, verdict):
    chance = smoke._replace(narrow=np.full_like(smoke.narrow, 0.5))
    assert verdict("8 log d neurons", chance) == Verdict.REFUTED


def test_the_lemma_would_be_believed_if_lengths_did_not_matter(smoke, verdict):
    longer = smoke._replace(probability=smoke.direction)
    assert verdict("with ‖G‖ ≥ √d/5", longer) == Verdict.SUPPORTED


def test_a_law_that_steepens_does_not_flatten(smoke, verdict):
    power = np.broadcast_to(DIMENSIONS[None, :] ** -0.25, smoke.probability.shape)
    power = power * (DIMENSIONS[None, :] ** -0.01) ** np.log(DIMENSIONS)[None, :]
    assert verdict("It flattens", smoke._replace(probability=power)) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimensions": (64, 32, 128)}, "two or more and increasing"),
        ({"dimensions": (64, 128)}, "dimensions must be three or more"),
        ({"dimension": 8}, "dimension must be a whole number, from 16 to 10"),
        ({"dimension": 66}, "dimension must be divisible by 4, got 66"),
        ({"num_steps": 0}, "num_steps must be a whole number, at least 1, got 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
