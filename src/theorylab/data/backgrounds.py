"""Images on backgrounds: the object keeps every pixel, and what is around it is noise.

    canvas = level · background,    canvas[offset : offset + size] = image

The image replaces pixels, nothing is added to it. Offsets never depend on the label.

    anywhere        all offsets at which the image fits, equally likely
    random_corner   one of the four corners
    fixed_corner    always the lower right one

    black           0
    gaussian        N(0, 1), so that the level is the deviation σ
    texture         a random field in [0, 1] whose power falls as 1/fᵃ with the frequency f;
                    photographs have a ≈ 2, so it stands in for photographs of plants
    tiles           other images side by side, such as those of other classes: distractors

The published code draws Gaussian pixels with deviation σ and multiplies them by σ again: what its
axis calls σ is a deviation σ² (`squared_level=True` does the same). It also takes the distractors
of test images from the training set; here they come from where the caller takes them.

Source: karp · noise-bg-data · 3.6, B.3, B.4.
"""

import math
from dataclasses import replace
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from theorylab.typing import RandomKey, Scalar

from .dataset import Dataset

Placement = Literal["anywhere", "random_corner", "fixed_corner"]
Background = Literal["black", "gaussian", "texture", "tiles"]


def offsets(
    key: RandomKey,
    num_images: int,
    image: tuple[int, int],
    canvas: tuple[int, int],
    placement: Placement,
) -> Int[Array, "n 2"]:
    """Draw where the upper left pixel of each image goes, (row, column).

    Args:
        key: The randomness.
        num_images: The number of images n.
        image: Height and width of an image.
        canvas: Height and width of a canvas.
        placement: The law, see above.

    Example:
        >>> offsets(jax.random.key(0), 2, (8, 8), (16, 16), "fixed_corner").tolist()
        [[8, 8], [8, 8]]
    """
    _check_room(image, canvas)
    room = jnp.asarray(canvas) - jnp.asarray(image)
    match placement:
        case "anywhere":
            return jax.random.randint(key, (num_images, 2), 0, room[None, :] + 1)
        case "random_corner":
            return jax.random.randint(key, (num_images, 2), 0, 2) * room[None, :]
        case "fixed_corner":
            return jnp.broadcast_to(room, (num_images, 2))
    raise ValueError(f"placement must be one of {_words(Placement)}, got {placement!r}.")


def paste(
    images: Float[Array, "n h w c"],
    canvases: Float[Array, "n height width c"],
    places: Int[Array, "n 2"],
) -> Float[Array, "n height width c"]:
    """Replace the pixels of every canvas from its place on by those of its image.

    Example:
        >>> pasted = paste(jnp.ones((1, 1, 1, 1)), jnp.zeros((1, 2, 2, 1)), jnp.array([[0, 1]]))
        >>> pasted[0, :, :, 0].tolist()
        [[0.0, 1.0], [0.0, 0.0]]
    """
    image, canvas = images.shape[1:3], canvases.shape[1:3]
    _check_room(image, canvas)
    if not isinstance(places, Tracer):
        known, room = np.asarray(places), np.subtract(canvas, image)
        if np.any((known < 0) | (known > room[None, :])):
            raise ValueError(f"places must be from (0, 0) to {tuple(room.tolist())}, got others.")

    def one(image: Array, canvas: Array, place: Array) -> Array:
        return jax.lax.dynamic_update_slice(canvas, image, (place[0], place[1], 0))

    return jax.vmap(one)(images, canvases, places)


