"""Sweeps over toys: values against separate runs, byte for byte, whoever runs them and dies."""

import csv
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import theorylab
from theorylab.lab import Refused, Store
from theorylab.lab.conduct import conduct
from theorylab.lab.requests import find
from theorylab.lab.sweeps.asking import Workers, ask, remembered
from theorylab.lab.sweeps.drive import Unwatched, group_of
from theorylab.lab.sweeps.harvest import scalars
from theorylab.lab.sweeps.plan import Asked, jsonable, plan

TESTS = Path(__file__).parents[1]
FRAGILE = str(TESTS / "toylab/fragile.py")
NUMBERS = ("arrays.npz", "config.json", "findings.json")  # of an outcome: no time, no machine

HERE, TWO = Workers(), Workers(number=2)
needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="needs dask distributed")
needs_signals = pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


def planned(tree, over, seeds=None, **fixed):
    return plan(tree, Asked(FRAGILE, "default", fixed, jsonable(over), seeds), print)


def swept(tree, store, over, workers=HERE, seeds=None, **fixed):
    made = planned(tree, over, seeds, **fixed)
    return ask(made, store, workers, Unwatched(), print, "mine")


def contents(store: Store) -> dict[str, bytes]:
    return {
        f"{folder.name}/{name}": (folder / name).read_bytes()
        for folder in store.folders()
        for name in NUMBERS
    }


def separate(tree, store: Store, over, **fixed) -> None:
    """Run every setting by itself, as `theorylab run` does, and store it."""
    made = planned(tree, over, **fixed)
    experiment = find(tree, FRAGILE, print).load()
    for key, request in made.settings.items():
        outcome = conduct(experiment, experiment.Config(**request.values))
        store.root.mkdir(exist_ok=True)
        store.write(replace(outcome, experiment="own/fragile", key=key))


OVER = {"width": (2, 3), "level": "1:3:1"}


@pytest.mark.parametrize(
    "workers",
    [
        HERE,
        TWO,
        pytest.param(Workers("dask", 2), marks=needs_dask, id="dask"),
    ],
)
def test_every_engine_gives_the_bytes_of_separate_runs(tree, tmp_path, store, workers):
    found = swept(tree, store, OVER, workers)
    assert (found.num_run, found.num_read, found.failures) == (6, 0, ())
    other = Store(tmp_path / "other")
    separate(tree, other, OVER)
    assert contents(store) == contents(other)
    assert len(contents(store)) == 6 * len(NUMBERS)


def test_what_is_in_the_store_is_read_and_only_the_rest_is_run(tree, store):
    swept(tree, store, {"width": (2, 3)})
    times = {folder: folder.stat().st_mtime_ns for folder in store.folders()}
    found = swept(tree, store, {"width": (2, 3, 4)})
    assert (found.num_read, found.num_run) == (2, 1)
    assert all(folder.stat().st_mtime_ns == then for folder, then in times.items())


def test_a_failing_setting_is_told_with_its_config_and_stops_nothing(tree, store):
    found = swept(tree, store, {"breaks": "run,nothing", "width": (2, 3)})
    assert [failure.config["width"] for failure in found.failures] == [2, 3]
    failure = found.failures[0]
    assert str(failure) == ("breaks=run width=2: own/fragile failed: RuntimeError: it is fragile")
    assert failure.attempts == 1  # it would fail again
    assert found.num_run == 2
    assert not found.as_expected


@needs_signals
@pytest.mark.parametrize(
    "workers", [TWO, pytest.param(Workers("dask", 2), marks=needs_dask, id="dask")]
)
def test_a_setting_that_kills_its_worker_is_given_up_and_costs_others_nothing(tree, store, workers):
    found = swept(tree, store, {"breaks": "nothing,worker", "seed": "1,2"}, workers, width=2)
    assert sorted(failure.swept["seed"] for failure in found.failures) == [1, 2]
    for failure in found.failures:
        assert (failure.swept["breaks"], failure.attempts) == ("worker", 3)
        assert failure.why.startswith("its worker died 3 times")
    assert (found.num_run, found.num_lost) == (2, 6)


