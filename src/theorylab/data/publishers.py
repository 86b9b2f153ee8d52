"""Images that their publishers offer as files: street numbers and letters' digits.

    svhn    99289 house numbers of 32×32 in three colours, the first 73257 for training
    usps    9298 digits of postal codes of 16×16, the first 7291 for training

    a file in the cache folder, or downloaded ─► its checksum verified ─► pixels 0 … 255 and labels

Whoever has the files already puts them into the cache folder under their own names; they are read
there and left alone. What was downloaded is forgotten once it is read.
"""

import hashlib
import shutil
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from .cache import Arrays, cache_folder

TIMEOUT = 30  # seconds without an answer


class File(NamedTuple):
    """A part of a set of images."""

    name: str
    md5: str


class Publication(NamedTuple):
    """Where a set of images is, and how its files are read."""

    address: str  # of the folder
    files: tuple[File, ...]  # in the order in which images are numbered
    read: Callable[[IO[bytes]], Arrays]


def from_publisher(name: str) -> Arrays:
    """Read pixels (n, height · width · channels), colours last, and labels (n,).

    Args:
        name: A key of `PUBLISHED`.

    Example:
        >>> sorted(PUBLISHED)  # the sets that can be read
        ['svhn', 'usps']
    """
    address, files, read = PUBLISHED[name]
    parts = []
    for file in files:
        with (
            tempfile.TemporaryDirectory() as scratch,
            _found(file, address, scratch).open("rb") as it,
        ):
            if hashlib.file_digest(it, "md5").hexdigest() != file.md5:
                raise OSError(
                    f"{file.name} must have the MD5 sum {file.md5}, another file was found"
                )
            it.seek(0)
            parts.append(read(it))
    return {key: np.concatenate([part[key] for part in parts]) for key in ("pixels", "labels")}


def _found(file: File, address: str, scratch: str) -> Path:
    """The file in the cache folder, or one downloaded into `scratch`."""
    kept = cache_folder() / file.name
    if kept.exists():
        return kept
    path = Path(scratch, file.name)
    with (
        urllib.request.urlopen(address + file.name, timeout=TIMEOUT) as answer,
        path.open("wb") as it,
    ):
        shutil.copyfileobj(answer, it)
    return path


def _read_matlab(file: IO[bytes]) -> Arrays:
    """House numbers: X of (height, width, colour, image), y from 1 to 10, where 10 is a 0."""
    from scipy.io import loadmat

    arrays = loadmat(file)
    images = arrays["X"].transpose(3, 0, 1, 2)
    labels = arrays["y"].ravel() % 10
    return {"pixels": images.reshape(len(images), -1), "labels": labels.astype(np.uint8)}


def _read_sparse(file: IO[bytes]) -> Arrays:
    """Digits of letters: a line of `label place:value …` each, labels from 1, values in [−1, 1]."""
    import bz2

    from sklearn.datasets import load_svmlight_file

    with bz2.open(file) as lines:
        values, labels = load_svmlight_file(lines, n_features=256)[:2]
    pixels = np.rint((values.toarray() + 1) * 127.5)
    return {"pixels": pixels.astype(np.uint8), "labels": (labels - 1).astype(np.uint8)}


PUBLISHED = {
    "svhn": Publication(
        "http://ufldl.stanford.edu/housenumbers/",
        (
            File("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
            File("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
        ),
        _read_matlab,
    ),
    "usps": Publication(
        "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/",
        (
            File("usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"),
            File("usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"),
        ),
        _read_sparse,
    ),
}
