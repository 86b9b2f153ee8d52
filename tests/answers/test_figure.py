"""Answers as figures show the numbers that they have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.answers import Answer
from theorylab.curvature import Sharpness
from theorylab.numerics.density import Band, SpectralDensity
from theorylab.numerics.spectra import Eigenpairs


class Matrix(Answer, labels={"entries": "kernel K"}):
    """A matrix."""

    entries: jax.Array


def test_a_spectrum_is_drawn_by_rank_with_its_errors():
    """Oracle: the places and the ends of the bars, read off the figure."""
    values, errors = np.array([3.0, 1.0, 0.5]), np.array([0.25, 0.5, np.inf])
    found = Eigenpairs(jnp.asarray(values), jnp.ones((3, 5)), jnp.asarray(errors))
    axes = found.plot().axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("rank", "eigenvalue λ")
    (container,) = axes.containers
    points, caps, _ = container
    np.testing.assert_array_equal(points.get_xydata(), np.stack([[1, 2, 3], values], axis=1))
    np.testing.assert_array_equal(caps[0].get_ydata(), values - [0.25, 0.5, 0.0])


def test_a_batch_of_spectra_has_a_colour_for_each():
    """Oracle: their number."""
    found = Eigenpairs(jnp.ones((4, 3)), jnp.ones((4, 3, 5)), jnp.ones((4, 3)))
    axes = found.plot().axes[0]
    assert len(axes.containers) == 4
    assert len({container[0].get_color() for container in axes.containers}) == 4


def test_a_density_is_drawn_as_a_curve_of_area_one():
    """Oracle: the integral of a density, from the line that was drawn."""
    nodes = jnp.sort(jax.random.uniform(jax.random.key(0), (3, 20)), axis=1)
    axes = SpectralDensity(nodes, jnp.full((3, 20), 1 / 20)).plot().axes[0]
    x, y = np.asarray(axes.lines[0].get_xydata()).T
    np.testing.assert_allclose(np.trapezoid(y, x), 1, atol=0.05)  # tails beyond the ends
    assert len(axes.collections) == 1  # the band
    assert axes.get_xlabel() == "eigenvalue λ"


def test_a_band_is_drawn_between_its_ends():
    """Oracle: the ends themselves."""
    value = jnp.array([1.0, 2.0])
    axes = Band(value, value - 1, value + 2).plot().axes[0]
    heights = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == (0.0, 4.0)


def test_a_matrix_is_drawn_as_an_image_with_what_its_colours_mean():
    """Oracle: its entries, and the label of the colours."""
    figure = Matrix(jnp.eye(3)).plot()
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), np.eye(3))
    assert figure.axes[1].get_ylabel() == "kernel K"


def test_a_notebook_shows_a_figure_as_png():
    """Oracle: the first bytes of the format."""
    figure = Sharpness(jnp.array(2.5), jnp.array(0.1)).plot()
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_what_cannot_be_drawn_says_so():
    """Oracle: the messages, written out."""
    with pytest.raises(ValueError, match="at most two axes to be drawn"):
        Matrix(jnp.ones((2, 2, 2))).plot()
    with pytest.raises(ValueError, match="must have entries to be drawn"):
        jax.make_jaxpr(lambda answer: len(answer.plot().axes))(Matrix(jnp.eye(2)))
