"""The one way in: `theorylab.run`, files of the user's own, and a store hit that loads no JAX."""

import dataclasses
import html
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import theorylab
from theorylab.answers.digits import number
from theorylab.cli import main
from theorylab.lab import Outcome, RunFailed

TESTS = Path(__file__).parents[1]
COIN = TESTS / "toylab/experiments/toys/coin.py"


@pytest.fixture(autouse=True)
def toys(tree, monkeypatch):
    monkeypatch.setattr("theorylab.entrance.EXPERIMENTS", tree)


def test_run_gives_the_outcome_and_the_second_time_the_stored_one(folders, capsys):
    first = theorylab.run("toys/coin", num_throws=20, sizes=[4, 5])
    assert (first.config["num_throws"], first.config["sizes"]) == (20, [4, 5])
    assert not first.stored
    assert "throwing" in capsys.readouterr().err
    second = theorylab.run("toys/coin", num_throws=20, sizes=(4, 5))
    assert second.stored
    np.testing.assert_array_equal(second.arrays["heads"], first.arrays["heads"])
    assert not theorylab.run("toys/coin", num_throws=20, sizes=(4, 5), force=True).stored
    assert list((folders / "store/toys/coin").iterdir())


def test_silence_and_another_store(folders, capsys):
    outcome = theorylab.run("toys/dice", preset="smoke", progress=False, store=folders / "mine")
    assert (outcome.preset, outcome.config["num_throws"]) == ("smoke", 5)
    assert capsys.readouterr() == ("", "")
    assert (folders / "mine/toys/dice" / outcome.key).is_dir()
    assert not (folders / "store").exists()


@pytest.mark.parametrize(
    ("given", "config"),
    [
        ({"sizes": 3}, {"sizes": [3]}),
        ({"sizes": range(2)}, {"sizes": [0, 1]}),
        ({"sizes": np.array([2, 3])}, {"sizes": [2, 3]}),
        ({"weights": [1, 2]}, {"weights": [1.0, 2.0]}),
        ({"bias": 1}, {"bias": 1.0}),
        ({"num_throws": np.int64(7)}, {"num_throws": 7}),
        ({"name": "euro"}, {"name": "euro"}),
        ({"surprising": True}, {"surprising": True}),
    ],
)
def test_fields_are_taken_as_python_users_write_them(given, config):
    outcome = theorylab.run("toys/coin", progress=False, **{"num_throws": 3} | given)
    assert {name: outcome.config[name] for name in config} == config


@pytest.mark.parametrize(
    ("name", "fields", "shell"),
    [
        ("toys/coni", {}, ["toys/coni"]),
        ("nothing", {}, ["nothing"]),
        ("toys/coin", {"num_throw": 3}, ["toys/coin", "--num-throw", "3"]),
        ("toys/coin", {"num_throws": "x"}, ["toys/coin", "--num-throws", "x"]),
        ("toys/coin", {"bias": "much"}, ["toys/coin", "--bias", "much"]),
        ("toys/coin", {"bias": 2.0}, ["toys/coin", "--bias", "2"]),
        ("toys/coin", {"breaks": "all"}, ["toys/coin", "--breaks", "all"]),
        ("toys/dice", {"preset": "paper"}, ["toys/dice", "--preset", "paper"]),
    ],
)
def test_errors_are_those_of_the_shell_before_any_work(tree, folders, capsys, name, fields, shell):
    with pytest.raises(ValueError) as caught:
        theorylab.run(name, progress=False, **fields)
    capsys.readouterr()
    assert main(["run", *shell], tree) == 2
    assert capsys.readouterr().err == f"theorylab: {caught.value}\n"
    assert not list(folders.glob("store/*/*/*"))


def test_a_run_that_fails_says_so():
    with pytest.raises(RunFailed, match="toys/coin failed: RuntimeError: the coin is lost"):
        theorylab.run("toys/coin", breaks="run", progress=False)


