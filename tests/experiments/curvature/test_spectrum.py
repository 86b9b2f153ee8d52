import numpy as np
import pytest

from theorylab.experiments.curvature import spectrum as experiment


def test_the_smoke_run_says_what_is_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("bound of every eigenvalue", {"margin": np.array([[0.1, -1e-9]])}),
        ("orthonormal to 1e-12", {"orthogonality": 1e-10}),
        ("Residuals alone", {"missed": np.zeros(5, int)}),
        ("covers it", {"covered": 0.9}),
        ("tenth of the variance", {"better_variance": 1.0, "plain_variance": 1.0}),
        ("hundredth of the range", {"distance": np.full(12, 0.02)}),
        ("Power iteration", {"power_residual": np.full(12, 1e-6)}),
        ("found twice", {"ghosts": np.ones(12)}),
    ],
)
def test_a_corrupted_result_is_not_supported(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change)) != "supported"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_operators": 4}, r"num_operators must be at least 5, .* got 4, 30 and 20"),
        ({"num_probes": 1}, "num_probes and density_probes at least 2, got 1000, 1 and 20"),
        ({"size": 31}, "size must be even, got 5, 14 and 31"),
    ],
)
def test_a_bad_config_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
