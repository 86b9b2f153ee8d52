"""The experiment on sampled kernels: verdicts, claims that can fail, bad configs."""

import dataclasses

import jax
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.infinite import monte_carlo as experiment

TINY = experiment.Config(
    widths=(2, 3), num_draws=512, num_points=2, depth=2, num_train=9, num_test=9, num_seeds=2
)


def test_smoke_run_has_the_expected_verdicts(smoke, surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """An error that stays, a floor that stays, a bias with one layer, kernels that are alike."""
    flat = smoke._replace(error=np.repeat(smoke.error[:, :1], 6, axis=1))
    assert verdict("falls as M^(−1/2)", flat) == Verdict.REFUTED
    stays = smoke._replace(bias_square=np.repeat(smoke.bias_square[:, :1], 2, axis=1))
    assert verdict("falls as 1/n", stays) == Verdict.REFUTED
    biased = smoke._replace(one_hidden_bias_square=smoke.bias_square[:, 0])
    assert verdict("there is no bias", biased) == Verdict.REFUTED
    same = smoke._replace(accuracy=np.repeat(smoke.exact_accuracy[:, None], 3, axis=1))
    assert verdict("less accurate", same) != Verdict.SUPPORTED
    assert verdict("the smaller is that gap", same) != Verdict.SUPPORTED
    hidden = smoke._replace(bias_square=-smoke.bias_square)
    assert verdict("falls as 1/n", hidden) == Verdict.INCONCLUSIVE
    assert verdict("more than twice the floor", hidden) == Verdict.INCONCLUSIVE


def test_biases_and_errors_are_those_of_made_up_draws():
    """Oracle: normal draws of a known mean and variance."""
    noise = np.asarray(jax.random.normal(jax.random.key(0), (3, 4096, 2, 2)))
    biases = experiment._bias_square(0.3 + noise)
    np.testing.assert_allclose(biases, 4 * 0.09, atol=0.05)
    np.testing.assert_allclose(experiment._bias_square(noise), 0.0, atol=0.005)
    expected = np.sqrt(4 / 2.0 ** np.arange(6))
    np.testing.assert_allclose(experiment._errors(noise), np.tile(expected, (3, 1)), rtol=0.1)


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3
    assert experiment.memory(TINY) < experiment.memory(experiment.Config())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("widths", (8,), "widths must be whole numbers, two or more and increasing"),
        ("digit_draws", (4, 1), "digit_draws must be whole numbers, two or more and increasing"),
        ("num_draws", 600, "num_draws must be a power of 2, got 600"),
        ("num_test", 1790, "there are 1797 digits"),
        ("ridge", 0.0, "ridge must be a finite number, positive, got 0.0"),
        ("num_points", 0, "num_points must be a whole number, at least 1, got 0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
