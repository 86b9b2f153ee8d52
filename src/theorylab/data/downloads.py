"""Image sets that are downloaded, and all image sets by name.

    mnist            70000 digits of 28×28, the first 60000 for training
    fashion_mnist    70000 pieces of clothing of 28×28, the first 60000 for training
    cifar10          60000 photographs of 32×32 in three colours, 10 kinds of things
    svhn             99289 house numbers of 32×32 in three colours, the first 73257 for training
    usps             9298 digits of postal codes of 16×16, the first 7291 for training

The first three come from OpenML through scikit-learn, the others from their publishers. They stay
in the cache folder, each with a checksum: `theorylab fetch mnist`, or the first time that they are
asked for. Without a network the error says so, and what would do instead.
"""

import math
from typing import Any, NamedTuple, get_args

import numpy as np

from theorylab.fields import ImageSet

from .cache import Arrays, cache_folder, cached
from .dataset import Dataset
from .images import Labels, Scaling, digits, image_dataset, mnist5k
from .publishers import PUBLISHED, from_publisher

IMAGE_SETS: tuple[str, ...] = get_args(ImageSet)


class Download(NamedTuple):
    """What a set of images is, and what it must look like to be whole."""

    source: str  # OpenML with its name there, of version 1, or the publisher
    what: str
    num_images: int
    shape: tuple[int, int, int]
    least: int  # images of each of the ten classes
    instead: str  # what comes with the install


DOWNLOADS = {
    "mnist": Download(
        "OpenML, mnist_784", "handwritten digits", 70000, (28, 28, 1), 6000, "mnist5k"
    ),
    "fashion_mnist": Download(
        "OpenML, Fashion-MNIST", "clothing", 70000, (28, 28, 1), 6000, "mnist5k"
    ),
    "cifar10": Download(
        "OpenML, CIFAR_10", "photographs", 60000, (32, 32, 3), 6000, "digits or mnist5k"
    ),
    "svhn": Download(
        "the Street View House Numbers",
        "house numbers",
        99289,
        (32, 32, 3),
        6000,
        "digits or mnist5k",
    ),
    "usps": Download("LIBSVM, usps", "digits of letters", 9298, (16, 16, 1), 700, "digits"),
}
_INSTALLED = {"digits": (1797, (8, 8, 1)), "mnist5k": (5000, (28, 28, 1))}


def image_shape(name: str) -> tuple[int, int, int]:
    """Say height, width and colours of images, without reading them.

    Args:
        name: One of `IMAGE_SETS`.

    Example:
        >>> image_shape("svhn")
        (32, 32, 3)
    """
    return _INSTALLED[name][1] if name in _INSTALLED else DOWNLOADS[_known(name)].shape


def num_images(name: str) -> int:
    """Say how many images there are, without reading them.

    Args:
        name: One of `IMAGE_SETS`.

    Example:
        >>> num_images("digits"), num_images("cifar10")
        (1797, 60000)
    """
    return _INSTALLED[name][0] if name in _INSTALLED else DOWNLOADS[_known(name)].num_images


def _known(name: str) -> str:
    if name not in IMAGE_SETS:
        raise ValueError(f"images must be one of {', '.join(IMAGE_SETS)}, got {name!r}.")
    return name


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
    shape = image_shape(name)
    if name == "digits":
        return digits(scaling, classes, labels).reshaped(*shape)
    if name == "mnist5k":
        return mnist5k(scaling, classes, labels).reshaped(*shape)
    found = DOWNLOADS[name]
    words = (found.what, "×".join(map(str, shape[:2])), found.source)
    data = image_dataset(lambda: download(name), 255, scaling, classes, labels, words)
    return data.reshaped(*shape)


def download(name: str) -> Arrays:
    """Read pixels (n, height · width · channels) and labels (n,) from the cache or the network.

    Args:
        name: A key of `DOWNLOADS`.

    Example:
        >>> download("letters")
        Traceback (most recent call last):
        ...
        ValueError: what is downloaded is one of mnist, ..., got 'letters'.
    """
    if name not in DOWNLOADS:
        raise ValueError(f"what is downloaded is one of {', '.join(DOWNLOADS)}, got {name!r}.")
    return cached(f"{name}-1", lambda: _fetched(name, DOWNLOADS[name]))


def _fetched(name: str, wanted: Download) -> Arrays:
    """Ask for it, and refuse what is not whole."""
    try:
        arrays = from_publisher(name) if name in PUBLISHED else _from_openml(wanted)
    except (OSError, ValueError) as error:
        raise OSError(
            f"{name} is not in the cache and could not be downloaded from {wanted.source} "
            f"({error}); without a network, {wanted.instead} will do instead: it comes with the "
            f"install{_by_hand(name)}"
        ) from error
    expected = (wanted.num_images, math.prod(wanted.shape))
    counts = np.bincount(arrays["labels"], minlength=10)
    if arrays["pixels"].shape != expected or len(counts) != 10 or counts.min() < wanted.least:
        raise OSError(
            f"{name} must have {expected[0]} images of {expected[1]} pixels in 10 classes, "
            f"got {arrays['pixels'].shape} and classes of {counts.tolist()} from {wanted.source}"
        )
    return arrays


def _by_hand(name: str) -> str:
    """Say which files would do as well, and where."""
    files = [file.name for file in PUBLISHED[name].files] if name in PUBLISHED else []
    return f"; or put {' and '.join(files)} into {cache_folder()}" if files else ""


def _from_openml(wanted: Download) -> Arrays:
    """One colour after the other there, colours last here; with one colour it is the same."""
    from sklearn.datasets import fetch_openml  # a slow import, made when needed

    name = wanted.source.removeprefix("OpenML, ")
    found: Any = fetch_openml(name, version=1, as_frame=False, cache=False, n_retries=1)
    pixels = np.asarray(found.data).astype(np.uint8)
    planes = pixels.reshape(len(pixels), wanted.shape[2], -1)
    labels = np.asarray(found.target).astype(np.uint8)
    return {"pixels": planes.swapaxes(1, 2).reshape(len(pixels), -1), "labels": labels}
