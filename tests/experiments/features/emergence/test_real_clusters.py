"""Clusters of real images: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import real_clusters as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("form two clusters", "within", 0.3),
        ("form two clusters", "between", -0.3),
        ("two clusters are close", "within", 0.7),
        ("nearly opposite", "between", 0.0),
        ("emerge early", "moved", 0.4),
        ("tells the two apart", "accuracy", 0.9),
        ("At the start there", "within", 0.7),
        ("scrambled", "chance", 0.7),
        ("They are loose", "within", 0.7),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"classes": (1, 1)}, "classes must be whole numbers, two different"),
        ({"width": 1}, "width must be a whole number, at least 2"),
        ({"num_steps": 9}, "num_steps must be a whole number, at least 10"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number, positive"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)


def test_too_few_images_are_refused():
    with pytest.raises(ValueError, match="num_test and batch_size must be at most 360 together"):
        experiment.run(experiment.Config(images="digits", num_test=350))
