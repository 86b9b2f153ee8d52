"""Downloaded images against a source in this process: no test asks the network."""

from types import SimpleNamespace

import numpy as np
import pytest

from theorylab.data import IMAGE_SETS, downloads, image_set
from theorylab.data.downloads import image_shape, num_images


@pytest.fixture
def openml(monkeypatch, tmp_path):
    """A stand-in for OpenML with 20 small photographs; says how often it was asked."""
    monkeypatch.setenv("THEORYLAB_CACHE", str(tmp_path))
    small = downloads.DOWNLOADS["cifar10"]._replace(num_images=20, shape=(2, 3, 3), least=2)
    monkeypatch.setitem(downloads.DOWNLOADS, "cifar10", small)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 18)).astype(float)
    answer = SimpleNamespace(data=pixels, target=np.array(list("0123456789" * 2)), asked=[])

    def fetch_openml(name, **options):
        answer.asked.append(name)
        return answer

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    return answer


def test_images_are_those_of_the_source_with_colours_last_and_asked_for_once(openml):
    """Oracle: the planes of the three colours, one by one."""
    data = image_set("cifar10")
    assert (data.input_shape, data.num_outputs) == ((2, 3, 3), 10)
    for colour in range(3):
        plane = openml.data[:, 6 * colour : 6 * colour + 6].reshape(20, 2, 3)
        np.testing.assert_allclose(data.x[..., colour] * 255, plane, rtol=1e-12)
    np.testing.assert_array_equal(np.argmax(data.y, axis=1), openml.target.astype(int))
    again = image_set("cifar10", classes=(3, 5), labels="sign")
    assert again.num_samples == 4
    assert openml.asked == ["CIFAR_10"]
    assert str(data).endswith("y one-hot. Source: OpenML, CIFAR_10.")


def test_sizes_are_known_without_reading(openml):
    for name in ("digits", "mnist5k", "cifar10"):
        data = image_set(name)
        assert image_shape(name) == data.input_shape
        assert num_images(name) == data.num_samples
    for size in (image_shape, num_images):
        with pytest.raises(ValueError, match=r"images must be one of digits, .* got 'imagenet'"):
            size("imagenet")


def test_what_is_not_whole_is_refused_and_not_kept(openml, tmp_path):
    openml.data = openml.data[:19]
    with pytest.raises(OSError, match="cifar10 must have 20 images of 18 pixels in 10 classes"):
        image_set("cifar10")
    assert list(tmp_path.iterdir()) == []


def test_classes_that_are_nearly_missing_are_refused(openml, tmp_path):
    openml.target = np.array(list("0123456789" + "0123456788"))
    with pytest.raises(OSError, match=r"classes of \[2, 2, 2, 2, 2, 2, 2, 2, 3, 1\] from OpenML"):
        image_set("cifar10")
    assert list(tmp_path.iterdir()) == []


def test_offline_the_error_says_so_and_what_would_do_instead(monkeypatch, tmp_path):
    def offline(*args, **kwargs):
        raise OSError("no route to host")

    monkeypatch.setenv("THEORYLAB_CACHE", str(tmp_path))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    message = r"fashion_mnist is not in the cache .*\(no route to host\).* mnist5k will do instead"
    with pytest.raises(OSError, match=message):
        image_set("fashion_mnist")


def test_what_comes_with_the_install_has_a_name_too():
    assert image_set("digits", classes=(1, 2)).input_shape == (8, 8, 1)
    assert ("digits", "mnist5k", *downloads.DOWNLOADS) == IMAGE_SETS
    with pytest.raises(ValueError, match=r"images must be one of digits, .* got 'imagenet'"):
        image_set("imagenet")
    with pytest.raises(ValueError, match=r"what is downloaded is one of mnist, .* got 'digits'"):
        downloads.download("digits")
