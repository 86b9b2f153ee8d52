"""Sizes of teachers and students: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import teacher_size as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_the_teacher_has_the_size_of_the_first_minimum(smoke):
    """Oracle: the mean over seeds, smoothed with (1, 2, 1) by hand, falls before it and rises."""
    curve = smoke.images.mean(axis=0)
    middle = (curve[:-2] + 2 * curve[1:-1] + curve[2:]) / 4
    ends = (2 * curve[0] + curve[1]) / 3, (2 * curve[-1] + curve[-2]) / 3
    slopes = np.diff([ends[0], *middle, ends[1]])
    place = experiment.PRESETS["smoke"].sizes.index(smoke.teachers[0])
    assert (slopes[:place] <= 0).all()
    assert slopes[place] > 0


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("Teachers on images have", "images", 1.0),
        ("So have students", "students", 1.0),
        ("within a factor of 1.5", "minimum", 90.0),
        ("at least 1.5 times", "minimum", 1.0),
        ("many Gaussians the best student grows", "minimum", 5.0),
        ("images the best student grows", "minimum", 5.0),
        ("better than Gaussians", "mixture", 0.5),
        ("90 %", "entropy", 0.5),
        ("Teachers know the images", "accuracy", 0.1),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


def test_a_minimum_that_moves_at_equal_numbers_would_be_reported(smoke, verdict):
    moved = smoke.minimum.copy()
    moved[:, -1, 0] = 4 * moved[:, 0, 0]
    moving = smoke._replace(minimum=moved)
    assert verdict("less than triples", moving) == Verdict.REFUTED
    assert verdict("images the best student grows", moving) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sizes": (9, 3, 4)}, "sizes must be .* increasing"),
        ({"sizes": (3, 90)}, "sizes must be three or more"),
        ({"sizes": (0, 3, 90)}, "sizes must be .* each at least 1"),
        ({"teachers": (20, 500)}, "teachers must be at most 90"),
        ({"teachers": (50, 20)}, "teachers must be increasing"),
        ({"num_gaussians": (10, 20)}, "num_gaussians must reach num_images"),
        ({"num_gaussians": (1000,)}, "num_gaussians must be .* two or more"),
        ({"shares": (1.0,)}, "shares must be .* each between 0 and 1"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number, positive"),
        ({"num_steps": 0}, "num_steps must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)


def test_too_few_images_are_refused():
    with pytest.raises(ValueError, match="num_images and num_test must be at most 1797 together"):
        experiment.run(experiment.Config(images="digits", num_test=1000))
