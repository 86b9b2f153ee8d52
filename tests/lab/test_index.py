"""The index says what the files say, whatever happened to either."""

import hashlib
import importlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import made_up

import theorylab
from theorylab.folders import cache_folder
from theorylab.lab import Refused, Store, index_place, index_refresh
from theorylab.lab.filesystems import is_shared, kind_of
from theorylab.lab.index import where_is


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store(tmp_path / "store")
    store.prepare()
    for number in range(6):
        store.write(made_up(f"a{number}", config={"width": number}))
    store.write(made_up("bb", experiment="toys/bead/fade"))
    settle(store)
    return store


def settle(store: Store) -> None:
    """Make everything old enough for its time of change to be trusted."""
    for number, folder in enumerate([store.root, *store.root.rglob("*/")]):
        if ".index" not in folder.parts:
            os.utime(folder, (1e9 + number, 1e9 + number))


def keys(store: Store, where: str = "") -> list[str]:
    return sorted(hit.key for hit in store.find(where))


def in_files(store: Store) -> list[str]:
    """Oracle: a reading of all files."""
    return sorted(outcome.key for _, outcome in store.readable())


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """The outcomes that are read from files, by the index."""
    from theorylab.lab import outcome_files

    read, seen = outcome_files.read_outcome, []

    def counted(folder, names):
        seen.append(folder.name)
        return read(folder, names)

    monkeypatch.setattr(outcome_files, "read_outcome", counted)
    return seen


def test_only_what_is_new_is_read(store, reads):
    assert keys(store) == in_files(store)
    reads.clear()
    assert keys(store) == in_files(store)
    assert reads == []
    store.write(made_up("cc"))
    assert keys(store) == in_files(store)
    assert reads == ["cc"]
    assert (store.root / ".index/outcomes.sqlite").is_file()


def test_replaced_deleted_renamed_and_damaged_ones(store, reads):
    keys(store)
    store.write(made_up("a1", config={"width": 100}), replace=True)
    store.delete(store.path("toys/coin", "a2"))
    store.path("toys/coin", "a3").rename(store.path("toys/coin", "a3.damaged-1"))
    (store.write(made_up("dd")) / "findings.json").write_text("[]")
    found = store.find()
    assert sorted(hit.key for hit in found) == in_files(store)
    assert [hit.key for hit in store.find("width = 100")] == ["a1"]
    assert [each[:2] for each in found.damaged] == [("toys/coin", "dd")]
    assert "does not fit its checksum" in found.damaged[0][2]
    shutil.rmtree(store.root / "toys/bead")
    shutil.rmtree(store.path("toys/coin", "dd"))
    assert store.find().damaged == ()
    assert keys(store) == in_files(store) == ["a0", "a1", "a4", "a5"]


def test_a_damaged_one_that_is_mended_in_its_folder_is_seen(store):
    path = store.path("toys/coin", "a1")
    content = (path / "config.json").read_bytes()
    (path / "config.json").unlink()
    settle(store)
    assert "a1" not in keys(store)
    (path / "config.json").write_bytes(content)
    os.utime(path.parent, (1e9, 1e9))  # all that changed is the outcome's own folder
    assert "a1" in keys(store)


def test_changes_in_one_tick_of_the_clock_are_seen(store):
    """The folder's time of change is the same before and after."""
    for number in range(6):
        store.write(made_up(f"e{number}"))
        now = time.time()
        os.utime(store.root / "toys/coin", (now, now))
        assert keys(store) == in_files(store)
        store.delete(store.path("toys/coin", f"e{number}"))
        os.utime(store.root / "toys/coin", (now, now))
        assert keys(store) == in_files(store)


