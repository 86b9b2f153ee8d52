"""Images from files of their publishers, small ones made here: no test asks the network."""

import bz2
import hashlib
import io

import numpy as np
import pytest
from scipy.io import savemat

from theorylab.data import downloads, image_set, publishers

DIGITS = np.arange(20) % 10  # of the images, in their order


def made(monkeypatch, name, contents, shape):
    """Let a set have other files, of these bytes and with their checksums."""
    files = tuple(
        publishers.File(file.name, hashlib.md5(content).hexdigest())
        for file, content in zip(publishers.PUBLISHED[name].files, contents, strict=True)
    )
    changed = publishers.PUBLISHED[name]._replace(files=files)
    monkeypatch.setitem(publishers.PUBLISHED, name, changed)
    small = downloads.DOWNLOADS[name]._replace(num_images=20, shape=shape, least=2)
    monkeypatch.setitem(downloads.DOWNLOADS, name, small)
    return {file.name: content for file, content in zip(files, contents, strict=True)}


@pytest.fixture
def houses(monkeypatch):
    """Twelve and eight photographs of 2×3 pixels, as Matlab writes them, and the photographs."""
    pictures = np.random.default_rng(0).integers(0, 256, (20, 2, 3, 3)).astype(np.uint8)
    contents = []
    for part in (slice(12), slice(12, None)):
        labels = np.where(DIGITS[part] == 0, 10, DIGITS[part])  # 10 is the digit 0 there
        file = io.BytesIO()
        savemat(file, {"X": pictures[part].transpose(1, 2, 3, 0), "y": labels[:, None]})
        contents.append(file.getvalue())
    return made(monkeypatch, "svhn", contents, (2, 3, 3)), pictures


@pytest.fixture
def served(monkeypatch, tmp_path):
    """A network that has some files, and what was asked of it."""
    monkeypatch.setenv("THEORYLAB_CACHE", str(tmp_path))
    files, asked = {}, []

    def urlopen(address, timeout):
        asked.append(address)
        name = address.rsplit("/", 1)[1]
        if name not in files:
            raise OSError("no route to host")
        return io.BytesIO(files[name])

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return files, asked


def test_house_numbers_are_the_photographs_with_their_digits(houses, served, tmp_path):
    """Oracle: the photographs before they were written. The second time nothing is asked."""
    contents, pictures = houses
    served[0].update(contents)
    for _ in range(2):
        data = image_set("svhn")
        np.testing.assert_allclose(data.x * 255, pictures, rtol=1e-12)
        np.testing.assert_array_equal(np.argmax(data.y, axis=1), DIGITS)
    assert [address.rsplit("/", 1)[1] for address in served[1]] == list(contents)
    assert [path.name for path in tmp_path.iterdir()] == ["svhn-1.npz"]
    assert image_set("svhn", classes=(0, 2), labels="sign").num_samples == 4


def test_files_in_the_cache_folder_are_read_and_left(houses, served, tmp_path):
    for name, content in houses[0].items():
        (tmp_path / name).write_bytes(content)
    np.testing.assert_allclose(image_set("svhn").x * 255, houses[1], rtol=1e-12)
    assert served[1] == []
    assert {path.name for path in tmp_path.iterdir()} == {*houses[0], "svhn-1.npz"}


def test_another_file_is_refused(houses, served, tmp_path):
    (tmp_path / "train_32x32.mat").write_bytes(b"not the photographs")
    with pytest.raises(OSError, match=r"train_32x32\.mat must have the MD5 sum [0-9a-f]{32}, an"):
        image_set("svhn")
    assert [path.name for path in tmp_path.iterdir()] == ["train_32x32.mat"]


def test_offline_the_error_says_which_files_would_do(houses, served, tmp_path):
    with pytest.raises(
        OSError, match=r"\(no route to host\).* or put train_32x32\.mat and test_32"
    ):
        image_set("svhn")
    assert list(tmp_path.iterdir()) == []


def test_digits_of_letters_have_grey_levels_from_black_to_white(monkeypatch, served):
    """Oracle: levels 0 … 255 written as numbers from −1 to 1, to four places as there."""
    levels = np.random.default_rng(1).integers(0, 256, (20, 256))
    lines = [
        f"{digit + 1} " + " ".join(f"{i + 1}:{v / 127.5 - 1:.4f}" for i, v in enumerate(row))
        for digit, row in zip(DIGITS, levels, strict=True)
    ]
    parts = ("\n".join(lines[:15]), "\n".join(lines[15:]))
    contents = [bz2.compress(part.encode()) for part in parts]
    served[0].update(made(monkeypatch, "usps", contents, (16, 16, 1)))
    data = image_set("usps")
    np.testing.assert_allclose(data.x.reshape(20, 256) * 255, levels, rtol=1e-12)
    np.testing.assert_array_equal(np.argmax(data.y, axis=1), DIGITS)