def background(
    key: RandomKey,
    kind: Background,
    num_images: int,
    shape: tuple[int, int, int],
    tiles: Float[Array, "t h w c"] | None = None,
    exponent: float = 2.0,
) -> Float[Array, "n height width c"]:
    """Draw backgrounds at level 1.

    Args:
        key: The randomness.
        kind: The law, see above.
        num_images: The number of backgrounds n.
        shape: Height, width and channels of one.
        tiles: The images that "tiles" draws from; their sizes must divide those of the canvas.
        exponent: The a of "texture".

    Example:
        >>> background(jax.random.key(0), "gaussian", 3, (8, 8, 1)).shape
        (3, 8, 8, 1)
    """
    match kind:
        case "black":
            return jnp.zeros((num_images, *shape))
        case "gaussian":
            return _normal(key, (num_images, *shape))
        case "texture":
            return _texture(key, num_images, shape, exponent)
        case "tiles":
            return _tiled(key, num_images, shape, tiles)
    raise ValueError(f"background must be one of {_words(Background)}, got {kind!r}.")


def on_background(
    key: RandomKey,
    images: Float[Array, "n h w c"],
    canvas: tuple[int, int],
    kind: Background,
    level: Scalar,
    placement: Placement,
    tiles: Float[Array, "t h w c"] | None = None,
    squared_level: bool = False,
) -> Float[Array, "n height width c"]:
    """Paste images on backgrounds of their own.

    Args:
        key: The randomness of backgrounds and places.
        images: The objects.
        canvas: Height and width of what comes out.
        kind: The law of the backgrounds.
        level: What they are multiplied by; for "gaussian" the deviation σ. It may be traced.
        placement: The law of the places.
        tiles: The images that "tiles" draws from.
        squared_level: True: multiply by the level twice, as the published code does.

    Example:
        >>> dots = jnp.ones((1, 1, 1, 1))
        >>> canvas = on_background(jax.random.key(0), dots, (2, 2), "black", 1.0, "fixed_corner")
        >>> canvas[0, :, :, 0].tolist()
        [[0.0, 0.0], [0.0, 1.0]]
    """
    if not isinstance(level, Tracer) and not np.isfinite(np.asarray(level)):
        raise ValueError(f"level must be finite, got {level}.")
    num_images, *image, channels = images.shape
    place_key, noise_key = jax.random.split(key)
    places = offsets(place_key, num_images, (image[0], image[1]), canvas, placement)
    around = background(noise_key, kind, num_images, (*canvas, channels), tiles)
    factor = level * level if squared_level else level
    return paste(images, (factor * around).astype(images.dtype), places)


def on_backgrounds_apart(
    key: RandomKey,
    images: Float[Array, "n h w c"],
    num_first: int,
    canvas: tuple[int, int],
    kind: Background,
    level: Scalar,
    placement: Placement,
    tiles: Float[Array, "t h w c"] | None = None,
) -> Float[Array, "n height width c"]:
    """As `on_background`, but no tile is around both the first images and the rest.

    Args:
        key: The randomness of backgrounds and places.
        images: The objects, those to learn from first.
        num_first: How many these are.
        canvas: Height and width of what comes out.
        kind: The law of the backgrounds.
        level: What they are multiplied by.
        placement: The law of the places.
        tiles: The images that "tiles" draws from: every other one for the first images.

    Example:
        >>> dots = jnp.ones((2, 1, 1, 1))
        >>> place = ((2, 2), "black", 1.0, "fixed_corner")
        >>> on_backgrounds_apart(jax.random.key(0), dots, 1, *place)[1, :, :, 0].tolist()
        [[0.0, 0.0], [0.0, 1.0]]
    """
    if tiles is not None and len(tiles) < 2:
        raise ValueError(f"tiles must be two or more to be kept apart, got {len(tiles)}.")
    parts = [
        on_background(
            jax.random.fold_in(key, half),
            part,
            *(canvas, kind, level, placement),
            None if tiles is None else tiles[half::2],
        )
        for half, part in enumerate((images[:num_first], images[num_first:]))
    ]
    return jnp.concatenate(parts)


