"""`find`, `verify`, `gc`, `export`, `import`: what they print, and their exit codes."""

import csv
import io
import json
import os
import subprocess
import sys

import pytest

TINY = ("--num-throws", "20")


@pytest.fixture
def store(theorylab, folders):
    for arguments in (("toys/coin", *TINY), ("toys/coin", "--num-throws", "40"), ("toys/dice",)):
        assert theorylab("run", *arguments).code == 0
    return folders / "store"


def test_find_says_it_in_lines_json_and_csv(theorylab, store):
    answer = theorylab("find", "--where", "num_throws >= 30")
    (line,) = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "theorylab: 1 outcome.\n")
    assert line.startswith("toys/coin/")
    assert "num_throws=40" in line
    assert line.endswith("2 supported")
    (record,) = json.loads(theorylab("find", "--where", "num_throws >= 30", "--json").out)
    assert record["config"]["num_throws"] == 40
    assert [each["kind"] for each in record["findings"]] == ["claim", "control"]
    (record,) = json.loads(
        theorylab("find", "--where", "num_throws>=30 and kind='control'", "--json").out
    )
    assert [each["kind"] for each in record["findings"]] == ["control"]
    rows = list(csv.DictReader(io.StringIO(theorylab("find", "--csv").out)))
    assert [row["num_throws"] for row in rows if row["experiment"] == "toys/coin"] == ["20", "40"]
    assert [row["supported"] for row in rows][:2] == ["2", "2"]
    assert "config.seconds" in rows[0]  # the field; `seconds` is how long the run took
    assert json.loads(theorylab("find", "--where", "num_throws = 3", "--json").out) == []
    assert len(theorylab("find", "--experiment", "toys", "--limit", "2").out.splitlines()) == 2
    assert len(theorylab("find", "--experiment", "toys/dice", "--rebuild").out.splitlines()) == 1


BAD = (
    (
        ("find", "--where", "num_throws >"),
        "where must have a value, got the end at character 13",
    ),
    (("find", "--where", "num_thorws = 3"), "Did you mean num_throws?"),
    (("find", "--limit", "-1"), "--limit must be a whole number of at least 0, got '-1'"),
    (("find", "--limit", "²"), "--limit must be a whole number"),
    (("find", "--json", "--csv"), "find takes --json or --csv, got both"),
    (("find", "toys/coin"), "find takes no names, got 'toys/coin'"),
    (
        ("find", "--experiment", "toys/coni"),
        "no outcome of 'toys/coni'. Did you mean toys/coin",
    ),
    (("find", "--out", "NONE"), "there is no store in"),
    (("verify", "--out", "NONE"), "verify needs a store, there is none in"),
    (("verify", "x"), "verify takes no names, got 'x'"),
    (("gc", "--days", "few"), "--days must be a whole number of at least 0, got 'few'"),
    (("gc", "--out", "NONE"), "gc needs a store"),
    (("export",), "export needs the name of one file, got none"),
    (("export", "a", "b"), "export needs the name of one file, got a b"),
    (("export", "NONE/x.tar"), "export needs a folder for its file"),
    (("import", "NONE"), "import reads a"),
    (("import", "a\nb"), "import reads an archive of outcomes, got a b"),
)


def test_bad_usage_is_one_line(theorylab, store):
    none = str(store.parent / "none")
    for arguments, message in BAD:
        answer = theorylab(*(word.replace("NONE", none) for word in arguments))
        assert (answer.code, answer.out) == (2, ""), arguments
        assert message in answer.err, arguments
        assert len(answer.err.splitlines()) == 1
        assert not (store.parent / "none").exists()


def test_verify_names_what_is_damaged(theorylab, store):
    assert theorylab("verify") == (0, "", "theorylab: 3 outcomes, 0 damaged.\n")
    (file,) = (store / "toys/dice").rglob("arrays.npz")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"x")
    answer = theorylab("verify")
    name = file.parent.relative_to(store).as_posix()
    assert answer.code == 1
    assert answer.out == f"{name} is damaged: arrays.npz does not fit its checksum\n"
    said = json.loads(theorylab("verify", "--json").out)
    assert (said["outcomes"], said["damaged"][0]["outcome"]) == (3, name)
    file.write_bytes(content)
    assert theorylab("verify", "--json").code == 0