HARM = {
    "lost": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "no database": lambda file: file.write_bytes(b"x" * 5000),
    "truncated": lambda file: os.truncate(file, file.stat().st_size // 2),
    "garbled": lambda file: file.write_bytes(file.read_bytes()[:100] + os.urandom(30_000)),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "a loop": lambda file: (file.unlink(), file.symlink_to(file)),
    "another version": lambda file: execute(file, "PRAGMA user_version = 99"),
    "no tables": lambda file: execute(file, "DROP TABLE findings"),
    "a view for a table": lambda file: execute(
        file, "DROP TABLE findings", "CREATE VIEW findings AS SELECT randomblob(9) AS outcome"
    ),
}


def execute(file: Path, *statements: str) -> None:
    with sqlite3.connect(file) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("harm", HARM)
def test_an_index_that_is_lost_or_damaged_is_made_anew(store, harm):
    keys(store)
    HARM[harm](store.root / ".index/outcomes.sqlite")
    assert keys(store, "any(value = 0.5)") == in_files(store)
    store.write(made_up("cc"))
    assert keys(store, "any(value = 0.5)") == in_files(store)


def test_a_rebuilt_index_sees_what_was_changed_in_place(store):
    """No time of any folder tells that a person edited a file."""
    keys(store)
    (store.path("toys/coin", "a1") / "findings.json").write_text("[]")
    assert "a1" not in [hit.key for hit in store.find(rebuild=True)]


MOUNTS = "disk / ext4 rw 0 0\nserver:/s {} nfs4 rw 0 0\n"


def test_on_a_network_file_system_the_index_is_in_the_cache(store, monkeypatch):
    mounts = MOUNTS.format(store.root)
    monkeypatch.setattr(index_place, "is_shared", lambda folder: is_shared(folder, mounts))
    monkeypatch.setattr(index_place, "kind_of", lambda folder: kind_of(folder, mounts))
    assert keys(store) == in_files(store)
    assert not (store.root / ".index").exists()
    place = where_is(store.root)
    assert place is not None
    assert place.path.parent == cache_folder() / "index"
    assert place.why == "the store is on nfs4"


def test_where_nothing_can_be_written_the_index_is_in_memory(store, monkeypatch):
    monkeypatch.setattr(index_place, "is_shared", lambda folder: True)
    assert keys(store) == in_files(store)
    assert where_is(store.root) is None
    assert not (store.root / ".index").exists()


def test_a_folder_for_all_that_others_may_write_to_is_not_used(tmp_path, monkeypatch):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(PermissionError):
        index_place.ready(index_place.IndexPlace(folder / "x.sqlite", "because"))


@pytest.mark.parametrize(
    ("folder", "kind", "shared"),
    [
        ("/", "ext4", False),
        ("/home/me/store", "nfs4", True),
        ("/homeland", "ext4", False),
        ("/with space/a", "cifs", True),
        ("/mnt/a", "fuse.sshfs", True),
        ("/mnt/local/a", "fuse.fuse-overlayfs", False),
        ("/twice", "lustre", True),
        ("/tmp/x", "tmpfs", False),
    ],
)
def test_kinds_of_file_systems(folder, kind, shared):
    """Oracle: the table of mounts, read by eye."""
    mounts = (
        "disk / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n//s/x /with\\040space cifs rw 0 0\n"
        "me@s /mnt fuse.sshfs rw 0 0\nx /mnt/local fuse.fuse-overlayfs rw 0 0\n"
        "tmpfs /tmp tmpfs rw\n"
        "disk /twice ext4 rw 0 0\nx /twice lustre rw 0 0\nodd\n"
    )
    assert kind_of(Path(folder), mounts) == kind
    assert is_shared(Path(folder), mounts) is shared


ASKING = """
import random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from made_up import made_up
from theorylab.lab import Store
store, name = Store(Path(sys.argv[1])), sys.argv[3]
chance = random.Random(name)
for number in range(12):
    key = f"{name}{number:02x}"
    store.write(made_up(key))
    found = [hit.key for hit in store.find("config.width = 3")]
    assert key in found, (key, found)
    if chance.random() < 0.1:
        (store.root / ".index/outcomes.sqlite").write_bytes(b"damaged")
"""


def test_processes_that_write_and_ask_at_once_see_what_they_wrote(store):
    """One of them damages the index now and then."""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", ASKING, str(store.root), here]
    running = [
        subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True)
        for name in ("c1", "c2", "c3")
    ]
    for process in running:
        _, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors
    assert keys(store) == in_files(store)
    assert len(keys(store)) == 7 + 3 * 12


