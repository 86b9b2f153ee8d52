"""A store in which somebody wrote with intent: every checksum fits, nothing else does.

Whatever it is, one line names it, it is set aside, and all else goes on.
"""

import hashlib
import io
import json
import os
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from made_up import made_up

from theorylab.lab import Store
from theorylab.report.page import render_page


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store(tmp_path / "store")
    store.prepare()
    store.write(made_up("aaaa", config={"width": 7}))  # the neighbour, which must survive
    return store


def forge(store: Store, name: str, content: bytes) -> Path:
    """Write an outcome with another file in it, and a checksum that fits."""
    path = store.write(made_up())
    (path / name).write_bytes(content)
    sums = json.loads((path / "manifest.json").read_bytes())
    sums[name] = hashlib.sha256(content).hexdigest()
    (path / "manifest.json").write_text(json.dumps(sums))
    return path


def require_one_line(store: Store, path: Path, *, seen_by_report: bool = True) -> str:
    """Read the store as `report` and as `run` do; gives what is said about the outcome."""
    began, heard = time.monotonic(), []
    assert ("aaaa" in [each.key for each in store.outcomes(heard.append)]) is True
    if seen_by_report:
        assert len(heard) == 1
        assert str(path) in heard[0]
    else:
        assert heard == []
    heard.clear()
    assert store.recall("toys/coin", path.name, heard.append) is None
    (line,) = heard
    assert f"the outcome in {path} is damaged (" in line
    assert "set aside as" in line
    assert len(line.splitlines()) == 1
    assert len(line) < 700
    assert time.monotonic() - began < 5
    assert store.recall("toys/coin", "aaaa", heard.append) is not None
    return line


DEEP = b"[" * 200_000 + b"]" * 200_000


@pytest.mark.parametrize("name", ["config.json", "findings.json", "outcome.json"])
@pytest.mark.parametrize("content", [DEEP, b"NaN", b"[]", b"3", b'"x"', b"null", b"{}", b"\xff"])
def test_json_that_is_no_record(store, name, content):
    if (name, content) in {("findings.json", b"[]"), ("config.json", b"{}")}:
        return  # these may be
    require_one_line(store, forge(store, name, content))


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("seconds", "NaN"),
        ("seconds", "Infinity"),
        ("seconds", "-1"),
        ("seconds", "1e999"),
        ("seconds", '"long"'),
        ("title", "3"),
        ("title", "null"),
        ("description", "[]"),
        ("failure", "{}"),
        ("environment", "[]"),
        ("environment", '{"jax": []}'),
        ("preset", "1"),
        ("experiment", "[]"),
        ("key", '"x\\ny"'),
    ],
)
def test_wrong_types_in_an_outcome(store, entry, value):
    path = store.write(made_up())
    record = json.loads((path / "outcome.json").read_bytes())
    record[entry] = "VALUE"
    require_one_line(
        store, forge(store, "outcome.json", json.dumps(record).replace('"VALUE"', value).encode())
    )


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("kind", "opinion"),
        ("kind", []),
        ("verdict", "maybe"),
        ("verdict", {}),
        ("expected", 1),
        ("measured", []),
        ("measured", "many"),
        ("measured", True),
        ("interval", [1]),
        ("interval", {"a": 1, "b": 2}),
        ("interval", [None, None]),
        ("demand", [2, 1]),
        ("demand", ["nan", "nan"]),
        ("source", {}),
        ("source", {"key": "zhu", "system": 1, "place": ""}),
        ("source", {"key": "zhu", "system": "", "place": "", "more": ""}),
        ("source", "zhu"),
        ("statement", None),
        ("method", 3),
        ("formula", []),
    ],
)
def test_wrong_types_in_a_finding(store, entry, value):
    path = store.write(made_up())
    findings = json.loads((path / "findings.json").read_bytes())
    findings[0][entry] = value
    require_one_line(store, forge(store, "findings.json", json.dumps(findings).encode()))


@pytest.mark.parametrize("value", [None, {}, [[1]], [None], {"a": 1}])
def test_wrong_types_in_a_config(store, value):
    require_one_line(store, forge(store, "config.json", json.dumps({"width": value}).encode()))


def npy(header: str, data: bytes) -> bytes:
    body = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body + data