def dataset_on_background(
    key: RandomKey,
    dataset: Dataset,
    canvas: tuple[int, int],
    kind: Background,
    level: float,
    placement: Placement,
    tiles: Float[Array, "t h w c"] | None = None,
) -> Dataset:
    """Give every image (h, w, c) of a dataset a background; arguments as for `on_background`.

    Example:
        >>> from theorylab.data import image_set
        >>> images = image_set("digits").subset(slice(10))
        >>> key, canvas = jax.random.key(0), (16, 16)
        >>> dataset_on_background(key, images, canvas, "gaussian", 2.0, "anywhere").input_shape
        (16, 16, 1)
    """
    if len(dataset.input_shape) != 3:
        raise ValueError(f"inputs must be images (h, w, c), got {dataset.input_shape}.")
    x = on_background(key, dataset.x, canvas, kind, level, placement, tiles)
    where = f"{placement.replace('_', ' ')} of {canvas[0]}×{canvas[1]}"
    return replace(dataset, x=x, law=f"{dataset.law}, {where}, {kind} background × {level:g}")


def pixel_coverage(
    image: tuple[int, int], canvas: tuple[int, int], placement: Placement
) -> Float[Array, "height width"]:
    """P[the image covers a pixel], of every pixel of the canvas.

    Rows and columns are placed independently, so it is a product of two such shares.

    Args:
        image: Height and width of an image.
        canvas: Height and width of a canvas.
        placement: The law of the places.

    Example:
        >>> pixel_coverage((1, 1), (2, 2), "random_corner").tolist()
        [[0.25, 0.25], [0.25, 0.25]]
    """
    _check_room(image, canvas)
    rows, columns = (
        _covered(small, large, placement) for small, large in zip(image, canvas, strict=True)
    )
    return rows[:, None] * columns[None, :]


def canvas_moments(
    images: Float[Array, "n h w c"],
    canvas: tuple[int, int],
    kind: Background,
    level: float,
    placement: Placement,
    tiles: Float[Array, "t h w c"] | None = None,
) -> tuple[Float[Array, "height width c"], Float[Array, "height width c"]]:
    """E canvas and E canvas² of every pixel, over an image drawn from these, its place and noise.

        E = Σ_place P[place] · (mean image, pasted there) + (1 − P[covered]) · E background

    Args:
        images: The objects, equally likely.
        canvas: Height and width.
        kind: "black", "gaussian" or "tiles"; the moments of "texture" have no closed form.
        level: What backgrounds are multiplied by.
        placement: The law of the places.
        tiles: The images that "tiles" draws from.

    Example:
        >>> dots = jnp.ones((1, 1, 1, 1))
        >>> mean, square = canvas_moments(dots, (2, 2), "gaussian", 2.0, "random_corner")
        >>> mean[:, :, 0].tolist(), square[0, 0, 0].item()  # square: ¼ · 1² + ¾ · 2²
        ([[0.25, 0.25], [0.25, 0.25]], 3.25)
    """
    _, height, width, channels = images.shape
    rows, columns = (
        _chances(large - small, placement)
        for small, large in zip((height, width), canvas, strict=True)
    )
    around = 1 - pixel_coverage((height, width), canvas, placement)
    found = []
    for order in (1, 2):
        image = (images**order).mean(axis=0)
        # Full convolutions of the mean image with the laws of its row and of its column.
        pasted = jnp.stack(
            [
                jnp.stack([jnp.convolve(column, rows) for column in image[..., c].T])
                for c in range(channels)
            ]
        )
        pasted = jnp.stack(
            [jnp.stack([jnp.convolve(row, columns) for row in plane.T]) for plane in pasted]
        )
        noise = level**order * _background_moment(order, kind, (*canvas, channels), tiles)
        found.append(jnp.moveaxis(pasted, 0, -1) + around[..., None] * noise)
    return found[0], found[1]


