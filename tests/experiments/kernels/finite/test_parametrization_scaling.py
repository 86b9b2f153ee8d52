"""The experiment on two parametrizations: verdicts, results that are not so, bad configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.finite import parametrization_scaling as experiment

TINY = experiment.Config(
    widths=(4, 8),
    standard_widths=(2, 4),
    num_samples=2,
    num_steps=2,
    num_seeds=2,
    num_standard=1,
    num_groups=2,
)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_limit_is_the_mean_over_weights(smoke):
    """Oracle: E[φφ′ + a²φ′φ′xx′] by Gauss–Hermite quadrature."""
    np.testing.assert_allclose(smoke.limit, smoke.expected_limit, rtol=1e-10)


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Kernels that stay away, or move at every width, or do not grow; a missing residual."""
    wrong = smoke._replace(
        start_error=smoke.wrong_error,
        start_projection=1.02 * smoke.start_projection,
        mean_movement=smoke.wrong_error,
        standard_start=smoke.driven_movement,
        standard_projection=1.2 * smoke.standard_projection,
        driven_movement=smoke.standard_movement,
        wrong_error=smoke.start_error,
        motion=smoke.motion._replace(corrected=-smoke.motion.corrected),
    )
    for words in (
        "goes to the mean over w and a",
        "falls as m^(−1/2)",
        "moves the mean kernel by O(1/m)",
        "diverges as the width",
        "it goes to E φφ′",
        "With residuals held",
        "of the a alone",
        "sums over residuals",
    ):
        assert verdict(words, wrong) == Verdict.REFUTED, words
    fast = smoke._replace(mean_movement=smoke.mean_movement**2)
    assert verdict("Not faster", fast) == Verdict.REFUTED
    lively = smoke._replace(
        standard_movement=smoke.driven_movement,
        motion=smoke.motion._replace(printed=smoke.motion.velocity),
    )
    assert verdict("has moved by O(1)", lively) == Verdict.SUPPORTED
    assert verdict("has moved by m^(−2)", lively) == Verdict.REFUTED
    assert verdict("without residuals", lively) == Verdict.SUPPORTED


def test_figure_has_two_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_standard", 0, "num_standard must be a whole number, at least 1, got 0"),
        ("widths", (8,), "widths must be whole numbers, two or more and increasing"),
        ("num_seeds", 3, "num_seeds must be a multiple of num_groups = 2, got 3"),
        ("num_steps", 1, "num_steps must be above 1.5 to be stable, got 1"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
