import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.trained import size_and_noise as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("More label noise costs", lambda r: {"best_noisy": r.best_noisy[::-1]}),
        ("Sampled linear risks", lambda r: {"deviation": r.deviation + 9}),
        ("has the theorem's risk", lambda r: {"linear_noisy": 1.5 * r.linear_noisy}),
        ("costs trained linear attention", lambda r: {"linear_noisy": r.linear_noisy[::-1]}),
        ("Noise costs the large softmax", lambda r: {"noisy": r.noisy[::-1]}),
        ("With the most noise", lambda r: {"noisy": r.noisy[::-1]}),
        ("Flips cost linear", lambda r: {"linear_flipped": r.linear_flipped[::-1]}),
        ("Flips cost the large softmax", lambda r: {"flipped": r.flipped[::-1]}),
        ("that both ranks can read", lambda r: {"narrow_flipped": r.best_flipped}),
        ("With clean labels", lambda r: {"flipped": r.flipped[::-1]}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


def test_exact_costs_of_the_best_matrices_are_those_of_the_theorem(smoke):
    """Oracle: noise costs σ²/M Σ_{i≤r} (λ_iv_i)², and all flips 4 Σ_{i≤r} λ_i²v_i, by hand."""
    config = experiment.PRESETS["smoke"]
    spectrum, n = np.array([1.0, 0.5]), config.num_examples
    v = n / ((n + 1) * spectrum + spectrum.sum())
    noise = np.cumsum((spectrum * v) ** 2) * config.noises[-1] ** 2 / n
    np.testing.assert_allclose(smoke.best_noisy[:, -1] - smoke.best_noisy[:, 0], noise, rtol=1e-5)
    flips = 4 * np.cumsum(spectrum**2 * v)
    np.testing.assert_allclose(smoke.best_flipped[:, -1] - smoke.best_flipped[:, 0], flips, 1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimension": 1}, "dimension must be a whole number, from 2 to 64, got 1"),
        ({"rank": 4}, "rank must be below the dimension, got 4"),
        ({"ratio": 1.0}, "ratio must be a finite number, above 1"),
        ({"noises": (1.0, 2.0)}, "noises must begin with 0"),
        ({"num_test": 3}, "num_test must be a whole number, at least 100"),
        ({"num_heads": 3}, "num_heads must divide the width 32, got 3"),
        ({"linear_steps": 0}, "linear_steps must be a whole number, at least 1, got 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