def npz(content: bytes, **options) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        archive.writestr("a.npy", content)
    return file.getvalue()


HUGE = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2400000000,)}", b"12345678")
OBJECTS = npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\nsystem\n(S'x'\ntR.")
WHOLE = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", b"12345678")


@pytest.mark.parametrize(
    "content",
    [
        npz(HUGE),
        npz(OBJECTS),
        npz(WHOLE[:-1]),
        npz(WHOLE + b"more"),
        npz(b"\x93NUMPY\x09\x00"),
        npz(b""),
        npz(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", b"")),
        npz(npy("__import__('os')", b"")),
        npz(bytes(10**6), compression=zipfile.ZIP_DEFLATED),
        npz(WHOLE, compression=zipfile.ZIP_DEFLATED).replace(WHOLE[-6:], b"\xff" * 6),
        npz(WHOLE).replace(b"12345678", b"87654321"),
        npz(WHOLE).replace(b"PK\1\2\x14\3\x14\0\0\0", b"PK\1\2\x14\3\x14\0\1\0"),  # a password
        b"PK\x03\x04",
        b"",
    ],
)
def test_arrays_that_are_none(store, content):
    require_one_line(store, forge(store, "arrays.npz", content), seen_by_report=False)


def test_an_archive_that_is_whole_is_read(store):
    forge(store, "arrays.npz", npz(WHOLE))
    found = store.recall("toys/coin", made_up().key, pytest.fail)
    assert found is not None
    assert found.arrays["a"].tobytes() == b"12345678"


@pytest.mark.parametrize("name", ["config.json", "manifest.json", "figure.svg", "arrays.npz"])
@pytest.mark.parametrize("kind", ["fifo", "zero", "folder", "loop", "large"])
def test_what_is_no_plain_file_of_its_size(store, name, kind):
    path = store.write(made_up())
    file = path / name
    file.unlink()
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "zero":
        file.symlink_to("/dev/zero")
    elif kind == "folder":
        file.mkdir()
    elif kind == "loop":
        file.symlink_to(file)
    else:
        with file.open("wb") as opened:
            opened.truncate(2**32 + 1)  # takes no room on the disk
    folder_inside = kind == "folder"  # then it is no outcome at all
    seen = name != "arrays.npz" and not folder_inside
    require_one_line(store, path, seen_by_report=seen)


def test_an_outcome_too_large_to_be_read_back_is_not_written(store):
    with pytest.raises(ValueError, match=r"config.json must have at most 1048576 bytes"):
        store.write(made_up("bb", config={"name": "x" * 2**20}))
    assert not store.path("toys/coin", "bb").exists()


def test_figures_as_deep_as_they_like_leave_the_page_whole(store):
    deep = '<svg xmlns="http://www.w3.org/2000/svg">' + "<g>" * 50_000 + "</g>" * 50_000 + "</svg>"
    forge(store, "figure.svg", deep.encode())
    assert "It holds η." in render_page(store.outcomes(pytest.fail))


def test_a_goal_outside_the_store_is_not_followed(store, tmp_path):
    """What a killed process was replacing goes to its place, and nowhere else."""
    for goal in ("../../outside/ab", "/outside/ab", "a/../../b/ab", "toys/x y/ab", ""):
        draft = store.root / ".writing-nobody-1-x"
        (draft / "outcome").mkdir(parents=True)
        (draft / "replaced").mkdir()
        (draft / "goal").write_text(goal)
        os.utime(draft, (0, 0))
        store.prepare()
        assert not draft.exists()
        assert {path.name for path in store.root.iterdir()} == {"toys"}
    assert not (tmp_path / "outside").exists()


def test_arrays_of_every_kind_survive(store):
    """Oracle: the arrays themselves, of all kinds that a result may hold."""
    arrays = {
        "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "empty": np.zeros((0, 3)),
        "scalar": np.array(2.5, np.float32),
        "complex": np.array([1 + 2j]),
        "bool": np.array([True]),
        "text": np.array(["η", "long"]),
        "slice": np.arange(10)[::3],
    }
    store.write(made_up("cc", arrays=arrays))
    found = store.recall("toys/coin", "cc", pytest.fail)
    assert found is not None
    for name, array in arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)
        assert found.arrays[name].dtype == array.dtype