def test_gc_says_first_and_removes_what_no_code_can_reach(theorylab, store, tree, tmp_path):
    assert theorylab("gc").err == "theorylab: 0 bytes (0.0 MB) would be freed.\n"
    with (tmp_path / "coin.py").open("w") as file:
        file.write((tree.root / "toys/coin.py").read_text() + "# Another coin.\n")
    (tmp_path / "experiments/toys").mkdir(parents=True)
    (tmp_path / "coin.py").rename(tmp_path / "experiments/toys/coin.py")
    dice = (tree.root / "toys/dice.py").read_text()
    (tmp_path / "experiments/toys/dice.py").write_text(dice)
    object.__setattr__(tree, "root", tmp_path / "experiments")
    (dice_key,) = (path.name for path in (store / "toys/dice").iterdir())
    made = {
        "toys/coin/ab.damaged-1": (0, 0),
        f".writing-{os.uname().nodename}-4194305-x": (0, 0),
        f".blocks/{dice_key}": (0, 0),  # older than the outcome
        ".blocks/abcd": None,  # of a run that may go on
        ".writing-other-host-1-x": None,  # of a machine that may be at work
    }
    for name, times in made.items():
        (store / name).mkdir(parents=True)
        (store / name / "x").write_bytes(bytes(100))
        if times:
            os.utime(store / name, times)
    program = store.parent / "cache/compiled/old-cache"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_bytes(bytes(1000))
    os.utime(program, (0, 0))
    before = {str(path) for path in store.rglob("*")}
    said = theorylab("gc")
    assert before == {str(path) for path in store.rglob("*")}
    assert "would remove 1 files of the cache (0.0 MB): compiled program" in said.out
    assert said.out.count("of other code") == 2
    assert said.out.count("would remove") == 6
    assert said.err.endswith("would be freed. theorylab gc --yes removes it.\n")
    total = json.loads(theorylab("gc", "--json").out)["bytes"]
    done = theorylab("gc", "--yes")
    assert done.out == said.out.replace("would remove", "removed")
    assert f"{total} bytes" in done.err
    left = {path.name for path in store.rglob("*") if path.is_dir() and ".index" not in path.parts}
    assert left == {"toys", "dice", dice_key, ".blocks", "abcd", ".writing-other-host-1-x"}
    assert not program.exists()
    assert theorylab("gc").out == ""
    assert theorylab("verify").code == 0


def test_export_and_import(theorylab, store, tmp_path):
    file, other = tmp_path / "x.tar", tmp_path / "other"
    answer = theorylab(
        "export", str(file), "--where", "num_throws < 30 and experiment = 'toys/coin'"
    )
    assert (answer.code, answer.out) == (0, f"{file}\n")
    assert answer.err.startswith("theorylab: 1 outcome, ")
    answer = theorylab("import", str(file), "--out", str(other))
    assert answer == (0, "", "theorylab: 1 outcome came into the store.\n")
    assert "1 there already" in theorylab("import", str(file), "--out", str(other)).err
    assert len(theorylab("find", "--out", str(other)).out.splitlines()) == 1
    assert "is there already" in theorylab("export", str(file)).err
    (damaged,) = (store / "toys/dice").rglob("arrays.npz")
    damaged.write_bytes(b"")
    answer = theorylab("export", str(tmp_path / "y.tar"))
    assert answer.code == 1
    assert "left out" in answer.err
    # What was exported is read by `run`, and not run again.
    again = theorylab("run", "toys/coin", *TINY, "--out", str(other))
    assert "read from the store" in again.out + again.err or again.code == 0


def test_find_says_where_the_index_is_if_it_is_not_in_the_store(theorylab, store, monkeypatch):
    shared = {store}
    monkeypatch.setattr("theorylab.lab.index_place.is_shared", lambda folder: folder in shared)
    monkeypatch.setattr("theorylab.lab.index_place.kind_of", lambda folder: "nfs4")
    first, *_ = theorylab("find").err.splitlines()
    assert first.startswith(f"theorylab: the index of the store is in {store.parent}/cache/index/")
    assert first.endswith(".sqlite, because the store is on nfs4.")
    assert theorylab("find").err == "theorylab: 3 outcomes.\n"
    monkeypatch.setattr("theorylab.lab.index_place.is_shared", lambda folder: True)
    first, *_ = theorylab("find").err.splitlines()
    assert first.startswith("theorylab: no index can be written: one was made in memory")


def test_find_loads_neither_jax_nor_numpy(theorylab, store, script):
    """A question about a store that did not change is answered at once."""
    for folder in [store, *store.rglob("*/")]:
        if ".index" not in folder.parts:
            os.utime(folder, (1e9, 1e9))
    theorylab("find")
    program = script.replace(
        "code = main(tree=tree)",
        "code = main(['find'], tree); assert not {'jax', 'numpy', 'matplotlib'} & set(sys.modules)",
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
