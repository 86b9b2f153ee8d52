import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics.quadratic import phases, plane
from theorylab.dynamics.quadratic.plane import PlaneProblem, PlaneState


def test_course_keeps_the_extremes_of_the_trajectory():
    """Oracle: the whole trajectory, in NumPy."""
    start, problem = PlaneState(0.2, 1.0), PlaneProblem(1.0, 2.6, 1e-4)
    output, curvature = (np.asarray(values) for values in plane.trajectory(start, problem, 20))
    losses = (output - 1) ** 2 / 2
    found = phases.course(start, problem, 20)
    np.testing.assert_allclose(found.last.output, output[-1], rtol=1e-14)
    np.testing.assert_allclose(found.last.curvature, curvature[-1], rtol=1e-14)
    np.testing.assert_allclose(found.first_loss, losses[0], rtol=1e-14)
    np.testing.assert_allclose(found.highest_loss, losses.max(), rtol=1e-14)
    np.testing.assert_allclose(found.drift, np.abs(curvature - 1.0).max(), rtol=1e-14)
    np.testing.assert_allclose(found.largest_rise, (losses[1:] / losses[:-1]).max(), rtol=1e-12)


def test_a_run_at_rest_does_not_rise():
    """Oracle: g = y stays, its loss is 0 at every step."""
    found = phases.course(PlaneState(1.0, 1.0), PlaneProblem(1.0, 0.5, 1e-4), 10)
    assert (found.highest_loss, found.drift, found.largest_rise) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("ratio", "phase"), [(0.5, 0), (1.8, 0), (2.2, 1), (3.8, 1), (4.2, 2)])
def test_phases_are_seen_where_they_are_predicted(ratio, phase):
    """Oracle: the map itself, run for 2000 steps at width 10⁶."""
    seen = phases.observed_phase(
        phases.course(PlaneState(0.7, 1.0), PlaneProblem(1.0, ratio, 1e-6), 2000)
    )
    assert int(seen) == phase == int(phases.predicted_phase(jnp.asarray(ratio)))


def test_courses_are_single_courses_in_their_places():
    """Oracle: `course` for each setting, of two arrays of different shapes."""
    grid = (jnp.array([[0.5, 2.5], [3.0, 1.0]]), jnp.array([[1e3, 1e3], [1e4, 1e5]]))
    line = (jnp.array([2.2]), jnp.array([1e6]))
    together = phases.courses(0.7, 1.0, [grid, line], 50)
    for (ratios, widths), found in zip((grid, line), together, strict=True):
        assert found.drift.shape == ratios.shape
        for place in np.ndindex(ratios.shape):
            problem = PlaneProblem(1.0, ratios[place], 1 / widths[place])
            alone = phases.course(PlaneState(0.7, 1.0), problem, 50)
            np.testing.assert_allclose(found.highest_loss[place], alone.highest_loss, rtol=1e-12)
            last = np.asarray(found.last.curvature)[place]
            np.testing.assert_allclose(last, alone.last.curvature, rtol=1e-12)


@pytest.mark.parametrize(("width", "expected"), [(100, 3.95), (1e4, 3.995)])
def test_the_map_diverges_at_four(width, expected):
    """Oracle: a scan of the map over ratios with step 0.005, made once in NumPy."""
    found = phases.largest_ratio(0.7, 1.0, width, 1000)
    assert abs(float(found) - expected) < 0.01


def test_band_is_the_one_worked_out_by_hand():
    """Oracle: 2 log m / √m at m = e² and at m = 10⁴, by hand."""
    expected = [4 / np.e, 2 * np.log(10) * 4 / 100]
    np.testing.assert_allclose(phases.band(jnp.array([np.e**2, 1e4])), expected)


@pytest.mark.parametrize("delta", [0.02, 0.05])
def test_small_catapults_peak_at_the_predicted_loss_and_end_mirrored(delta):
    """Oracle: the map at width 10⁸; the limit is approached linearly in δ."""
    problem = PlaneProblem(1.0, 2 + delta, 1e-8)
    past = phases.course(PlaneState(0.7, 1.0), problem, 4000)
    peak = plane.catapult_peak(problem, 2 + delta)
    assert 1 < float(past.highest_loss / peak) < 1 + delta
    assert abs(float(past.last.curvature) * (2 + delta) - (2 - delta)) < 0.1 * delta


def test_drawn_settings_stay_off_the_bands():
    """Oracle: 2 log m / √m in NumPy, and all three phases drawn."""
    ratios, widths = (np.asarray(values) for values in phases.draw_settings(jax.random.key(0), 999))
    assert widths.min() >= 1e3
    assert widths.max() <= 1e8
    distance = np.abs(ratios[:, None] - np.array([0, 2, 4, 6])[None, :]).min(axis=1)
    assert np.all(distance >= 2 * np.log(widths) / np.sqrt(widths) - 1e-12)
    assert np.bincount((ratios / 2).astype(int)).min() > 250


def test_diagram_spans_ratios_and_widths():
    ratios, widths = phases.diagram(5)
    np.testing.assert_allclose(ratios[0], [1, 2, 3, 4, 5])
    np.testing.assert_allclose(widths[:, 0], 10 ** np.array([2, 3.5, 5, 6.5, 8]))
    with pytest.raises(ValueError, match="resolution must be at least 2, got 1"):
        phases.diagram(1)
