import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.data import hypercube_mixture
from theorylab.experiments.features.gradient import hypercube_mixture as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("fewest bits", "covered", 0.9),
        ("two thirds", "covered", 0.5),
        ("At the start", "covered", 0.5),
        ("another cube", "elsewhere", 0.5),
        ("More neurons", "pointing", 0.1),
        ("larger start", "large", 1.0),
        ("at least 95 %", "accuracy", 0.9),
        ("No network is better", "best", 0.9),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


def test_a_neuron_for_every_corner_would_be_believed(smoke, verdict):
    every = smoke._replace(covered=np.ones_like(smoke.covered))
    assert verdict("In every setting each corner", every) == Verdict.SUPPORTED


def test_smaller_settings_are_padded_by_what_changes_nothing():
    """Oracle: the law itself, whose moments the tiled and padded one must have."""
    config = experiment.Config(dimensions=(6, 10), bits=(2, 3), noises=(1.0, 1.0))
    setting = experiment._padded((6, 2, 1.0), config)
    law = hypercube_mixture(2, 6, 1.0)
    assert setting.law.means.shape == (8, 10)
    assert setting.used.tolist() == [1.0] * 6 + [0.0] * 4
    between = np.asarray(setting.law.means).T @ np.asarray(setting.law.means) / 8
    np.testing.assert_allclose(between[:6, :6], law.means.T @ law.means / 4, atol=1e-12)
    np.testing.assert_allclose(setting.law.probabilities.sum(), 1, atol=1e-6)
    np.testing.assert_allclose(setting.law.means @ setting.others.T, 0, atol=1e-12)
    np.testing.assert_allclose(setting.law.deviations, law.deviations[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bits": (4,)}, "dimensions, bits and noises must be as many"),
        ({"bits": (4, 4, 60)}, "each from 1 to 12"),
        ({"noises": (1.0, 0.0, 1.0)}, "noises must be finite numbers, one or more, each positive"),
        ({"dimensions": (100, 7, 100)}, "dimensions must be at least 2 bits"),
        ({"width": 0}, "width must be a whole number, at least 1"),
        ({"batch_size": 6000}, "batch_size must be at most num_samples = 5000"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number, positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
