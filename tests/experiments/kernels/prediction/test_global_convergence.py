"""The experiment on global convergence: verdicts, claims that can fail, the critical width."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.prediction import global_convergence as experiment

TINY = experiment.Config(widths=(2, 4), samples=(2, 3), dimension=3, num_steps=20, num_seeds=2)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Slow runs that count as wide, rows that move too far, theorems that are tight."""
    near, far = smoke.near, smoke.far

    def changed(**fields):
        return smoke._replace(near=near._replace(**fields))

    all_wide = changed(smallest_ratio=np.ones_like(near.smallest_ratio))
    assert verdict("the loss is never above", all_wide) == Verdict.REFUTED
    assert verdict("three times the exponent", changed(decay=4 * near.decay)) == Verdict.REFUTED
    assert verdict("The mean of H(0)", changed(start_projection=1.1 * near.start_projection)) == (
        Verdict.REFUTED
    )
    moving = changed(row_bound=0.1 * near.row_bound)
    assert verdict("times that bound", moving) == Verdict.REFUTED
    assert verdict("3 to 300 times", moving._replace(near=near._replace(row_bound=near.decay))) == (
        Verdict.REFUTED
    )
    long = smoke._replace(far=far._replace(row_bound=far.row_bound / 50))
    assert verdict("times that bound", long) == Verdict.REFUTED
    short = smoke._replace(far=far._replace(row_bound=50 * far.row_bound))
    assert verdict("For ‖x‖ ≥ 1", short) == Verdict.SUPPORTED
    steep = smoke._replace(critical_width=smoke.second_theorem)
    assert verdict("far from tight", steep) == Verdict.REFUTED
    assert verdict("ten thousand times", steep) == Verdict.REFUTED
    idle = changed(row_movement=np.ones_like(near.row_movement))
    assert verdict("The row that moves most", idle) == Verdict.REFUTED
    fitted = changed(decay=np.abs(near.decay) + 1)
    assert verdict("narrowest networks", fitted) == Verdict.REFUTED


def test_critical_width_is_where_the_ratio_crosses_a_half():
    """By hand: a crossing in the middle of a logarithmic step, at once, never."""
    widths = np.array([4, 8, 16])
    crossing = np.array([0.2, 0.5 / 2**0.5, 0.5 * 2**0.5])
    ratios = np.array([[crossing, [0.6, 0.9, 1.0], [0.2, 0.3, 0.4]]])
    found = experiment._critical_widths(widths, ratios)
    np.testing.assert_allclose(found, [[8 * 2**0.5, 4.0, np.nan]])


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_seeds", 0, "num_seeds must be a whole number, at least 1, got 0"),
        ("widths", (4, 2), "widths must be whole numbers, two or more and increasing"),
        ("samples", (4,), "samples must be whole numbers, two or more and increasing"),
        ("num_steps", 30, "num_steps must be a multiple of 20, got 30"),
        ("learning_rate", 0.5, "learning_rate must be below 0.5, got 0.5"),
        ("radius", 1.0, "radius must be a finite number, above 1, got 1.0"),
        ("delta", 1.0, "delta must be a finite number, between 0 and 1, got 1.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