def downsample(images: Float[Array, "n h w c"], factor: int) -> Float[Array, "n _h _w c"]:
    """Average over squares of factor × factor pixels, such as 32×32 ─► 16×16.

    Example:
        >>> downsample(jnp.arange(4.0).reshape(1, 2, 2, 1), 2).tolist()
        [[[[1.5]]]]
    """
    n, height, width, channels = images.shape
    if factor < 1 or height % factor or width % factor:
        raise ValueError(f"factor must divide {height} and {width}, got {factor}.")
    squares = (n, height // factor, factor, width // factor, factor, channels)
    return jnp.mean(jnp.reshape(images, squares), axis=(2, 4))


def _chances(room: int, placement: Placement) -> Float[Array, " places"]:
    """The law of one coordinate of the place, from 0 to the room that there is."""
    places = jnp.arange(room + 1)
    match placement:
        case "anywhere":
            return jnp.full(room + 1, 1 / (room + 1))
        case "random_corner":
            return ((places == 0).astype(float) + (places == room)) / 2
        case "fixed_corner":
            return (places == room).astype(float)
    raise ValueError(f"placement must be one of {_words(Placement)}, got {placement!r}.")


def _covered(small: int, large: int, placement: Placement) -> Float[Array, " large"]:
    """P[the image covers this row], or column."""
    return jnp.convolve(_chances(large - small, placement), jnp.ones(small))


def _background_moment(
    order: int,
    kind: Background,
    shape: tuple[int, int, int],
    tiles: Float[Array, "t h w c"] | None,
) -> Float[Array, "height width c"]:
    """E bʳ of a background at level 1, for r = 1 or 2."""
    match kind:
        case "black":
            return jnp.zeros(shape)
        case "gaussian":
            return jnp.full(shape, float(order == 2))
        case "tiles" if tiles is not None:
            mean = (tiles**order).mean(axis=0)
            return jnp.tile(mean, (shape[0] // mean.shape[0], shape[1] // mean.shape[1], 1))
    raise ValueError(f"kind must be black, gaussian, or tiles that are given, got {kind!r}.")


def _texture(
    key: RandomKey, num_images: int, shape: tuple[int, int, int], exponent: float
) -> Float[Array, "n height width c"]:
    """White noise whose amplitudes are divided by f^(a/2), each image from 0 to 1."""
    height, width, _ = shape
    frequencies = jnp.hypot(jnp.fft.fftfreq(height)[:, None], jnp.fft.fftfreq(width)[None, :])
    # Frequency 0 is the mean, which the scale from 0 to 1 fixes anyway.
    amplitude = jnp.where(frequencies > 0, frequencies, jnp.inf) ** (-exponent / 2)
    white = jnp.fft.fft2(_normal(key, (num_images, *shape)), axes=(1, 2))
    field = jnp.fft.ifft2(white * amplitude[None, :, :, None], axes=(1, 2)).real
    low, high = (end(field, axis=(1, 2, 3), keepdims=True) for end in (jnp.min, jnp.max))
    return (field - low) / (high - low)


def _tiled(
    key: RandomKey,
    num_images: int,
    shape: tuple[int, int, int],
    tiles: Float[Array, "t h w c"] | None,
) -> Float[Array, "n height width c"]:
    """Independent tiles, side by side."""
    if tiles is None:
        raise ValueError("the background 'tiles' must be given tiles, got None.")
    height, width, channels = shape
    rows, columns = height // tiles.shape[1], width // tiles.shape[2]
    if (rows * tiles.shape[1], columns * tiles.shape[2], tiles.shape[3]) != shape:
        raise ValueError(f"tiles must fill a canvas {shape} exactly, got {tiles.shape[1:]}.")
    chosen = jax.random.randint(key, (num_images, rows, columns), 0, len(tiles))
    # (n, rows, columns, h, w, c) ─► (n, rows, h, columns, w, c)
    return jnp.reshape(jnp.swapaxes(tiles[chosen], 2, 3), (num_images, height, width, channels))


def _normal(key: RandomKey, shape: tuple[int, ...]) -> Float[Array, "..."]:
    # Drawn flat: several small axes take seconds to compile.
    return jnp.reshape(jax.random.normal(key, (math.prod(shape),)), shape)


def _check_room(image: tuple[int, ...], canvas: tuple[int, ...]) -> None:
    if any(small > large for small, large in zip(image, canvas, strict=True)):
        raise ValueError(f"the canvas must have room for the image {image}, got {canvas}.")


def _words(literal: object) -> str:
    return ", ".join(get_args(literal))
