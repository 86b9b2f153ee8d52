"""Students of one teacher: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import input_structure as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_every_seed_takes_the_size_with_the_least_test_loss(smoke):
    sizes = np.array(experiment.PRESETS["smoke"].sizes)
    np.testing.assert_array_equal(smoke.size, sizes[smoke.curve.argmin(axis=1)])


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("With 50 neurons", "gaps", 0.0),
        ("With 9 neurons", "gaps", 0.3),
        ("gap is larger", "gaps", 0.3),
        ("as large as the best teacher", "other", 1.0),
        ("lie between", "known", 0.0),
        ("better and faster than", "known", 0.0),
        ("as well as alone", "alone", 1.0),
        ("less right", "alone", 0.0),
        ("fewer classes on Gaussians", "plain_entropy", 1.0),
        ("90 %", "entropy", 0.8),
        ("still knows the images", "accuracy", 0.5),
        ("same kind", "other", 0.5),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    if words == "lie between":  # no order, if all other inputs are alike
        broken = broken._replace(other=np.zeros_like(smoke.other))
    assert verdict(words, broken) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shrink": 100}, "shrink must leave pixels of the images, got 100"),
        ({"num_steps": 7}, "num_steps must be a multiple of 10"),
        ({"sizes": (9, 3)}, "sizes must be .* increasing"),
        ({"sizes": (0, 3)}, "sizes must be .* each at least 1"),
        ({"judged": (9, 10)}, "judged must be two of the sizes"),
        ({"sizes": (3, 10**9)}, "sizes must be at most 10⁴"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number, positive"),
        ({"num_train": 0}, "num_train must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)


def test_too_few_images_are_refused():
    with pytest.raises(ValueError, match="num_train and num_test must be at most 898 together"):
        experiment.run(experiment.Config(images="digits", shrink=1))
