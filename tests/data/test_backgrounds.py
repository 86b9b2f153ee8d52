"""Images on backgrounds: the object intact, the noise of its law, and no trace of the label."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from theorylab.data import dataset_on_background, digits, on_background
from theorylab.data.backgrounds import (
    background,
    canvas_moments,
    downsample,
    offsets,
    on_backgrounds_apart,
    paste,
    pixel_coverage,
)

KEY = jax.random.key(7)
SIZES = ((8, 8), (16, 16))


@pytest.mark.parametrize("kind", ["black", "gaussian", "texture", "tiles"])
def test_pasted_pixels_are_bit_equal_and_the_rest_is_background(kind):
    """Oracle: the same draws, cut by NumPy."""
    images = digits().reshaped(8, 8, 1).x[:40]
    canvases = on_background(KEY, images, (16, 16), kind, 2.0, "anywhere", tiles=images)
    place_key, noise_key = jax.random.split(KEY)
    places = np.asarray(offsets(place_key, 40, *SIZES, "anywhere"))
    around = 2.0 * np.array(background(noise_key, kind, 40, (16, 16, 1), images))
    for i, (row, column) in enumerate(places):
        np.testing.assert_array_equal(
            canvases[i, row : row + 8, column : column + 8].tobytes(), images[i].tobytes()
        )
        around[i, row : row + 8, column : column + 8] = images[i]
    np.testing.assert_array_equal(canvases, around)


@pytest.mark.parametrize(("placement", "num_places"), [("anywhere", 81), ("random_corner", 4)])
def test_places_are_uniform(placement, num_places):
    """χ² of 8100 places; a p-value below 0.1 % would be a wrong law."""
    places = np.asarray(offsets(KEY, 8100, *SIZES, placement))
    _, counts = np.unique(places, axis=0, return_counts=True)
    assert counts.size == num_places
    assert stats.chisquare(counts).pvalue > 1e-3
    assert places.min() == 0
    assert places.max() == 8


def test_backgrounds_have_their_law():
    """Gaussian: moments within 5 standard errors. Texture: power falls as 1/f², log–log slope."""
    noise = np.asarray(background(KEY, "gaussian", 100, (16, 16, 1)))
    error = (2 / noise.size) ** 0.5
    np.testing.assert_allclose([noise.mean(), noise.var()], [0, 1], atol=5 * error)

    texture = np.asarray(background(KEY, "texture", 200, (32, 32, 1)))[..., 0]
    np.testing.assert_array_equal(texture.min(axis=(1, 2)), 0)
    np.testing.assert_allclose(texture.max(axis=(1, 2)), 1, rtol=1e-15)
    standard = texture / texture.std(axis=(1, 2), keepdims=True)
    power = (np.abs(np.fft.fft2(standard)) ** 2).mean(axis=0)
    column = np.arange(1, 16)
    slope = np.polyfit(np.log(column), np.log((power[0, 1:16] + power[1:16, 0]) / 2), 1)[0]
    assert abs(slope + 2) < 0.15

    tiles = jnp.arange(3.0)[:, None, None, None] * jnp.ones((1, 2, 4, 1))
    tiled = np.asarray(background(KEY, "tiles", 300, (4, 8, 1), tiles))
    cells = tiled.reshape(300, 2, 2, 2, 4)
    assert (cells == cells[:, :, :1, :, :1]).all()  # one tile in every cell
    _, counts = np.unique(cells[:, :, 0, :, 0], return_counts=True)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_the_published_code_squares_the_level():
    dot = jnp.zeros((1, 1, 1, 1))
    arguments = (KEY, dot, (32, 32), "gaussian", 0.5, "fixed_corner")
    stated, printed = on_background(*arguments), on_background(*arguments, squared_level=True)
    np.testing.assert_allclose(printed, 0.5 * stated, rtol=1e-14)
    # 0.5 to five standard errors of 1023 normal numbers, and one pixel of the dot.
    assert float(stated.std()) == pytest.approx(0.5, abs=5 * 0.5 / (2 * 1023) ** 0.5)


PLACEMENTS = ["anywhere", "random_corner", "fixed_corner"]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_coverage_is_that_of_all_places(placement):
    """Oracle: every place with its probability, counted one by one."""
    height, width = 5, 4
    places = {
        "anywhere": [(i, j) for i in range(4) for j in range(2)],
        "random_corner": [(i, j) for i in (0, 3) for j in (0, 1)],
        "fixed_corner": [(3, 1)],
    }[placement]
    expected = np.zeros((height, width))
    for i, j in places:
        expected[i : i + 2, j : j + 3] += 1 / len(places)
    found = pixel_coverage((2, 3), (height, width), placement)
    np.testing.assert_allclose(found, expected, atol=1e-15)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("kind", ["black", "gaussian", "tiles"])
def test_canvases_have_their_moments(kind, placement):
    """Oracle: the closed form, within six standard errors of 4000 canvases, pixel by pixel."""
    image_key, tile_key = jax.random.split(KEY)
    images = jax.random.uniform(image_key, (3, 2, 3, 1))
    tiles = jax.random.uniform(tile_key, (4, 2, 3, 1))
    drawn = images[jnp.arange(3999) % 3]
    canvases = np.asarray(on_background(KEY, drawn, (4, 6), kind, 1.5, placement, tiles))
    moments = canvas_moments(images, (4, 6), kind, 1.5, placement, tiles)
    for order, expected in enumerate(moments, start=1):
        powers = canvases**order
        error = powers.std(axis=0) / 3999**0.5
        assert np.all(np.abs(powers.mean(axis=0) - np.asarray(expected)) <= 6 * error + 1e-12)


def test_no_tile_is_around_what_is_learned_and_what_is_judged():
    """Oracle: tiles of one colour each; the objects are black."""
    tiles = jnp.broadcast_to(jnp.arange(1.0, 7.0)[:, None, None, None], (6, 2, 2, 1))
    objects = jnp.zeros((40, 2, 2, 1))
    arguments = (KEY, objects, 25, (4, 4), "tiles", 1.0, "fixed_corner")
    canvases = np.asarray(on_backgrounds_apart(*arguments, tiles))
    first, rest = set(np.unique(canvases[:25])), set(np.unique(canvases[25:]))
    assert (first, rest) == ({0, 1, 3, 5}, {0, 2, 4, 6})
    with pytest.raises(ValueError, match="tiles must be two or more to be kept apart, got 1"):
        on_backgrounds_apart(*arguments, tiles[:1])


def test_places_and_backgrounds_say_nothing_about_the_label():
    """Mutual information of label and corner: 2n·I is χ² with 9 · 3 degrees of freedom.

    The corner is where the canvas is not black, so a place that looks at the image would be seen.
    """
    data = digits().reshaped(8, 8, 1)
    labels = np.argmax(data.y, axis=1)
    canvases = np.asarray(on_background(KEY, data.x, (16, 16), "black", 1.0, "random_corner"))
    quarters = canvases.reshape(-1, 2, 8, 2, 8).sum(axis=(2, 4)).reshape(-1, 4)
    assert ((quarters > 0).sum(axis=1) == 1).all()
    table = np.zeros((10, 4))
    np.add.at(table, (labels, quarters.argmax(axis=1)), 1)
    independent = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / len(labels)
    information = np.sum(table * np.log(table / independent)) / len(labels)
    assert stats.chi2.sf(2 * len(labels) * information, df=27) > 1e-3


def test_a_dataset_says_what_was_done_to_it():
    data = digits().reshaped(8, 8, 1).subset(slice(5))
    on = dataset_on_background(KEY, data, (16, 16), "gaussian", 2.0, "fixed_corner")
    np.testing.assert_array_equal(on.x[:, 8:, 8:], data.x)
    np.testing.assert_array_equal(on.y, data.y)
    assert on.law.endswith("fixed corner of 16×16, gaussian background × 2")
    with pytest.raises(ValueError, match=r"inputs must be images \(h, w, c\), got \(64,\)"):
        dataset_on_background(KEY, digits(), (16, 16), "black", 1.0, "anywhere")


def test_shrinking_keeps_the_mean_and_a_checkerboard_vanishes():
    board = jnp.asarray(np.indices((4, 6)).sum(axis=0) % 2.0)[None, :, :, None]
    np.testing.assert_array_equal(downsample(board, 2), np.full((1, 2, 3, 1), 0.5))


def test_what_does_not_fit_is_refused():
    image = jnp.zeros((1, 3, 3, 1))
    with pytest.raises(ValueError, match=r"have room for the image \(3, 3\), got \(2, 4\)"):
        paste(image, jnp.zeros((1, 2, 4, 1)), jnp.zeros((1, 2), int))
    with pytest.raises(ValueError, match=r"places must be from \(0, 0\) to \(1, 1\), got others"):
        paste(image, jnp.zeros((1, 4, 4, 1)), jnp.full((1, 2), 9))
    with pytest.raises(ValueError, match="level must be finite, got nan"):
        on_background(KEY, image, (4, 4), "black", float("nan"), "anywhere")
    with pytest.raises(ValueError, match="kind must be black, gaussian, or tiles that are given"):
        canvas_moments(image, (4, 4), "texture", 1.0, "anywhere")
    with pytest.raises(ValueError, match="must be given tiles, got None"):
        background(KEY, "tiles", 1, (4, 4, 1))
    with pytest.raises(ValueError, match=r"tiles must fill a canvas \(4, 4, 1\) exactly"):
        background(KEY, "tiles", 1, (4, 4, 1), image)
    with pytest.raises(ValueError, match="factor must divide 3 and 3, got 2"):
        downsample(image, 2)
