"""A card that was saved is read as it was; what is no such file ends in words."""

import io
import json
import zipfile

import numpy as np
import pytest

from theorylab.checkup import load
from theorylab.checkup.files import _PAGE


@pytest.fixture(params=["card", "hostile", "empty", "numpy_numbers"])
def any_card(request):
    return request.getfixturevalue(request.param)


def same(one, other):
    """Equal, where NaN equals NaN."""
    return one == other or (one != one and other != other)


def test_a_card_is_read_as_it_was_saved(any_card, tmp_path):
    """Oracle: the card itself, number by number, to the last bit."""
    any_card.save(tmp_path / "card.npz")
    read = load(tmp_path / "card.npz")
    assert read.verdict == any_card.verdict
    assert read.about.keys() == any_card.about.keys()
    assert all(same(read.about[name], value) for name, value in any_card.about.items())
    assert len(read.rows) == len(any_card.rows)
    for row, was in zip(read.rows, any_card.rows, strict=True):
        assert (row.name, row.status, row.seconds, row.reason) == (
            was.name,
            was.status,
            was.seconds,
            was.reason,
        )
        for name in ("group", "title", "source", "experiment", "needs"):
            assert getattr(row.measure, name) == getattr(was.measure, name)
        if was.reading is None:
            assert row.reading is None
            continue
        assert row.reading is not None
        for name in ("value", "low", "high", "certainty", "method", "meaning", "products"):
            assert same(getattr(row.reading, name), getattr(was.reading, name))
        assert row.reading.details.keys() == was.reading.details.keys()
        assert all(same(row.reading.details[k], v) for k, v in was.reading.details.items())
        assert row.reading.curves.keys() == was.reading.curves.keys()
        for name, values in was.reading.curves.items():
            np.testing.assert_array_equal(row.reading.curves[name], values)


def test_a_card_that_was_read_is_shown_as_it_was(card, tmp_path):
    card.save(tmp_path / "card.npz")
    read = load(tmp_path / "card.npz")
    assert str(read) == str(card)
    assert read.to_json() == card.to_json()
    assert read._repr_html_() == card._repr_html_()


def test_curves_are_there_for_numpy_and_the_same_card_gives_the_same_bytes(card, tmp_path):
    for name in ("one.npz", "two.npz"):
        card.save(tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with np.load(tmp_path / "one.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(
            archive["hessian_spectrum.eigenvalues"], 8.0 / np.arange(1, 13) ** 2
        )


def rewritten(path, **changes):
    """The file with other parts of its page, or other members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    page = json.loads(members[_PAGE])
    for place, value in changes.items():
        *above, last = place.split("__")
        part = page
        for name in above:
            part = part[int(name) if name.isdecimal() else name]
        part[last] = value
    members[_PAGE] = json.dumps(page).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "theorylab answer"},
        {"version": 2},
        {"rows": 3},
        {"rows": [3]},
        {"verdict": [["edge"]]},
        {"verdict": [["edge", 3]]},
        {"about": []},
        {"about": {"inputs": None}},
        {"rows__0__status": "fine"},
        {"rows__0__group": "kernel trick"},
        {"rows__0__source": ["arora"]},
        {"rows__0__seconds": {"float": "1e400"}},
        {"rows__0__reading": {}},
        {"rows__0__reading__value": "12"},
        {"rows__0__reading__certainty": "sure"},
        {"rows__0__reading__products": 2.5},
        {"rows__0__reading__curves": {"a": "../../etc/passwd"}},
        {"rows__0__reading__details": {"a": [1]}},
    ],
    ids=str,
)
def test_a_page_that_says_what_no_card_says_is_refused_on_one_line(card, tmp_path, changes):
    path = tmp_path / "card.npz"
    card.save(path)
    rewritten(path, **changes)
    with pytest.raises(ValueError, match="must be the whole file of a card") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_every_cut_and_every_other_file_is_refused_on_one_line(card, tmp_path):
    path = tmp_path / "card.npz"
    card.save(path)
    whole = path.read_bytes()
    for content in (b"", b"{}", whole[:-1], whole[: len(whole) // 2], whole[100:]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="must be the whole file of a card"):
            load(path)
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="must be the whole file of a card"):
        load(path, max_bytes=100)
    with pytest.raises(OSError, match="No such file"):
        load(tmp_path / "nothing.npz")


def test_nothing_is_unpickled(card, tmp_path):
    """Oracle: an object array, which only pickle can read."""
    path = tmp_path / "card.npz"
    card.save(path)
    content = io.BytesIO()
    np.save(content, np.array([{}]), allow_pickle=True)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["hessian_spectrum.eigenvalues.npy"] = content.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, each in members.items():
            archive.writestr(name, each)
    with pytest.raises(ValueError, match="must be the whole file of a card"):
        load(path)
