"""`theorylab fetch`, with a stand-in for the network."""

import numpy as np
import pytest

from theorylab.cli.commands import IMAGES
from theorylab.data import downloads


def test_everything_that_is_downloaded_can_be_fetched():
    assert tuple(downloads.DOWNLOADS) == IMAGES


def test_fetch_says_what_there_is_and_where(theorylab, monkeypatch, tmp_path):
    monkeypatch.setenv("THEORYLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(downloads, "download", lambda name: {"labels": np.zeros(7)})
    answer = theorylab("fetch", "mnist", "cifar10")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"mnist: 7 images in {tmp_path}\ncifar10: 7 images in {tmp_path}\n"


def test_offline_it_is_one_line_and_a_failed_run(theorylab, monkeypatch, tmp_path):
    def offline(*args, **kwargs):
        raise OSError("no route to host")

    monkeypatch.setenv("THEORYLAB_CACHE", str(tmp_path))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    answer = theorylab("fetch", "cifar10")
    assert (answer.code, answer.err.count("\n")) == (3, 1)
    assert "digits or mnist5k will do instead" in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "fetch needs one of mnist, fashion_mnist, cifar10, svhn, usps, got none"),
        (("cifar",), "got 'cifar'. Did you mean cifar10?"),
    ],
)
def test_bad_names_are_refused(theorylab, words, message):
    answer = theorylab("fetch", *words)
    assert answer.code == 2
    assert message in answer.err
