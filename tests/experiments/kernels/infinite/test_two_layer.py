"""The experiment on the width of two-layer networks: verdicts, controls that can fail, configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.infinite import two_layer as experiment

TINY = experiment.Config(
    widths=(4, 8), num_samples=3, dimension=3, num_test=2, num_steps=10, num_seeds=2, num_draws=2
)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Each claim on numbers of its rival: a kernel that stays away, rows that keep moving."""
    stays = smoke._replace(start_error=smoke.printed_error)
    assert verdict("with xᵀx′", stays) == Verdict.REFUTED
    moves = smoke._replace(row_movement=smoke.rich_movement, kernel_movement=smoke.rich_movement)
    assert verdict("The row that moves most", moves) == Verdict.REFUTED
    assert verdict("the kernel moves as m", moves) == Verdict.REFUTED
    lazy = smoke._replace(rich_movement=smoke.row_movement)
    assert verdict("labels that grow", lazy) == Verdict.REFUTED
    assert (
        verdict("All rows together", smoke._replace(movement_limit=1.02 * smoke.movement_limit))
        == Verdict.REFUTED
    )
    apart = smoke._replace(prediction_gap=smoke.rich_movement)
    assert verdict("On new points", apart) == Verdict.REFUTED
    large = smoke._replace(largest_entry=smoke.entry_bound[None, :] * 1.01 + 0 * smoke.start_error)
    assert verdict("No entry of H(0)", large) == Verdict.REFUTED
    assert verdict("within ε/n of H*", large) == Verdict.REFUTED


def test_loss_of_the_widest_network_is_the_kernel_s(smoke):
    """Oracle: the closed form of gradient descent with the frozen kernel; an error of m^(−1/2)."""
    median = np.median(smoke.loss[:, -1], axis=0)
    np.testing.assert_allclose(median[:3], smoke.kernel_loss[:3], rtol=0.2)


def test_figure_has_four_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 4


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_samples", 0, "num_samples must be a whole number, at least 1, got 0"),
        ("widths", (8,), "widths must be whole numbers, two or more and increasing"),
        ("widths", (8, 4), "widths must be whole numbers, two or more and increasing"),
        ("num_steps", 15, "num_steps must be a multiple of 10, got 15"),
        ("learning_rate", 1.0, "learning_rate must be a finite number, between 0 and 1, got 1.0"),
        ("delta", 0.0, "delta must be a finite number, between 0 and 1, got 0.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