HIT = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
from theorylab.answers.digits import number
from theorylab.cli import main
from theorylab.experiments.tree import Tree
import theorylab.entrance
tree = Tree(Path({str(TESTS / "toylab/experiments")!r}), "toylab.experiments")
theorylab.entrance.EXPERIMENTS = tree
code = main(["run", "toys/coin", "--num-throws", "20"], tree)
assert theorylab.run("toys/coin", num_throws=20, progress=False).stored
print(code, "jax" in sys.modules, "matplotlib" in sys.modules)
"""


def test_what_is_stored_is_read_without_jax():
    """Oracle: `sys.modules` of a fresh interpreter."""
    theorylab.run("toys/coin", num_throws=20, progress=False)
    run = subprocess.run([sys.executable, "-c", HIT], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "0 False False"
    assert "read from the store" in run.stderr


@pytest.fixture
def mine(tmp_path) -> Path:
    return Path(shutil.copy(COIN, tmp_path / "my_coin.py"))


def test_a_file_of_ones_own_runs_like_any_other(mine, tree, capsys, folders):
    outcome = theorylab.run(mine, num_throws=20, progress=False)
    assert outcome.experiment == "own/my_coin"
    assert (folders / "store/own/my_coin" / outcome.key).is_dir()
    assert theorylab.run(str(mine), num_throws=20, progress=False).stored
    assert main(["run", str(mine), "--num-throws", "20"], tree) == 0
    assert "own/my_coin: read from the store" in capsys.readouterr().err
    assert main(["show", str(mine)], tree) == 0
    assert capsys.readouterr().out.startswith("own/my_coin\nA coin falls on heads")
    assert main(["run", str(mine), "--help"], tree) == 0
    assert "The fields of own/my_coin" in capsys.readouterr().out


def test_a_changed_file_of_ones_own_is_run_again_as_it_is_now(mine):
    first = theorylab.run(mine, num_throws=20, progress=False)
    mine.write_text(mine.read_text().replace("p + 0.2.", "p + 1/5."))
    second = theorylab.run(mine, num_throws=20, progress=False)
    assert second.key != first.key
    assert not second.stored
    assert "p + 1/5." in second.judged[0].statement


def test_a_file_inside_the_tree_is_the_experiment_of_its_name():
    assert theorylab.run(COIN, num_throws=20, progress=False).experiment == "toys/coin"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("my coin.py", "", "must be letters, digits and _ before .py, got 'my coin.py'"),
        ("wrong.py", "def f(:", "wrong.py:1: "),
        ("empty.py", "", "needs a docstring"),
    ],
)
def test_files_that_are_no_experiments_are_refused(tmp_path, tree, capsys, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        theorylab.run(path, progress=False)
    assert main(["run", str(path)], tree) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(ValueError, match="there is no file"):
        theorylab.run(tmp_path / "nowhere.py")


def test_an_own_file_that_cannot_be_imported_is_named(mine):
    mine.write_text(mine.read_text().replace("import time\n", "import time\nimport no_such\n"))
    with pytest.raises(RunFailed, match="own/my_coin cannot be imported: ModuleNotFoundError"):
        theorylab.run(mine, progress=False)


def test_outcomes_are_short_in_words_and_whole_in_notebooks():
    outcome = theorylab.run("toys/coin", num_throws=20, progress=False)
    outcome = dataclasses.replace(outcome, title="<tags>")
    assert isinstance(outcome, Outcome)
    text = str(outcome)
    assert "toys/coin" in text
    assert "supported     The share of heads is at most p + 0.2." in text
    assert len(repr(outcome)) < 200
    page = outcome._repr_html_()
    assert "<table" in page
    assert "The share of heads is at most p + 0.2." in page
    assert "data:image/svg+xml;base64," in page
    assert "&lt;tags&gt;" in page
    assert "<tags>" not in page
    heads, rows = page.count("<th "), page.count("<tr>") - 1
    assert rows == len(outcome.judged)
    assert page.count("<td") == heads * rows
    for judged in outcome.judged:
        assert f">{number(judged.finding.measured)}<" in page
        assert f">{html.escape(str(judged.finding.demand))}<" in page


def test_a_changed_library_of_ones_own_changes_the_key(mine, tmp_path, monkeypatch):
    """What is imported from the user's path is code too; what is installed goes by its version."""
    (tmp_path / "library_of_mine.py").write_text("P = 1")
    monkeypatch.syspath_prepend(tmp_path)
    text = mine.read_text().replace("import time\n", "import time\nimport library_of_mine\n")
    mine.write_text(text)
    first = theorylab.run(mine, num_throws=20, progress=False)
    assert theorylab.run(mine, num_throws=20, progress=False).stored
    (tmp_path / "library_of_mine.py").write_text("P = 23")
    assert theorylab.run(mine, num_throws=20, progress=False).key != first.key
