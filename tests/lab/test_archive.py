"""Outcomes as one archive: what goes in comes out; what is no archive changes nothing."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from made_up import made_up

from theorylab.lab import Refused, Store
from theorylab.lab.archive import CONTENTS, export, import_archive
from theorylab.lab.outcome_files import contents

KEYS = ("aa", "ab")


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store(tmp_path / "store")
    store.prepare()
    for key in KEYS:
        os.utime(store.write(made_up(key)), (1e9, 1e9))
    store.write(made_up("bb", experiment="own/mine"))
    return store


@pytest.fixture
def archive(store, tmp_path) -> Path:
    file = tmp_path / "outcomes.tar"
    assert export(store, store.folders(), file, pytest.fail).outcomes == 3
    return file


@pytest.fixture
def other(tmp_path) -> Store:
    """Where archives come in: it has one outcome of its own, which must survive."""
    other = Store(tmp_path / "inner/other")
    other.prepare()
    other.write(made_up("cc"))
    return other


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_goes_in_comes_out(store, archive, other):
    """Oracle: the bytes of the files, and their age."""
    before = everything(other.root)
    done = import_archive(other, archive)
    assert (done.added, done.kept) == (3, 0)
    assert everything(other.root) == everything(store.root) | before
    assert other.path("toys/coin", "aa").stat().st_mtime == 1e9
    assert import_archive(other, archive) == (0, 3)
    assert [each for each in other.verified() if each.fault] == []
    assert {path.name for path in other.root.iterdir()} == {"toys", "own"}


def test_any_program_unpacks_it(store, archive, tmp_path):
    """Oracle: Python's own reader, which wrote none of it."""
    with tarfile.open(archive) as file:
        names = file.getnames()
        file.extractall(tmp_path / "unpacked", filter="data")
    assert names[-1] == CONTENTS
    unpacked = everything(tmp_path / "unpacked")
    listed = json.loads(unpacked.pop(CONTENTS))
    assert unpacked == everything(store.root)
    assert {each["key"] for each in listed["outcomes"]} == {"aa", "ab", "bb"}


def test_one_that_is_there_is_kept(store, archive, other):
    other.write(made_up("aa", seconds=99.0))
    assert import_archive(other, archive) == (2, 1)
    found = other.recall("toys/coin", "aa", pytest.fail)
    assert found is not None
    assert found.seconds == 99.0


def test_damaged_ones_are_left_out_and_named(store, tmp_path, other):
    (store.path("toys/coin", "aa") / "arrays.npz").write_bytes(b"")
    heard: list[str] = []
    done = export(store, store.folders(), tmp_path / "x.tar", heard.append)
    assert (done.outcomes, done.left_out) == (2, 1)
    assert "toys/coin/aa is damaged (arrays.npz does not fit its checksum); left out." in heard[0]
    assert import_archive(other, tmp_path / "x.tar").added == 2


def test_a_file_that_is_there_is_not_written_over(store, archive):
    before = archive.read_bytes()
    with pytest.raises(Refused, match="export writes a new file"):
        export(store, [], archive, pytest.fail)
    assert archive.read_bytes() == before


def files(experiment: str = "toys/coin", key: str = "dd") -> dict[str, bytes]:
    """The files of an outcome, with their names in an archive."""
    made = contents(made_up(key, experiment=experiment))
    return {f"{experiment}/{key}/{name}": content for name, content in made.items()}


def listed(*outcomes: dict[str, bytes]) -> dict[str, bytes]:
    """The list at the end, for outcomes whose names have the usual form."""
    rows = []
    for each in outcomes:
        name = next(name for name in each if name.endswith("/manifest.json"))
        experiment, key = name.removesuffix("/manifest.json").rsplit("/", 1)
        sums = hashlib.sha256(each[name]).hexdigest()
        rows.append({"experiment": experiment, "key": key, "manifest": sums})
    return {CONTENTS: json.dumps({"format": 1, "outcomes": rows}).encode()}


