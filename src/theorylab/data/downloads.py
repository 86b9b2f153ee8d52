"""Images that are too many to come with the install, and any images by their name.

    mnist            70000 digits of 28×28, the first 60000 for training
    fashion_mnist    70000 pieces of clothing of 28×28, the first 60000 for training
    cifar10          60000 photographs of 32×32 in three colours, 10 kinds of things

They come from OpenML through scikit-learn and stay in the cache folder, each file with a checksum:
`theorylab fetch mnist`, or the first time that they are asked for. Without a network the error says
so, and what would do instead.
"""

from typing import Any, NamedTuple

import numpy as np

from .cache import Arrays, cached
from .dataset import Dataset
from .images import Labels, Scaling, digits, image_dataset, mnist5k


class Download(NamedTuple):
    """Where a set of images is, and what it must look like to be whole."""

    openml: str  # its name there, version 1
    what: str
    num_images: int  # as many of each of ten classes, or nearly so
    shape: tuple[int, int, int]
    instead: str  # what comes with the install


DOWNLOADS = {
    "mnist": Download("mnist_784", "handwritten digits", 70000, (28, 28, 1), "mnist5k"),
    "fashion_mnist": Download("Fashion-MNIST", "clothing", 70000, (28, 28, 1), "mnist5k"),
    "cifar10": Download("CIFAR_10", "photographs", 60000, (32, 32, 3), "digits or mnist5k"),
}
IMAGE_SETS = ("digits", "mnist5k", *DOWNLOADS)


def image_set(
    name: str,
    scaling: Scaling = "unit",
    classes: tuple[int, ...] = tuple(range(10)),
    labels: Labels = "one_hot",
) -> Dataset:
    """Read images (height, width, channels) by name; the other arguments are those of `digits`.

    Args:
        name: One of `IMAGE_SETS`; what is not in the cache is downloaded.
        scaling: What pixels are divided by.
        classes: Which classes to keep.
        labels: How they are coded.

    Example:
        >>> image_set("digits").input_shape
        (8, 8, 1)
    """
    if name not in IMAGE_SETS:
        raise ValueError(f"images must be one of {', '.join(IMAGE_SETS)}, got {name!r}.")
    if name == "digits":
        return digits(scaling, classes, labels).reshaped(8, 8, 1)
    if name == "mnist5k":
        return mnist5k(scaling, classes, labels).reshaped(28, 28, 1)
    found = DOWNLOADS[name]
    size = "×".join(map(str, found.shape[:2]))
    words = (found.what, size, f"OpenML, {found.openml}")
    data = image_dataset(lambda: downloaded(name), 255, scaling, classes, labels, words)
    return data.reshaped(*found.shape)


def downloaded(name: str) -> Arrays:
    """Read pixels (n, height · width · channels) and labels (n,) from the cache or the network.

    Args:
        name: A key of `DOWNLOADS`.
    """
    if name not in DOWNLOADS:
        raise ValueError(f"what is downloaded is one of {', '.join(DOWNLOADS)}, got {name!r}.")
    return cached(f"{name}-1", lambda: _fetched(name, DOWNLOADS[name]))


def _fetched(name: str, wanted: Download) -> Arrays:
    """Ask OpenML, and refuse what is not whole."""
    from sklearn.datasets import fetch_openml  # a slow import, made when needed

    found: Any
    try:
        found = fetch_openml(wanted.openml, version=1, as_frame=False, cache=False, n_retries=1)
    except (OSError, ValueError) as error:
        raise OSError(
            f"{name} is not in the cache and could not be downloaded from OpenML ({error}); "
            f"without a network, {wanted.instead} will do instead: it comes with the install"
        ) from error
    pixels, labels = np.asarray(found.data), np.asarray(found.target).astype(np.uint8)
    height, width, channels = wanted.shape
    expected = (wanted.num_images, height * width * channels)
    counts = np.bincount(labels, minlength=10)
    if pixels.shape != expected or len(counts) != 10 or counts.min() < wanted.num_images / 12:
        raise OSError(
            f"{name} must have {expected[0]} images of {expected[1]} pixels in 10 classes, "
            f"got {pixels.shape} and classes of {counts.tolist()} from OpenML"
        )
    # One colour after the other there, colours last here; with one colour it is the same.
    colours = pixels.astype(np.uint8).reshape(-1, channels, height * width)
    return {"pixels": colours.swapaxes(1, 2).reshape(expected), "labels": labels}
