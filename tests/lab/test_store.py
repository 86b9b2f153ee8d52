"""The store: whole or not at all, whatever happens to the process or to the files."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_up import made_up

from theorylab.lab import Outcome, Refused, Store
from theorylab.lab.outcome_files import to_json

FILES = ("config.json", "findings.json", "outcome.json", "arrays.npz", "figure.svg")


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store(tmp_path / "somewhere" / "store")
    store.prepare()
    return store


@pytest.fixture
def heard() -> list[str]:
    return []


def recalled(store: Store, outcome: Outcome, heard: list[str]) -> Outcome | None:
    return store.recall(outcome.experiment, outcome.key, heard.append)


def test_what_is_written_is_read_back(store, heard):
    before = made_up()
    path = store.write(before)
    after = recalled(store, before, heard)
    assert after is not None
    assert after.stored
    assert repr(after.judged) == repr(before.judged)  # NaN is not equal to itself
    for name in ("experiment", "title", "preset", "config", "figure", "seconds", "environment"):
        assert getattr(after, name) == getattr(before, name)
    for name, array in before.arrays.items():
        np.testing.assert_array_equal(after.arrays[name], array)
        assert after.arrays[name].dtype == array.dtype
    assert path == store.root / "toys" / "coin" / before.key
    assert sorted(os.listdir(path)) == sorted([*FILES, "manifest.json"])
    assert os.listdir(store.root) == ["toys"]  # nothing temporary is left
    assert heard == []


def test_what_is_not_there_is_none(store, heard):
    assert store.recall("toys/coin", "0000", heard.append) is None
    assert heard == []


def test_the_files_are_strict_json(store):
    """Oracle: a parser that refuses the literals NaN and Infinity."""
    path = store.write(made_up())

    def refuse(literal):
        raise AssertionError(literal)

    for file in path.glob("*.json"):
        json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse)
    findings = json.loads((path / "findings.json").read_text(encoding="utf-8"))
    assert [finding["measured"] for finding in findings] == [0.5, "nan", "inf"]
    with pytest.raises(ValueError, match="JSON"):
        to_json({"x": math.nan})


def test_the_same_outcome_gives_the_same_bytes(tmp_path):
    first, second = (Store(tmp_path / name) for name in "ab")
    for store in (first, second):
        store.prepare()
        store.write(made_up())
    for file in first.root.rglob("*.*"):
        assert file.read_bytes() == (second.root / file.relative_to(first.root)).read_bytes()


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
@pytest.mark.parametrize("harm", ["truncate", "garble", "delete", "empty"])
def test_a_damaged_outcome_is_named_and_set_aside(store, heard, name, harm):
    outcome = made_up()
    file = store.write(outcome) / name
    content = file.read_bytes()
    if harm == "delete":
        file.unlink()
    else:
        middle = len(content) // 2
        garbled = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        file.write_bytes({"truncate": content[:middle], "garble": garbled, "empty": b""}[harm])
    assert recalled(store, outcome, heard) is None
    (line,) = heard
    assert str(file.parent) in line
    assert "\n" not in line
    assert file.parent.with_name(f"{outcome.key}.damaged-1").is_dir()
    store.write(outcome)
    assert recalled(store, outcome, heard) is not None


def test_every_damaged_copy_is_kept(store, heard):
    outcome = made_up()
    for _ in range(2):
        (store.write(outcome) / "figure.svg").unlink()
        recalled(store, outcome, heard)
    names = {path.name for path in (store.root / "toys/coin").iterdir()}
    assert names == {f"{outcome.key}.damaged-1", f"{outcome.key}.damaged-2"}


@pytest.mark.parametrize("text", ["[]", "3", "null", "{}", '{"config.json": []}', "\udcff"])
def test_a_manifest_that_is_no_manifest_is_damage(store, heard, text):
    outcome = made_up()
    path = store.write(outcome)
    (path / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert recalled(store, outcome, heard) is None
    assert len(heard) == 1


def test_an_outcome_under_a_foreign_key_is_damage(store, heard):
    path = store.write(made_up())
    path.rename(path.with_name("ffff"))
    assert store.recall("toys/coin", "ffff", heard.append) is None
    assert "another outcome" in heard[0]


def seconds(store: Store, outcome: Outcome) -> float:
    found = recalled(store, outcome, [])
    assert found is not None
    return found.seconds


def test_the_first_of_two_writers_wins_unless_the_second_replaces(store):
    first, second = made_up(seconds=1.0), made_up(seconds=2.0)
    store.write(first)
    store.write(second)
    assert seconds(store, first) == 1.0
    store.write(second, replace=True)
    assert seconds(store, first) == 2.0
    store.write(made_up(key="aa"), replace=True)  # nothing to replace
    assert os.listdir(store.root) == ["toys"]


def test_a_write_that_fails_leaves_nothing(store, monkeypatch):
    def full(path, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        store.write(made_up())
    assert list(store.root.glob("toys/coin/*")) == list(store.root.glob(".*")) == []


def test_a_folder_that_another_process_deletes_is_made_again(store, heard, monkeypatch):
    """The last outcome of an experiment is deleted just before the next one comes."""
    rename, times = Path.rename, []

    def late(path, target):
        if target.name == "0123456789abcdef" and len(times) < 2:
            times.append(target)
            target.parent.rmdir()
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", late)
    store.write(made_up())
    assert len(times) == 2
    assert recalled(store, made_up(), heard) is not None


def test_a_link_to_an_outcome_is_deleted_and_not_the_outcome(store, heard, tmp_path):
    other = Store(tmp_path / "other")
    other.prepare()
    path = other.write(made_up())
    (store.root / "toys").mkdir()
    (store.root / "toys/coin").symlink_to(path.parent)
    store.delete(store.root / "toys/coin")
    assert os.listdir(store.root) == []
    assert recalled(other, made_up(), heard) is not None


def test_what_dead_processes_left_is_swept_and_what_the_living_write_is_not(store):
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    host = os.uname().nodename
    for name in (f"{host}-{done.pid}-x", f"{host}-{os.getpid()}-x", "other-host-1-x", "strange"):
        (store.root / f".writing-{name}" / "outcome").mkdir(parents=True)
    os.utime(store.root / ".writing-other-host-1-x", (0, 0))
    store.prepare()
    assert {path.name for path in store.root.iterdir()} == {
        f".writing-{host}-{os.getpid()}-x",
        ".writing-strange",
    }


@pytest.mark.parametrize("place", ["/proc/theorylab/store", "FILE", "FILE/inner"])
def test_a_store_that_cannot_be_written_is_refused(tmp_path, place):
    (tmp_path / "file").write_text("")
    folder = place.replace("FILE", str(tmp_path / "file"))
    with pytest.raises(Refused, match=f"the store must be a folder that can be .*, got {folder}"):
        Store(Path(folder)).prepare()


def test_outcomes_gives_the_latest_of_every_config_without_arrays(store, heard):
    old, new = made_up("aa", seconds=1.0), made_up("bb", seconds=2.0)
    other = made_up("cc", config={"width": 4})
    dice = made_up("dd", experiment="toys/a_dice")
    for age, outcome in enumerate((new, other, dice, old)):
        os.utime(store.write(outcome), (1e9 - age, 1e9 - age))
    damaged = store.write(made_up("ee", config={"width": 5}))
    (damaged / "findings.json").write_text("[")
    (store.root / "toys/coin/aa.damaged-1").mkdir()
    (store.root / "report.html").write_text("")
    found = store.outcomes(heard.append)
    assert [outcome.key for outcome in found] == ["dd", "bb", "cc"]
    assert all(outcome.arrays == {} and outcome.stored for outcome in found)
    assert len(heard) == 1
    assert "findings.json does not fit its checksum); left out" in heard[0]
    assert Store(store.root / "none").outcomes(heard.append) == []


def test_outcomes_are_found_at_any_depth(store, heard):
    """Folders of experiments may look like keys."""
    names = ["mine", "toys/coin", "toys/money/coin", "toys/bead/fade"]
    for number, name in enumerate(names):
        store.write(made_up(f"a{number}", experiment=name))
    (store.root / "toys/money/coin/ff").mkdir()
    assert [outcome.experiment for outcome in store.outcomes(heard.append)] == sorted(names)
    assert len(heard) == 1
    assert "toys/money/coin/ff is damaged" in heard[0]


KILLING = """
import itertools, os, random, signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from made_up import made_up
from theorylab.lab import Store
store = Store(Path(sys.argv[1]))
store.prepare()
chance = random.Random(0)
for generation in itertools.count():
    pid = os.fork()
    if pid == 0:
        for i in itertools.count():
            store.write(made_up(f"{generation:04x}{i:04x}"))
            store.write(made_up(f"{generation:04x}{i:04x}"), replace=True)
    time.sleep(chance.uniform(0.0, 0.2))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    whole, half = (len(list(store.root.glob(each))) for each in ("toys/coin/*", ".writing-*"))
    if whole >= 10 and half >= 5:
        break
"""


@pytest.mark.skipif(os.name != "posix", reason="needs fork and SIGKILL")
def test_killed_at_any_moment_the_store_holds_whole_outcomes_only(store, heard):
    """Oracle: every outcome that is there can be read; what was half written is swept."""
    here = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", KILLING, str(store.root), here], check=True, timeout=120)
    paths = list(store.root.glob("toys/coin/*"))
    assert len(paths) >= 10
    assert len(list(store.root.glob(".writing-*"))) >= 5  # killed in the middle
    for path in paths:
        assert store.recall("toys/coin", path.name, heard.append) is not None
    assert heard == []
    store.prepare()
    assert list(store.root.glob(".writing-*")) == []