@needs_signals
def test_a_worker_that_dies_in_a_run_is_replaced_and_nothing_is_lost(tree, tmp_path, store):
    """Each setting kills the first worker that runs it; the next one finishes it."""
    fixed = {"breaks": "first", "marks": str(tmp_path)}
    found = swept(tree, store, {"width": (2, 3, 4)}, TWO, None, **fixed)
    assert (found.failures, found.num_run, found.num_lost) == ((), 3, 3)
    other = Store(tmp_path / "other")
    separate(tree, other, {"width": (2, 3, 4)}, **fixed)  # now nothing breaks
    assert contents(store) == contents(other)


DRIVER = """
import sys
sys.path.insert(0, {tests!r})
from theorylab.cli import main
main(["sweep", {fragile!r}, "--over", "width=2:9:1", "--seconds", "0.4", "--workers", "2",
      "--out", {out!r}])
"""


def children(process: int) -> set[int]:
    """The processes that a process has started."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False
    )
    return set(map(int, listed.stdout.split()))


def is_running(process: int) -> bool:
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_driver_that_is_killed_loses_only_what_was_running(tree, store, tmp_path):
    script = DRIVER.format(tests=str(TESTS), fragile=FRAGILE, out=str(store.root))
    driver = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(store.folders()) < 3:
        assert time.monotonic() < deadline
        assert driver.poll() is None
        time.sleep(0.05)
    workers = children(driver.pid)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    while any(map(is_running, workers)):  # they notice, and end by themselves
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(workers) == 2
    before = {folder: folder.stat().st_mtime_ns for folder in store.folders()}
    assert 3 <= len(before) <= 6
    found = swept(tree, store, {"width": "2:9:1"}, seconds=0.4)
    assert (found.num_read, found.num_run) == (len(before), 8 - len(before))
    assert all(folder.stat().st_mtime_ns == then for folder, then in before.items())
    assert not list(store.root.glob(".writing-*"))


def test_two_sweeps_into_one_store_lose_nothing(tree, tmp_path, store):
    script = DRIVER.format(tests=str(TESTS), fragile=FRAGILE, out=str(store.root))
    script = script.replace("0.4", "0")
    command = [sys.executable, "-c", script.replace('"2",', '"1",')]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert not any("damaged" in text or "failed" in text for text in errors)
    other = Store(tmp_path / "other")
    separate(tree, other, {"width": "2:9:1"})
    assert contents(store) == contents(other)


def test_a_setting_outside_its_domain_is_refused_before_any_is_run(tree, store):
    with pytest.raises(Refused, match=r"own/fragile: level must be at most 100 width, got 300\.0"):
        swept(tree, store, {"width": (2, 3), "level": (1, 300)})
    assert store.folders() == []


def test_memory_is_that_of_all_workers(tree, store, monkeypatch):
    monkeypatch.setattr("theorylab.lab.conduct.available_memory", lambda: 200_000)
    monkeypatch.setattr("theorylab.numerics.memory.available_memory", lambda: 200_000)
    many = 2000  # 72 bytes each
    with pytest.raises(Refused, match=r"2 workers must fit into .* settings that need up to"):
        swept(tree, store, {"width": (2, 3)}, TWO, num_seeds=many)
    assert swept(tree, store, {"width": (2, 3)}, num_seeds=many).num_run == 2


def test_settings_that_share_programs_are_one_group(tree):
    made = planned(tree, {"width": (2, 3), "level": (1, 2)}, seeds=2)
    groups = [group_of(request) for request in made.settings.values()]
    assert len(set(groups)) == 2  # the width alone is static


def test_the_table_has_config_scalars_and_findings(tree, store):
    found = swept(tree, store, OVER)
    frame = found.to_pandas()
    assert len(frame) == 6 * 3  # a row for each repetition
    assert set(frame["width"]) == {2, 3}
    np.testing.assert_allclose(frame["final_growth"], 3 * frame["height"], rtol=1e-15)
    stored = {folder.name: np.load(folder / "arrays.npz") for folder in store.folders()}
    for key, rows in frame.groupby("key"):
        np.testing.assert_array_equal(rows["height"], stored[key]["height"])
        np.testing.assert_allclose(rows["claim_1"], stored[key]["height"].mean(), rtol=1e-12)
    assert set(frame["claim_1_verdict"]) == {"supported"}
    assert found.claims == {"claim_1": "It is high."}
    assert "height" in found.numbers
    assert "Sweep mine of own/fragile over width (2) × level (3): 6 settings" in repr(found)
    assert found._repr_html_().count("<tr>") == 1 + 18


def test_the_axes_of_an_array_decide_what_it_gives():
    arrays = {
        "seed_by_one": np.ones((1, 4)),
        "curve": np.arange(6.0).reshape(2, 3),
        "matrix": np.ones((2, 2)),
        "text": np.array("x"),
        "unknown": np.ones(4),
    }
    axes = {"seed_by_one": ("r", "s"), "curve": ("s", "t"), "matrix": ("n", "n"), "text": ()}
    found = scalars(arrays, axes)
    assert set(found) == {"seed_by_one", "final_curve"}
    np.testing.assert_array_equal(found["final_curve"], [2.0, 5.0])


def test_a_power_law_is_fitted_over_a_swept_field(tree, store):
    """Oracle: the toy's height is l w² (1 + u/10) with u uniform: an exponent of 2."""
    found = swept(tree, store, {"width": (2, 4, 8, 16)})
    law = found.fit(x="width", y="height")
    assert law.low < 2 < law.high
    assert law.high - law.low < 0.1
    with pytest.raises(Refused, match=r"no column 'hight'\. Did you mean height"):
        found.fit(x="width", y="hight")
    with pytest.raises(Refused, match="a fit needs numbers, and breaks has texts"):
        found.fit(x="breaks", y="height")


