"""The one style of all figures."""

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from theorylab.experiments.drawing import (
    COLOURS,
    THEORY,
    agreement,
    beside_theory,
    curves,
    directions,
    image,
    label_axes,
    medians,
    paired_bars,
    panels,
    phase_diagram,
    scaling,
    tidy_ticks,
)


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_every_title_has_its_panel(count, rows):
    """Oracle: the figure's own list of axes and the rows of its grid."""
    titles = [f"panel {index}" for index in range(count)]
    figure, axes = panels(*titles)
    assert [axis.get_title() for axis in axes] == titles
    assert figure.axes == axes
    place = axes[0].get_subplotspec()
    assert place is not None
    assert place.get_gridspec().nrows == rows


def test_a_figure_needs_a_panel():
    with pytest.raises(ValueError, match="at least one title"):
        panels()


def test_medians_are_over_seeds_and_have_their_names():
    """Oracle: the middle one of three rows."""
    _, (axis,) = panels("loss")
    medians(axis, np.arange(2), {"a": np.array([[5.0, 1.0], [3.0, 2.0], [4.0, 9.0]])})
    (line,) = axis.lines
    np.testing.assert_array_equal(line.get_ydata(), [4.0, 2.0])
    assert axis.get_legend_handles_labels()[1] == ["a"]


def test_every_measured_curve_has_its_prediction():
    """Oracle: the columns themselves, in the order measured, predicted, measured, ..."""
    _, (axis,) = panels("loss")
    measured, predicted = np.arange(6.0).reshape(3, 2), np.arange(6.0, 12.0).reshape(3, 2)
    beside_theory(axis, [0, 1, 2], measured, predicted, ["first", "second"])
    expected = [measured[:, 0], predicted[:, 0], measured[:, 1], predicted[:, 1]]
    np.testing.assert_array_equal([line.get_ydata() for line in axis.lines], expected)
    assert axis.get_legend_handles_labels()[1] == ["first", "second"]


def test_agreement_has_a_diagonal_over_all_predictions():
    """Oracle: the least and the largest prediction, by hand."""
    _, (axis,) = panels("outputs")
    pairs = {"a": (np.array([1.0, 3.0]), np.array([1.1, 2.9])), "b": (np.eye(2), np.eye(2))}
    agreement(axis, pairs)
    *dots, diagonal = axis.lines
    assert [len(np.asarray(line.get_xdata())) for line in dots] == [2, 4]
    for ends in (diagonal.get_xdata(), diagonal.get_ydata()):
        np.testing.assert_array_equal(np.asarray(ends), [0.0, 3.0])


def test_curves_are_medians_in_bands_and_leave_out_what_is_not_finite():
    """Oracle: quantiles of ten numbers, by hand."""
    _, (axis,) = panels("loss")
    values = np.stack([np.arange(11.0), np.where(np.arange(11) < 5, np.nan, 3.0)], axis=1)
    curves(axis, [0, 1], {"a": values})
    (line,), (band,) = axis.lines, axis.collections
    np.testing.assert_allclose(np.asarray(line.get_ydata()), [5.0, 3.0])
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    np.testing.assert_allclose([heights.min(), heights.max()], [1.0, 9.0])


def test_scaling_names_the_fitted_exponent_and_draws_theory():
    """Oracle: an exact power law."""
    _, (axis,) = panels("error")
    sizes = np.array([10.0, 100.0, 1000.0])
    scaling(axis, sizes, {"error": np.stack([sizes**-0.5] * 3)}, exponent=-0.5)
    assert axis.get_legend_handles_labels()[1] == ["error: -0.50", "theory: -0.5"]
    (dashed,) = [line for line in axis.lines if line.get_linestyle() == THEORY["linestyle"]]
    np.testing.assert_allclose(np.asarray(dashed.get_ydata()), sizes**-0.5)
    assert axis.get_xscale() == axis.get_yscale() == "log"


