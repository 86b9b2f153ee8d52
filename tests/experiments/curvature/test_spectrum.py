import numpy as np
import pytest

from theorylab.experiments.curvature import spectrum as experiment


def test_the_smoke_run_says_what_is_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("bound of every eigenvalue", {"margin": np.array([[0.1, -1e-9]])}),
        ("orthonormal to 1e-12", {"orthogonality": np.full((5, 60), 1e-10)}),
        ("Residuals alone", {"missed": np.zeros((5, 60), bool)}),
        ("never wider", {"excess": np.array([[0.0, 0.2]])}),
        ("repeated or clustered", {"bound": np.full((5, 60), 0.1)}),
        ("no gap separates", {"bound": np.full((5, 60), 0.2)}),
        ("hundredth of the range", {"distance": np.full(12, 0.02)}),
    ],
)
def test_a_corrupted_result_is_not_supported(smoke, verdict, words, change):
    if hasattr(smoke.certified, *change):
        change = {"certified": smoke.certified._replace(**change)}
    assert verdict(words, smoke._replace(**change)) != "supported"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_operators": 4}, "num_operators must be a whole number, at least 5, got 4"),
        ({"density_probes": 1}, "density_probes must be a whole number, at least 2, got 1"),
        ({"size": 31}, "size must be even, got 5, 24 and 31"),
    ],
)
def test_a_bad_config_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