def test_figures_of_a_sweep(tree, store):
    found = swept(tree, store, {"width": (2, 4, 32), "level": (1, 2)})
    scaled = found.plot(x="width", y="height", hue="level").axes[0]
    assert scaled.get_xscale() == "log"
    labels = [str(line.get_label()) for line in scaled.lines if "=" in str(line.get_label())]
    slopes = [float(re.sub(r"level = \d: ", "", each)) for each in labels]
    np.testing.assert_allclose(slopes, 2, atol=0.05)  # the exponent
    phases = found.plot(x="width", y="level", hue="height").axes[0]
    shown = np.asarray(phases.collections[0].get_array())
    heights = found.column("height").reshape(3, 2, 3)
    np.testing.assert_allclose(shown, np.median(heights, axis=2).T, rtol=1e-12)
    with pytest.raises(Refused, match="width and level both vary, so hue must say what is shown"):
        found.plot(x="width", y="level")
    with pytest.raises(Refused, match="breaks must be a column of numbers"):
        found.plot(x="width", y="breaks")


def test_the_table_is_written_with_all_digits(tree, store, tmp_path):
    import pandas

    found = swept(tree, store, OVER)
    found.to_csv(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as file:
        heights = [float(row["height"]) for row in csv.DictReader(file)]
    np.testing.assert_array_equal(heights, found.column("height"))
    if find_spec("pyarrow") is None:
        with pytest.raises(Refused, match="a parquet file needs pyarrow"):
            found.to_parquet(tmp_path / "table.parquet")
    else:
        found.to_parquet(tmp_path / "table.parquet")
        same = pandas.read_parquet(tmp_path / "table.parquet")
        np.testing.assert_array_equal(same["height"], found.column("height"))


def test_a_remembered_sweep_is_read_without_running(tree, store, capsys):
    first = swept(tree, store, OVER)
    again = remembered(tree, store, "mine", print)
    assert again.rows == first.rows
    store.delete(store.folders()[0])
    assert len(remembered(tree, store, "mine", print).rows) == 15
    assert "1 of 6 settings of mine are not in the store" in capsys.readouterr().out


def test_a_damaged_outcome_is_set_aside_and_run_again(tree, store, capsys):
    swept(tree, store, OVER)
    (store.folders()[0] / "arrays.npz").write_bytes(b"x")
    found = swept(tree, store, OVER)
    assert (found.num_read, found.num_run) == (5, 1)
    assert "set aside" in capsys.readouterr().out


def test_run_draws_the_figure_that_a_sweep_left_out(tree, store, monkeypatch):
    """Oracle: the figure of the same setting, drawn when it was run."""
    monkeypatch.setattr("theorylab.entrance.EXPERIMENTS", tree)
    swept(tree, store, {"width": (5,)})
    assert (store.folders()[0] / "figure.svg").read_bytes() == b""
    numbers = contents(store)
    options = {"width": 5, "progress": False}
    drawn = theorylab.run(FRAGILE, store=store.root, **options)
    assert drawn.stored
    fresh = theorylab.run(FRAGILE, store=store.root.parent / "other", **options)
    assert drawn.figure == fresh.figure != ""
    assert contents(store) == numbers
    assert theorylab.run(FRAGILE, store=store.root, **options).figure == drawn.figure


def test_python_asks_as_the_shell_does(tree, store, monkeypatch, capsys):
    monkeypatch.setattr("theorylab.entrance.EXPERIMENTS", tree)
    options = {"store": store.root, "preset": "smoke", "named": "coins"}
    found = theorylab.sweep("toys/coin", {"bias": "0.2,0.8"}, seeds=2, **options)
    assert (found.name, found.num_run) == ("coins", 4)
    assert [row["seed"] for row in found.rows] == [-1, 0, -1, 0]
    assert "4 of 4 there (0 read) in" in capsys.readouterr().err
    again = theorylab.sweep("toys/coin", {"bias": (0.2, 0.8)}, seeds=2, progress=False, **options)
    assert again.num_read == 4
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"engine": "spark"}, "engine must be local or dask, got 'spark'."),
        ({"workers": 0}, "workers must be a whole number from 1 to 1000, got 0."),
        ({"scheduler": "tcp://x:1"}, "a scheduler and slurm need the engine dask, got local."),
        (
            {"engine": "dask", "scheduler": "tcp://x:1", "slurm": ""},
            "a sweep must have a scheduler or slurm, got both.",
        ),
        ({"engine": "dask", "scheduler": "x"}, "scheduler must be an address like tcp://…"),
        ({"engine": "dask", "slurm": "nodes=3"}, "slurm takes NAME=VALUE of partition, account"),
        ({"engine": "dask", "slurm": "cores=x"}, "slurm: cores must be a whole number, got 'x'."),
        ({"named": "../x"}, "the name of a sweep must be letters"),
        ({"preset": "huge"}, "the preset of toys/coin must be one of smoke, default, paper"),
    ],
)
def test_a_wrong_choice_is_refused_before_any_work(tree, store, monkeypatch, options, words):
    monkeypatch.setattr("theorylab.entrance.EXPERIMENTS", tree)
    over = options.pop("over", {"bias": "0.5"})
    with pytest.raises(ValueError) as caught:
        theorylab.sweep("toys/coin", over, store=store.root, **options)
    assert str(caught.value).startswith(words)
    assert not store.root.exists()


@pytest.fixture
def hearing():
    """Hear Ctrl-C, even if whoever runs the tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hearing")
def test_ctrl_c_leaves_what_is_done(tree, store):
    """A signal in the middle: what was finished is there, and the sweep can be asked again."""
    deadline = time.monotonic() + 60

    def interrupt() -> None:
        while len(store.folders()) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        swept(tree, store, {"width": "2:400:1"}, seconds=0.1)
    time.sleep(0.5)  # the setting that was running ends in its thread
    count = len(store.folders())
    assert 3 <= count < 100
    found = swept(tree, store, {"width": f"2:{count + 2}:1"}, seconds=0.1)
    assert found.num_read + found.num_run == count + 1
    assert found.num_run <= 2