def tar(entries: dict[str, bytes], format: int = tarfile.USTAR_FORMAT, **changes) -> bytes:
    """An archive by Python's own writer; `changes` are of the first entry."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=format) as file:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for attribute, value in changes.items():
                setattr(info, attribute, value)
            changes = {}
            file.addfile(info, io.BytesIO(content))
    return target.getvalue()


def renamed(old: str, new: str) -> bytes:
    entries = {name.replace(old, new): content for name, content in files().items()}
    return tar(entries | listed(files()))


def bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("toys/coin/dd/arrays.npz", bytes(10**7))
    return file.getvalue()


def sized(size: bytes) -> bytes:
    """The first header says another size; its checksum fits."""
    whole = bytearray(tar(files() | listed(files())))
    whole[124:136] = size.ljust(12, b"\0")
    whole[148:156] = b" " * 8
    whole[148:156] = b"%06o\0 " % sum(whole[:512])
    return bytes(whole)


WHOLE = tar(files() | listed(files()))
INSIDE = files("toys/coin/cc", "dd")  # the store has an outcome toys/coin/cc
BOTH = files("own/ab", "cd"), files("own", "ab")
HOSTILE = {
    "empty": b"",
    "no archive": b"x" * 5000,
    "zeros": bytes(10240),
    "a zip": bomb(),
    "absolute": renamed("toys/coin", "/tmp/theorylab-absolute"),
    "upwards": renamed("toys/coin", "../../escaped"),
    "upwards inside": renamed("toys/coin", "toys/../../../escaped"),
    "a dot": renamed("toys/coin", "toys/./coin"),
    "hidden": renamed("toys/coin", ".writing-x"),
    "backslash": renamed("toys/coin", "toys\\..\\..\\coin"),
    "a drive": renamed("toys/coin", "C:/coin"),
    "set aside": renamed("toys/coin", "toys/ab.damaged-1"),
    "a line break": renamed("toys/coin", "toys\ncoin"),
    "no experiment": renamed("toys/coin/", ""),
    "no key": renamed("/dd/", "/xyz/"),
    "long": renamed("toys/coin", "/".join(["a" * 20] * 7)),
    "a file of its own": renamed("figure.svg", "more.svg"),
    "a file in a folder": renamed("figure.svg", "inner/figure.svg"),
    "another experiment": renamed("toys/coin", "toys/dice"),
    "another key": renamed("/dd/", "/de/"),
    "a symbolic link": tar(files() | listed(files()), type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a link": tar(files() | listed(files()), type=tarfile.LNKTYPE, linkname="/etc/passwd"),
    "a device": tar(files() | listed(files()), type=tarfile.CHRTYPE, devmajor=1, devminor=5),
    "a pipe": tar(files() | listed(files()), type=tarfile.FIFOTYPE),
    "a folder": tar(files() | listed(files()), type=tarfile.DIRTYPE),
    "extended": tar(files() | listed(files()), tarfile.PAX_FORMAT, pax_headers={"path": "/x"}),
    "of GNU": tar(files() | listed(files()), tarfile.GNU_FORMAT),
    "sparse": tar(files() | listed(files()), type=b"S"),
    "huge": sized(b"77777777777"),
    "negative": sized(b"-0000000001"),
    "no number": sized(b"9x"),
    "binary size": sized(b"\x80\0\0\0\0\0\0\x01\0\0\0\0"),
    "cut off": WHOLE[:3000],
    "without its list": tar(files()),
    "a list of others": tar(files() | listed(files(key="ee"))),
    "a list of more": tar(files() | listed(files(), files(key="ee"))),
    "a list that is none": tar(files() | {CONTENTS: b"[]"}),
    "a list too deep": tar(files() | {CONTENTS: b"[" * 10**5}),
    "another format": tar(files() | {CONTENTS: b'{"format": 2, "outcomes": []}'}),
    "damaged": tar(files() | {"toys/coin/dd/figure.svg": b"<svg>"} | listed(files())),
    "not whole": tar(dict(list(files().items())[:3]) | listed(files())),
    "twice": WHOLE.replace(tar(listed(files()))[:-9216], b"") + WHOLE,
    "out of order": tar(
        dict(list(files().items())[:3]) | files(key="ee") | files() | listed(files())
    ),
    "inside of another": tar(INSIDE | listed(INSIDE)),
    "around another": tar(BOTH[0] | BOTH[1] | listed(*BOTH)),
    "an array that is none": tar(files() | {"toys/coin/dd/arrays.npz": b"PK"} | listed(files())),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_archive_of_outcomes_leaves_all_as_it_was(other, tmp_path, kind):
    file = tmp_path / "hostile.tar"
    file.write_bytes(HOSTILE[kind])
    before = everything(tmp_path)
    with pytest.raises(Refused) as caught:
        import_archive(other, file)
    assert str(file) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert everything(tmp_path) == before
    assert os.listdir(other.root) == ["toys"]
    assert not Path("/tmp/theorylab-absolute").exists()


def test_what_is_whole_is_no_hostile_one(other, tmp_path):
    """The forger of the tests above makes archives that are taken, if nothing is wrong."""
    (tmp_path / "x.tar").write_bytes(WHOLE)
    assert import_archive(other, tmp_path / "x.tar").added == 1


@pytest.mark.parametrize("kind", ["fifo", "folder", "none", "zero"])
def test_what_is_no_plain_file(other, tmp_path, kind):
    file = tmp_path / "file"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "zero":
        file.symlink_to("/dev/zero")
    with pytest.raises(Refused, match="import reads a"):
        import_archive(other, file)


def test_an_archive_for_which_there_is_no_room(other, archive, monkeypatch):
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage(1, 1, 10))
    with pytest.raises(Refused, match=r"needs \d+ bytes in the store, there is room for 10"):
        import_archive(other, archive)


def test_a_date_in_the_future_is_not_believed(other, tmp_path):
    """The latest outcome of a config is the one that a report shows."""
    (tmp_path / "x.tar").write_bytes(tar(files() | listed(files()), mtime=8**11 - 1))
    import_archive(other, tmp_path / "x.tar")
    assert other.path("toys/coin", "dd").stat().st_mtime < 8**11 - 1e6


IMPORTING = """
import sys
from pathlib import Path
from theorylab.lab import Store
from theorylab.lab.archive import import_archive
print(*import_archive(Store(Path(sys.argv[1])), Path(sys.argv[2])))
"""


def test_two_processes_that_import_the_same(store, archive, tmp_path):
    """Each outcome is added by one of them."""
    command = [sys.executable, "-c", IMPORTING, str(tmp_path / "third"), str(archive)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    added = [int(process.communicate(timeout=100)[0].split()[0]) for process in running]
    assert sum(added) == 3
    assert everything(tmp_path / "third") == everything(store.root)
