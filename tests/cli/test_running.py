"""`run`, `tour` and `report` on experiments that take no time."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from theorylab.lab.background import in_background, is_busy

TINY = ("--num-throws", "20")


def stored_files(folder: Path, name: str) -> list[Path]:
    return sorted((folder / "store").glob(f"toys/*/*/{name}"))


def test_run_prints_the_claims_and_stores(theorylab, folders):
    answer = theorylab("run", "toys/coin", *TINY, "--sizes=4,5")
    assert answer.code == 0
    assert "The share of heads is at most p + 0.2." in answer.out
    assert "supported" in answer.out
    assert "\033" not in answer.out + answer.err
    assert "throwing" in answer.err
    (config,) = stored_files(folders, "config.json")
    assert json.loads(config.read_text())["sizes"] == [4, 5]


def test_the_second_time_it_is_read_from_the_store_and_says_so(theorylab, folders):
    first = theorylab("run", "toys/coin", *TINY)
    (arrays,) = stored_files(folders, "arrays.npz")
    age = arrays.stat().st_mtime_ns
    second = theorylab("run", "toys/coin", *TINY)
    assert "read from the store" not in first.err
    assert "read from the store" in second.err
    assert "from the store" in " ".join(second.out.split())
    assert arrays.stat().st_mtime_ns == age
    forced = theorylab("run", "toys/coin", *TINY, "--force")
    assert "read from the store" not in forced.err
    (again,) = stored_files(folders, "arrays.npz")
    assert again.stat().st_mtime_ns > age


def test_two_fresh_runs_give_the_same_bytes(theorylab, folders):
    for name in "ab":
        assert theorylab("run", "toys/coin", *TINY, "--out", str(folders / name)).code == 0
    for file in ("arrays.npz", "figure.svg", "findings.json", "config.json"):
        first, second = (list((folders / name).rglob(file)) for name in "ab")
        assert first[0].read_bytes() == second[0].read_bytes()


def test_json_goes_to_standard_output_alone(theorylab, folders):
    answer = theorylab("run", "toys/coin", "toys/dice", "--num-throws", "30", "--json")
    coin, dice = json.loads(answer.out)
    assert (answer.code, coin["experiment"], dice["experiment"]) == (0, "toys/coin", "toys/dice")
    assert coin["config"]["num_throws"] == dice["config"]["num_throws"] == 30
    assert (coin["stored"], dice["findings"][0]["measured"]) == (False, "nan")
    assert coin["environment"]["precision"] == "float64"
    heads = np.load(Path(coin["path"]) / "arrays.npz")["heads"]
    assert coin["findings"][0]["measured"] == heads.mean()
    assert json.loads(theorylab("run", "toys/dice", "--num-throws=30", "--json").out)[0]["stored"]


def test_a_preset_and_the_same_config_by_hand_are_one_outcome(theorylab):
    theorylab("run", "toys/dice", "--preset", "smoke")
    answer = theorylab("run", "toys/dice", "--num_throws", "5", "--json")
    (outcome,) = json.loads(answer.out)
    assert outcome["stored"]
    assert outcome["preset"] == "default"  # it is what was asked for now


def test_a_surprise_is_exit_code_one(theorylab):
    answer = theorylab("run", "toys/coin", *TINY, "--surprising", "true")
    assert answer.code == 1
    assert "expected supported" in answer.out


@pytest.mark.parametrize(
    ("breaks", "reason"),
    [
        ("judge", "Inconclusive: the judge failed: ZeroDivisionError: nobody can tell"),
        ("plot", "✗ the figure failed: ValueError: no paper"),
    ],
)
def test_a_failure_after_the_run_is_exit_code_one_says_why_and_is_kept(
    theorylab, folders, breaks, reason
):
    ran, stored = (theorylab("run", "toys/coin", "--breaks", breaks) for _ in range(2))
    for answer in (ran, stored):
        assert answer.code == 1
        assert reason in " ".join(answer.out.split())
    assert "from the store" in " ".join(stored.out.split())
    assert "failed:" in theorylab("run", "toys/coin", "--breaks", breaks, "--json").out


def test_a_failure_is_exit_code_three_and_one_line(theorylab, folders):
    answer = theorylab("run", "toys/coin", "--breaks", "run")
    assert (answer.code, answer.out) == (3, "")
    (line,) = [line for line in answer.err.splitlines() if line.startswith("theorylab: ")]
    assert "failed" in line
    trace = Path(line.partition("(traceback in ")[2].removesuffix(")"))
    assert "Traceback" in trace.read_text()
    assert "Traceback" not in answer.err
    assert stored_files(folders, "*") == []


def test_after_a_failure_the_next_experiment_runs(theorylab, tree, monkeypatch):
    coin = tree.load("toys/coin")

    def lost(config):
        raise RuntimeError("the coin is lost")

    monkeypatch.setattr(coin, "run", lost)
    answer = theorylab("tour")
    assert answer.code == 3
    assert "toys/coin failed: RuntimeError: the coin is lost" in answer.err
    assert "It is at least seven." in answer.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "run needs the name of an experiment, got none"),
        (("toys/coni",), "no experiment 'toys/coni'. Did you mean toys/coin"),
        (("toys/coin", "--num-throw", "3"), "has no field --num-throw. Did you mean --num-throws?"),
        (("toys/dice", "--bias", "0.5"), "toys/dice has no field --bias"),
        (("toys/coin", "toys/dice", "--bias", "0.5"), "toys/dice has no field --bias"),
        (("toys/coin", "--num-throws", "x"), "--num-throws must be a whole number, got 'x'"),
        (("toys/coin", "--num-throws", "-5"), "num_throws must be at least 1, got -5"),
        (("toys/coin", "--bias", "1.5"), "bias must be in [0, 1], got 1.5"),
        (("toys/coin", "--breaks", "all"), "--breaks must be one of nothing, run"),
        (("toys/coin", "--preset", "huge"), "--preset must be one of smoke, default, paper"),
        (("toys/dice", "--preset", "paper"), "the preset of toys/dice must be one of smoke"),
        (("toys/coin", "--num-throws", str(10**15)), "--num-throws must be below 2³¹ in size"),
        (("toys/coin", "--seed"), "--seed needs a value, got nothing"),
        (("toys/coin", "-p"), "run has no option -p"),
        (("toys/coin", "--out", ""), "--out needs a path, got an empty one"),
        (("toys/coin", "--out", "/proc/nowhere"), "the store must be a folder that can be written"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(theorylab, folders, arguments, message):
    answer = theorylab("run", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert stored_files(folders, "*") == []


def test_a_cache_that_cannot_be_written_is_an_error_before_any_work(
    theorylab, folders, monkeypatch
):
    (folders / "file").write_text("")
    monkeypatch.setenv("THEORYLAB_CACHE", str(folders / "file"))
    answer = theorylab("run", "toys/coin")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert f"the cache folder must be a folder that can be written, got {folders}" in answer.err


def test_a_damaged_outcome_is_named_set_aside_and_run_again(theorylab, folders):
    theorylab("run", "toys/coin", *TINY)
    (arrays,) = stored_files(folders, "arrays.npz")
    whole = arrays.read_bytes()
    arrays.write_bytes(whole[: len(whole) // 2])
    answer = theorylab("run", "toys/coin", *TINY)
    assert answer.code == 0
    assert f"the outcome in {arrays.parent} is damaged (arrays.npz does not fit" in answer.err
    assert "Traceback" not in answer.err
    assert arrays.read_bytes() == whole
    assert len(stored_files(folders, "arrays.npz")) == 2  # the damaged one is kept


def test_the_report_is_an_atlas_of_what_is_stored(theorylab, folders):
    answer = theorylab("report")
    assert answer.code == 0
    page = Path(answer.out.strip())
    assert page == folders / "store" / "atlas" / "index.html"
    coin = page.parent / "experiments/toys/coin.html"
    assert "not run" in coin.read_text(encoding="utf-8")
    theorylab("run", "toys/coin", "toys/dice", *TINY)
    assert theorylab("report").out == answer.out
    assert "not run" not in coin.read_text(encoding="utf-8")
    assert "theorylab run toys/coin --num-throws" in coin.read_text(encoding="utf-8")
    assert len(stored_files(folders, "outcome.json")) == 2  # the atlas is no outcome


def test_a_report_to_an_html_file_is_one_page(theorylab, folders):
    other = folders / "new" / "page.html"
    answer = theorylab("report", "--to", str(other))
    assert (answer.code, answer.out) == (2, "")
    assert "a page needs outcomes, got none" in answer.err
    theorylab("run", "toys/coin", "toys/dice", *TINY)
    assert theorylab("report", "--to", str(other)).out.strip() == str(other)
    text = other.read_text(encoding="utf-8")
    assert "It is at least seven." in text
    assert "The share of heads is at most p + 0.2." in text


@pytest.mark.parametrize("goal", ["", "file", "file/page.html", "file/atlas"])
def test_a_report_that_cannot_be_written_is_bad_usage(theorylab, folders, goal):
    theorylab("run", "toys/dice")
    (folders / "file").write_text("")
    answer = theorylab("report", "--to", str(folders / goal))
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)


def test_the_tour_runs_all_and_prints_where_its_page_is(theorylab, folders):
    answer = theorylab("tour", "--preset", "smoke")
    assert answer.code == 0
    assert "The share of heads is at most p + 0.2." in answer.out
    assert "It is at least seven." in answer.out
    page = Path(answer.out.splitlines()[-1])
    assert page == folders / "store" / "tour.html"
    assert "<svg" in page.read_text(encoding="utf-8")
    assert theorylab("tour", "toys/coin").code == 2


def test_earlier_durations_are_kept_for_presets_only(theorylab, folders):
    theorylab("run", "toys/dice")
    theorylab("run", "toys/coin", *TINY)
    assert list(json.loads((folders / "cache/timings.json").read_text())) == ["toys/dice default"]


def test_compiled_programs_are_kept_in_the_cache(theorylab, folders):
    jax.clear_caches()  # what is in memory is not compiled again
    theorylab("run", "toys/dice")
    assert list((folders / "cache/compiled").iterdir())


@pytest.mark.parametrize(("cores", "threads"), [(2, "4"), (8, None)])
def test_a_small_machine_has_threads_enough(theorylab, monkeypatch, cores, threads):
    monkeypatch.setattr(os, "environ", {**os.environ})
    os.environ.pop("NPROC", None)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    theorylab("run", "toys/dice")
    assert os.environ.get("NPROC") == threads


def test_work_in_the_background_gives_its_result_or_its_error():
    assert in_background(lambda: threading.current_thread().name) == "theorylab run"
    for error in (ValueError("wrong"), TimeoutError("late")):

        def work(error=error):
            raise error

        with pytest.raises(type(error), match=str(error)):
            in_background(work)
    time.sleep(0.01)
    assert not is_busy()


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_interrupted_nothing_is_stored_and_there_is_no_traceback(script, folders, number, code):
    """While a run takes a minute; Ctrl-C is heard at once."""
    # A shell that runs this in the background has turned Ctrl-C off.
    hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{hearing}\n{script}\nsys.exit(code)"
    command = [sys.executable, "-c", program, "run", "toys/coin", "--seconds=60"]
    child = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert child.stderr is not None
    heard = ""
    for line in child.stderr:
        heard += line
        if "throwing" in line:
            break
    began = time.monotonic()
    child.send_signal(number)
    out, err = child.communicate(timeout=30)
    assert child.returncode == code
    assert time.monotonic() - began < 5
    assert "Traceback" not in heard + err
    if number == signal.SIGINT:
        assert err == "theorylab: interrupted.\n"
    assert out == ""
    assert stored_files(folders, "*") == []
