"""The one style of all figures."""

import pytest

from theorylab.experiments.drawing import panels


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
