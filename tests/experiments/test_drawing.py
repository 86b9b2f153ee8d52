"""The one style of all figures."""

import numpy as np
import pytest

from theorylab.experiments.drawing import directions, medians, panels


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


def test_directions_are_dots_and_targets_stars():
    _, (axis,) = panels("neurons")
    vectors, targets = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0]])
    directions(axis, vectors, targets)
    dots, stars = axis.collections
    np.testing.assert_array_equal(np.asarray(dots.get_offsets()), vectors)
    np.testing.assert_array_equal(np.asarray(stars.get_offsets()), targets)
