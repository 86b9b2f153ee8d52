"""Filters of a residual network: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import resnet_filters as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("filters of all groups", "within", 0.1),
        ("as close as printed", "within", 0.3),
        ("In the last two groups", "chance", 0.99),
        ("In the last group centres", "between", -0.3),
        ("keep their direction", "pairs", 0.2),
        ("ten deviations", "pairs", 0.4),
        ("is early", "late", 1e6),
        ("tells the two apart", "accuracy", 0.8),
        ("Before training", "within", 0.9),
        ("training adds", "added", 0.0),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"classes": (1, 1)}, "classes must be whole numbers, two different"),
        ({"width": 1}, "width must be a whole number, at least 2, got 1"),
        ({"shrink": 100}, "shrink must leave pixels of the images, got 100"),
        ({"blocks": 101}, "blocks must be a whole number, from 1 to 100, got 101"),
        ({"batch_size": 401}, "batch_size must be at most num_train, got 401"),
        ({"num_epochs": 3}, "num_epochs must be a whole number, at least 4, got 3"),
        ({"num_epochs": 4, "batch_size": 400}, "steps must be 30 or more in all epochs, got 4"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number, positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)


def test_too_few_images_are_refused():
    with pytest.raises(ValueError, match="num_train and num_test must be at most 360 together"):
        experiment.run(experiment.Config(images="digits"))
