"""`sweep` and `plot`: words to settings, tables and figures, refusals, help and completion."""

import csv
import json

import pytest

from theorylab.cli.completion import candidates

COIN = ("sweep", "toys/coin", "--preset", "smoke")


def test_a_sweep_makes_a_table_and_is_remembered(theorylab, tmp_path, folders):
    table = tmp_path / "table.csv"
    words = (*COIN, "--over", "bias=0:0.4:0.2", "--over", "num-throws=10,20", "--as", "coins")
    answer = theorylab(*words, "--seed", "3", "--csv", str(table))
    assert answer.code == 0
    assert answer.out.splitlines()[0] == "coins: 6 settings, 6 rows"
    assert answer.out.splitlines()[-1] == str(table)
    assert "coins: 6 of 6 there (0 read) in" in answer.err
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["bias"], row["num_throws"], row["seed"]) for row in rows][:2] == [
        ("0.0", "10", "3"),
        ("0.0", "20", "3"),
    ]
    assert {row["claim_1_verdict"] for row in rows} == {"supported"}
    again = json.loads(theorylab("sweep", "--resume", "coins", "--json").out)
    assert (again["num_read"], again["num_run"], len(again["rows"])) == (6, 0, 6)
    assert again["claims"]["claim_1"] == "The share of heads is at most p + 0.2."


def test_a_sweep_is_plotted_and_fitted_later(theorylab, tmp_path):
    theorylab(*COIN, "--over", "num-throws=10,100,1000", "--seeds", "2", "--as", "coins")
    figure = tmp_path / "coins.svg"
    words = ("plot", "coins", "--x", "num_throws", "--y", "claim_1")
    answer = theorylab(*words, "--hue", "seed", "--to", str(figure), "--fit")
    assert answer.code == 0
    path, law = answer.out.splitlines()
    assert path == str(figure)
    assert law.startswith("claim_1 = ")
    assert "num_throws^" in law
    assert "<svg" in figure.read_text()


def test_a_dry_run_says_what_would_be_run_and_runs_nothing(theorylab, folders):
    words = (*COIN, "--over", "bias=0.1,0.9", "--seeds", "5")
    answer = theorylab(*words, "--dry-run")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith(": 10 settings, 0 in the store, 10 to run\n")
    assert not (folders / "store").exists()
    theorylab(*words)
    told = json.loads(theorylab(*words, "--dry-run", "--json").out)
    assert (told["there"], told["missing"], len(told["settings"])) == (10, 0, 10)


def test_a_setting_that_fails_exits_with_3_and_a_surprise_with_1(theorylab):
    answer = theorylab(*COIN, "--over", "breaks=run,nothing")
    assert answer.code == 3
    assert "theorylab: failed: breaks=run: toys/coin failed: RuntimeError: the coin is lost" in (
        answer.err
    )
    assert theorylab(*COIN, "--over", "surprising=true,false").code == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("sweep",), "sweep needs the name of one experiment, got none."),
        (("sweep", "toys/coin"), "a sweep needs a field that varies, or seeds, got neither."),
        (("sweep", "toys/cion", "--seeds", "2"), "there is no experiment 'toys/cion'."),
        ((*COIN, "--over", "bias"), "--over must be FIELD=AXIS, got 'bias'."),
        ((*COIN, "--over", "=1"), "--over must be FIELD=AXIS, got '=1'."),
        ((*COIN, "--over", "bais=1"), "toys/coin has no field --bais. Did you mean --bias"),
        ((*COIN, "--over", "bias=x"), "--bias must be a finite number, got 'x'."),
        (
            (*COIN, "--over", "bias=1", "--over", "bias=0"),
            "--over must name a field once, got bias twice.",
        ),
        ((*COIN, "--over", "bias=1", "--bias", "1"), "--bias must be fixed or varied, got both."),
        ((*COIN, "--over", "bias=0.5,2"), "toys/coin: bias must be in [0, 1], got 2.0."),
        ((*COIN, "--over", "seed=1", "--seeds", "2"), "--seed must be varied by --over or by"),
        ((*COIN, "--seeds", "0"), "seeds must be a whole number from 1 to 100000, got 0."),
        ((*COIN, "--seeds", "-1"), "--seeds must be a whole number, got '-1'."),
        ((*COIN, "--seeds", "²"), "--seeds must be a whole number, got '²'."),
        ((*COIN, "--seeds", "2", "--workers", "0"), "workers must be a whole number from 1 to"),
        ((*COIN, "--seeds", "2", "--engine", "ray"), "--engine must be one of local, dask, got"),
        ((*COIN, "--seeds", "2", "--scheduler", "tcp://x:1"), "a scheduler and slurm need the"),
        ((*COIN, "--seeds", "2", "--as", "../x"), "the name of a sweep must be letters, digits"),
        ((*COIN, "--seeds", "2", "--csv", "."), "--csv must be a file, got the folder ."),
        (("sweep", "--resume", "mine"), "the store has no sweep 'mine'."),
        (("sweep", "--resume", "mine", "--seeds", "2"), "--resume takes a sweep as it was asked"),
        (("plot",), "plot needs the name of one sweep, got none."),
        (("plot", "mine", "--x", "bias"), "plot needs --y COLUMN, got none."),
        (("plot", "mine", "--x", "a", "--y", "b", "--to", "x.txt"), "--to must be a file that"),
        (("plot", "mine", "--x", "a", "--y", "b"), "the store has no sweep 'mine'."),
    ],
)
def test_bad_usage_is_one_line_before_any_work(theorylab, folders, words, line):
    answer = theorylab(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"theorylab: {line}")
    assert answer.err.count("\n") == 1
    assert not list((folders / "store").glob("toys"))


def test_plot_names_the_columns_that_there_are(theorylab):
    theorylab(*COIN, "--over", "bias=0.1,0.9", "--as", "coins")
    answer = theorylab("plot", "coins", "--x", "bias", "--y", "claim1")
    assert answer.code == 2
    assert "has no column 'claim1'. Did you mean claim_1" in answer.err


def test_help_and_completion_know_sweeps(theorylab, tree):
    text = theorylab("sweep", "toys/coin", "--help").out
    assert "--over FIELD=AXIS" in text
    assert "log:1e-3:1:9" in text
    assert "--num-throws 1000" in text
    assert "3 a run failed (of a sweep: a setting" in theorylab("--help").out
    assert "num_throws=" in candidates(tree, ["sweep", "toys/coin", "--over", "num"])
    assert candidates(tree, ["sweep", "x", "--engine", ""]) == ["dask", "local"]
    assert candidates(tree, ["sweep", "toys/c"]) == ["toys/coin"]
    theorylab(*COIN, "--over", "bias=0.1,0.9", "--as", "coins")
    assert candidates(tree, ["plot", "co"]) == ["coins"]
    assert candidates(tree, ["sweep", "--resume", ""]) == ["coins"]
