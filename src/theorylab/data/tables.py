"""Small tables to classify: real ones that scikit-learn carries, and made ones with known laws.

    iris             150 flowers, 4 lengths, 3 species
    wine             178 wines, 13 chemical measures, 3 growers
    breast_cancer    569 tumours, 30 measures of their cells, benign or not
    diabetes         442 patients, 10 measures; whether the disease advances more than in the median
    digits           1797 images, 64 pixels, 10 digits

    moons            two half circles that reach into each other, noise 0.3
    circles          a circle of radius ½ within one of radius 1, noise 0.15
    shells           10 Gaussian inputs; whether ‖x‖ is above its median
    chessboard       2 uniform inputs in [0, 1]; colour of the field on a board of 3 × 3
    product          6 Gaussian inputs; sign of x₁x₂, the others say nothing
    clusters         20 inputs, 5 of which say something: 3 classes of 2 clusters each

Real inputs come as they are measured: standardise them by the training part. A made table has 600
rows. Classes are one-hot.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from .dataset import Dataset

NUM_MADE = 600
Rows = tuple[np.ndarray, np.ndarray]  # inputs (n, d), classes (n,)


def table(name: str, seed: int = 0) -> Dataset:
    """Read or make a table.

    Args:
        name: One of `TABLES`, or `openml:` and the name of a data set there, which is loaded from
            the network.
        seed: Of made tables.

    Example:
        >>> print(table("iris"))
        150 samples (4,) ─► (3,): iris, classes one-hot. Source: scikit-learn.
    """
    if name in _REAL:
        (x, classes), source = _read(_REAL[name]), "scikit-learn"
    elif name in _MADE:
        x, classes = _MADE[name](np.random.default_rng(seed))
        source = f"made, seed {seed}"
    elif name.startswith("openml:"):
        (x, classes), source = _fetch(name.removeprefix("openml:")), "OpenML"
    else:
        raise ValueError(f"name must be one of {', '.join(TABLES)} or openml:…, got {name!r}.")
    if name == "diabetes":
        classes = classes > np.median(classes)
    names, indices = np.unique(classes, return_inverse=True)
    y = np.eye(len(names))[indices]
    law = f"{name}, classes one-hot"
    return Dataset(jnp.asarray(x, dtype=float), jnp.asarray(y, dtype=float), law, source)


def _read(loader: str) -> Rows:
    from sklearn import datasets  # a slow import, made when needed

    return getattr(datasets, loader)(return_X_y=True)


def _fetch(name: str) -> Rows:
    """A data set of OpenML: columns of numbers, rows without gaps."""
    from sklearn.datasets import fetch_openml

    found: Any
    try:
        found = fetch_openml(name, version=1, as_frame=True, parser="auto")
    except OSError as error:
        raise OSError(f"{name} could not be loaded from OpenML: {error}") from error
    numbers = found.data.select_dtypes("number")
    whole = numbers.notna().all(axis=1).to_numpy()
    return numbers[whole].to_numpy(float), found.target[whole].astype(str).to_numpy()


def _moons(random: np.random.Generator) -> Rows:
    classes, angle = _coins(random), random.uniform(0, np.pi, NUM_MADE)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = np.where(classes[:, None] == 1, np.array([1.0, 0.5]) - x, x)
    return x + 0.3 * random.normal(size=x.shape), classes


def _circles(random: np.random.Generator) -> Rows:
    classes, angle = _coins(random), random.uniform(0, 2 * np.pi, NUM_MADE)
    radius = np.where(classes == 1, 0.5, 1.0)[:, None]
    x = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return x + 0.15 * random.normal(size=x.shape), classes


def _shells(random: np.random.Generator) -> Rows:
    x = random.normal(size=(NUM_MADE, 10))
    radius = np.linalg.norm(x, axis=1)
    return x, radius > np.median(radius)


def _chessboard(random: np.random.Generator) -> Rows:
    x = random.uniform(size=(NUM_MADE, 2))
    return x, np.floor(3 * x).sum(axis=1) % 2


def _product(random: np.random.Generator) -> Rows:
    x = random.normal(size=(NUM_MADE, 6))
    return x, x[:, 0] * x[:, 1] > 0


def _clusters(random: np.random.Generator) -> Rows:
    centres = 2.0 * random.normal(size=(6, 5))
    which = random.integers(6, size=NUM_MADE)
    x = random.normal(size=(NUM_MADE, 20))
    x[:, :5] += centres[which]
    return x, which % 3


def _coins(random: np.random.Generator) -> np.ndarray:
    return random.integers(2, size=NUM_MADE)


_REAL = {
    "iris": "load_iris",
    "wine": "load_wine",
    "breast_cancer": "load_breast_cancer",
    "diabetes": "load_diabetes",
    "digits": "load_digits",
}
_MADE: dict[str, Callable[[np.random.Generator], Rows]] = {
    "moons": _moons,
    "circles": _circles,
    "shells": _shells,
    "chessboard": _chessboard,
    "product": _product,
    "clusters": _clusters,
}
TABLES = (*_REAL, *_MADE)