def test_a_phase_diagram_leaves_what_is_not_finite_empty():
    _, (axis,) = panels("phase")
    values = np.array([[1.0, 2.0, np.inf], [np.nan, 3.0, 4.0]])
    phase_diagram(axis, [0, 1, 2], [0, 1], values, "loss")
    (mesh,) = axis.collections
    shown = mesh.get_array()
    assert shown is not None
    assert np.ma.getmaskarray(shown).sum() == 2


def test_paired_bars_are_as_high_as_the_median_difference():
    _, (axis,) = panels("gain")
    paired_bars(axis, {"a": np.array([1.0, 2.0, 9.0]), "b": np.array([-1.0, -2.0, -3.0])}, "points")
    bars = [patch for patch in axis.patches if isinstance(patch, Rectangle)]
    assert [bar.get_height() for bar in bars] == [2.0, -2.0]
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["a", "b"]


def test_images_show_a_matrix_and_axes_have_names():
    _, (picture, other) = panels("G", "loss")
    image(picture, np.eye(3))
    np.testing.assert_array_equal(picture.images[0].get_array(), np.eye(3))
    label_axes(other, "step", "loss", logarithmic="y")
    assert (other.get_xlabel(), other.get_ylabel()) == ("step", "loss")
    assert (other.get_xscale(), other.get_yscale()) == ("linear", "log")


def test_directions_are_dots_and_targets_stars():
    _, (axis,) = panels("neurons")
    vectors, targets = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0]])
    directions(axis, vectors, targets)
    dots, stars = axis.collections
    np.testing.assert_array_equal(np.asarray(dots.get_offsets()), vectors)
    np.testing.assert_array_equal(np.asarray(stars.get_offsets()), targets)


def labels(axis):
    """What can be read at an axis, large and small, inside of what it shows."""
    axis.axes.figure.draw_without_rendering()
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    shown = [tick for tick in ticks if low <= tick.get_loc() <= high]
    return [tick.label1.get_text() for tick in shown if tick.label1.get_text()]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([20.0, 60.0], ["20", "50"]),
        ([30.0, 90.0, 250.0], ["50", "100", "200"]),
        ([1.1, 1.4], ["1.1", "1.2", "1.3", "1.4"]),
    ],
)
def test_a_short_logarithmic_axis_has_a_few_plain_labels(places, expected):
    """Oracle: the labels by hand; matplotlib's own would stand in each other's way."""
    figure, (axis,) = panels("widths")
    axis.loglog(places, places, "o")
    tidy_ticks(figure)
    assert labels(axis.xaxis) == labels(axis.yaxis) == expected


def test_a_long_logarithmic_axis_is_labelled_at_powers_and_set_ticks_stay():
    figure, (long, own) = panels("powers", "own")
    long.loglog([1.0, 1000.0], [1.0, 10.0])
    own.semilogx([16, 32, 64], [1, 2, 3])
    own.set_xticks([16, 32, 64], ["16", "32", "64"])
    tidy_ticks(figure)
    assert len(labels(long.xaxis)) == 4
    assert labels(own.xaxis) == ["16", "32", "64"]


def test_whole_numbers_have_whole_labels_and_others_do_not():
    figure, (whole, broken, empty) = panels("layers", "rates", "nothing")
    whole.plot([1, 2, 3], [0.1, 0.2, 0.3])
    whole.axhline(0.5)
    broken.plot([0.5, 1.5], [0.1, 0.2])
    tidy_ticks(figure)
    assert labels(whole.xaxis) == ["1", "2", "3"]
    assert any("." in label for label in labels(broken.xaxis))
    assert labels(empty.xaxis)


def test_colours_are_seven_and_all_labels_are_small():
    assert len(set(COLOURS)) == 7
    _, (axis,) = panels("ticks")
    sizes = [axis.xaxis.get_tick_params(which=which)["labelsize"] for which in ("major", "minor")]
    assert sizes == [8, 8]
