"""`theorylab forget`: what is asked for goes, all else stays."""

import json
import shutil

import pytest

TINY = ("--num-throws", "20")


@pytest.fixture
def store(theorylab, folders):
    for arguments in (("toys/coin", *TINY), ("toys/dice",), ("toys/dice", *TINY)):
        assert theorylab("run", *arguments).code == 0
    return folders / "store"


def outcomes(store) -> list[str]:
    return sorted(path.parent.parent.name for path in store.rglob("manifest.json"))


def test_all_of_an_experiment(theorylab, store):
    said = theorylab("forget", "toys/dice", "--dry-run")
    assert (said.code, said.err) == (0, "")
    assert [line.split()[:2] for line in said.out.splitlines()] == [["would", "delete"]] * 2
    assert outcomes(store) == ["coin", "dice", "dice"]
    done = theorylab("forget", "toys/dice")
    assert done.out == said.out.replace("would delete", "deleted")
    assert outcomes(store) == ["coin"]
    assert not (store / "toys/dice").exists()
    assert not list(store.glob(".*"))
    theorylab("forget", "toys/coin")
    assert list(store.iterdir()) == []


def test_the_damaged_ones(theorylab, store):
    (file,) = (store / "toys/coin").rglob("figure.svg")
    file.write_text("")
    theorylab("run", "toys/coin", *TINY)  # sets it aside and runs again
    (again,) = [
        path
        for path in store.rglob("arrays.npz")
        if ".damaged" not in str(path) and "coin" in str(path)
    ]
    again.write_bytes(b"")
    assert len(theorylab("forget", "--damaged").out.splitlines()) == 2
    assert outcomes(store) == ["dice", "dice"]
    assert theorylab("forget", "--damaged") == (0, "", "theorylab: there is nothing to forget.\n")


def test_the_old_ones(theorylab, store, tree, tmp_path):
    assert theorylab("forget", "--old").out == ""
    assert outcomes(store) == ["coin", "dice", "dice"]
    own = shutil.copy(tree.root / "toys/coin.py", tmp_path / "mine.py")
    theorylab("run", str(own), *TINY)
    shutil.copytree(tree.root, tmp_path / "experiments")
    object.__setattr__(tree, "root", tmp_path / "experiments")
    with (tmp_path / "experiments/toys/coin.py").open("a") as file:
        file.write("# Another coin.\n")
    assert theorylab("forget", "--old").out.startswith("deleted toys/coin/")
    assert outcomes(store) == ["dice", "dice", "mine"]
    (tmp_path / "experiments/toys/dice.py").unlink()
    assert len(theorylab("forget", "--old").out.splitlines()) == 2
    assert outcomes(store) == ["mine"]  # whether a file of the user's changed is not known


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "forget needs names of experiments, --damaged or --old, got none"),
        (("toys/coni",), "no outcome of 'toys/coni'. Did you mean toys/coin"),
        (("toys",), "no outcome of 'toys'"),
        (("..",), "no outcome of '..'"),
        (("toys/../toys/coin",), "no outcome of"),
        (("--all",), "forget has no option --all"),
    ],
)
def test_what_is_not_there_is_refused_and_nothing_goes(theorylab, store, arguments, message):
    answer = theorylab("forget", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert outcomes(store) == ["coin", "dice", "dice"]


def test_an_old_name_and_no_store(theorylab, store, tree, folders):
    object.__setattr__(tree, "renames", {"toys/euro": "toys/coin"})
    assert "deleted toys/coin/" in theorylab("forget", "toys/euro").out
    assert theorylab("forget", "--old", "--out", str(folders / "none")).code == 2
    assert not (folders / "none").exists()
    assert json.loads(theorylab("list", "--json").out)
