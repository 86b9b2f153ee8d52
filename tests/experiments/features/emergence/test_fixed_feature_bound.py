"""What fixed features cannot do: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import fixed_feature_bound as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("mean squared length", "energy", 1.0),
        ("Averaged over parities", "mean", 1.0),
        ("printed bound holds", "loss", 0.0),
        ("There it is loose", "loss", 0.0),
        ("hundred times as strong", "loss", 1.0),
        ("sharper bound", "floor", 0.0),
        ("As kernels", "floor", 0.0),
        ("Short weights gain", "own", 0.5),
        ("from both sides", "floor", 0.0),
        ("knows the set", "loss", 0.1),
        ("regret inequality", "regret", -0.1),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


def test_the_bounds_are_of_the_sizes():
    """Oracle: 1 − √(2NB)/2ᵏ and 1 − B√(N/C(D, k)) by hand, N = 20, D = 8, k = 3."""
    printed, counted = experiment.bounds(experiment.PRESETS["smoke"])
    assert printed[0, -2:] == pytest.approx([1 - 20**0.5 / 8, 1 - 40**0.5 / 8])
    assert counted[1, -1] == pytest.approx((1 - (20 / 56) ** 0.5) / 2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimension": 17}, "dimension must be a whole number, from 4 to 16"),
        ({"num_bits": 4}, "num_bits must be a whole number, odd"),
        ({"num_bits": 1}, "num_bits must be from 3 to dimension"),
        ({"num_neurons": 3}, "num_neurons must be even"),
        ({"norms": (1.0, 0.5, 2.0)}, "norms must be .* increasing"),
        ({"norms": (0.5, 2.0)}, "norms must be three or more"),
        ({"norms": (0.0, 0.5, 2.0)}, "norms must be .* each positive"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, from 1 to"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