KILLED = """
import os, signal, sqlite3, sys
from pathlib import Path
from theorylab.lab import Store, index
opened, moment = index._opened, int(sys.argv[2])
count = 0
def stop(statement):
    global count
    count += 1
    if count == moment:
        os.kill(os.getpid(), signal.SIGKILL)
def traced(path):
    connection = opened(path)
    connection.set_trace_callback(stop)
    return connection
index._opened = traced
Store(Path(sys.argv[1])).find()
"""


def test_killed_at_any_statement_the_next_question_is_answered(store, monkeypatch):
    """Every statement of building an index; what was built before stays right."""
    monkeypatch.setattr(index_refresh, "BATCH", 1)
    moments = 0
    for moment in range(1, 400, 12):  # each is a process of its own, and costs a fifth of a second
        shutil.rmtree(store.root / ".index", ignore_errors=True)
        command = [sys.executable, "-c", KILLED, str(store.root), str(moment)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert keys(store) == in_files(store), moment
        if ended.returncode == 0:
            break
        moments += 1
        assert ended.returncode == -9, ended.stderr
    assert moments > 5


def test_names_and_limits(store):
    assert [hit.key for hit in store.find(experiment="toys/bead/fade")] == ["bb"]
    assert len(store.find(experiment="toys")) == 7
    assert len(store.find(limit=2)) == 2
    with pytest.raises(Refused, match=r"no outcome of 'toys/coni'.* Did you mean toys/coin"):
        store.find(experiment="toys/coni")
    with pytest.raises(Refused, match="limit must be at least 0, got -1"):
        store.find(limit=-1)
    with pytest.raises(Refused, match="there is no store in"):
        Store(store.root / "none").find()
    assert len(Store(store.root / "toys/bead/fade/bb").find()) == 0


def test_links_are_followed_once(store, tmp_path):
    elsewhere = Store(tmp_path / "elsewhere")
    elsewhere.prepare()
    elsewhere.write(made_up("f1"))
    (store.root / "linked").symlink_to(elsewhere.root / "toys")
    (store.root / "toys/loop").symlink_to(store.root)
    assert keys(store) == in_files(store)
    assert "f1" in keys(store)


def test_what_was_found_is_read_and_is_a_table(store):
    found = store.find("width >= 4 and value = 0.5")
    assert [outcome.config["width"] for outcome in found.outcomes()] == [4, 5]
    assert [each["value"] for each in found[0].findings] == [0.5]
    frame = found.to_pandas()
    assert frame["width"].tolist() == [4, 5]
    assert frame["inconclusive"].tolist() == [3, 3]
    shutil.rmtree(store.path("toys/coin", "a4"))
    heard: list[str] = []
    assert len(list(found.outcomes(heard.append))) == 1
    assert len(heard) == 1
    assert "2 outcomes" in repr(found)


def test_whole_numbers_that_sqlite_cannot_hold(store):
    path = store.write(made_up("ee"))
    content = json.dumps({"seed": 10**30, "large": 10**400, "name": "\ud800"}).encode()
    (path / "config.json").write_bytes(content)
    sums = json.loads((path / "manifest.json").read_bytes())
    sums["config.json"] = hashlib.sha256(content).hexdigest()
    (path / "manifest.json").write_text(json.dumps(sums))
    assert keys(store, "seed = 1e30 and large = inf") == ["ee"]


def test_find_answers_from_the_store_by_old_names_too(folders, monkeypatch):
    """Oracle: the same question asked of the store."""
    store = theorylab.lab.Store(folders / "store")
    store.prepare()
    for width in (1, 2, 3):
        store.write(made_up(f"a{width}", config={"width": width}))
    entrance = importlib.import_module("theorylab.entrance")
    tree = replace(entrance.EXPERIMENTS, renames={"toys/euro": "toys/coin"})
    monkeypatch.setattr(entrance, "EXPERIMENTS", tree)
    found = theorylab.find("width >= 2", experiment="toys/euro", store=folders / "store")
    assert [hit.key for hit in found] == ["a2", "a3"]
    assert [hit.key for hit in theorylab.find("width >= 2", limit=1)] == ["a2"]
    with pytest.raises(ValueError, match="where must have a value, got the end"):
        theorylab.find("width >=")
