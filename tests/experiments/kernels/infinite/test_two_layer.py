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
    start, training = smoke.start, smoke.training
    stays = smoke._replace(
        start=start._replace(
            error=start.printed_error,
            projection=1.02 * start.projection,
            largest_entry=1.01 * smoke.entry_bound[None, None] + 0 * start.error,
        )
    )
    for words in ("with xᵀx′", "H(0) converges to H*", "within ε/n of H*"):
        assert verdict(words, stays) == Verdict.REFUTED, words
    near = smoke._replace(start=start._replace(largest_entry=0.1 * start.largest_entry))
    assert verdict("Bounds ten times smaller", near) == Verdict.REFUTED
    rich = training.rich_movement
    moves = training._replace(
        row_movement=rich,
        kernel_movement=rich,
        prediction_gap=rich,
        rich_movement=training.row_movement,
        total_movement=1.02 * training.total_movement,
    )
    wrong = smoke._replace(training=moves)
    for words in (
        "The row that moves most",
        "the kernel moves by O",
        "labels that grow",
        "All rows together",
        "On new points",
    ):
        assert verdict(words, wrong) == Verdict.REFUTED, words
    tight = smoke._replace(smooth_ratio=0.9 / smoke.smooth_ratio)
    assert verdict("With a smooth activation", tight) == Verdict.REFUTED
    loose = smoke._replace(training=training._replace(row_ratio=5 * training.row_ratio))
    assert verdict("Bounds ten times smaller", loose) == Verdict.REFUTED
    broken = smoke._replace(training=training._replace(row_ratio=0.9 + 0 * training.row_ratio))
    assert verdict("The row that moves most", broken) == Verdict.INCONCLUSIVE


def test_loss_of_the_widest_network_is_the_kernel_s(smoke):
    """Oracle: the closed form of gradient descent with the frozen kernel; an error of m^(−1/2)."""
    median = np.median(smoke.training.loss[:, -1], axis=0)
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
