import numpy as np
import pytest

from theorylab.experiments.curvature import trace as experiment


def test_the_smoke_run_says_what_is_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("spectrum that decays", {"covered": np.full(5, 3600)}),
        ("more outliers", {"covered": np.full(5, 4000)}),
        ("one direction is left.", {"covered": np.full(5, 3600)}),
        ("more samples than", {"covered": np.full(5, 3600)}),
        ("Wigner", {"covered": np.full(5, 3600)}),
        ("Student's interval alone", {"student": np.full(5, 3800)}),
        ("always covers", {"margins": np.array([[1e-15, -1e-18]])}),
        ("no wider than rounding", {"margins": np.array([[1e-15, 1e-9]])}),
        ("allowance for rounding", {"held_student": np.full(2, 3900)}),
        ("tenth of the variance", {"better_variance": 1.0, "plain_variance": 1.0}),
    ],
)
def test_a_corrupted_result_is_not_supported(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change)) != "supported"


def test_a_bad_config_is_refused():
    with pytest.raises(ValueError, match="4 of at least 20, twice the rank, got 12"):
        experiment.Config(size=12)
