"""Kill the workers of a sweep every few seconds, then the sweep itself, and ask for it again.

    python tools/kill_sweeps.py --engine local
    python tools/kill_sweeps.py --engine dask      needs theorylab[cluster]

200 settings on 4 workers. Whatever is killed, all outcomes must be there in the end, with the bytes
of a sweep in one process, and none that was there before the second start may have been written
again. Exits with 1 if that is not so.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

EXPERIMENT = "dynamics/quadratic/phase_diagram"
NUMBERS = ("arrays.npz", "config.json", "findings.json")


def command(store: Path, settings: int, *options: str) -> list[str]:
    """The sweep as the shell has it."""
    words = [sys.executable, "-m", "theorylab", "sweep", EXPERIMENT, "--preset", "smoke"]
    return [*words, "--seeds", str(settings), "--out", str(store), "--json", *options]


def contents(store: Path) -> dict[str, bytes]:
    """The numbers of every outcome, by its key."""
    folders = (store / EXPERIMENT).glob("*/")
    return {f"{f.name}/{name}": (f / name).read_bytes() for f in folders for name in NUMBERS}


def finished(store: Path) -> dict[str, int]:
    """When every outcome was written."""
    folders = (store / EXPERIMENT).glob("*/")
    return {folder.name: (folder / "manifest.json").stat().st_mtime_ns for folder in folders}


def workers_of(driver: int) -> list[int]:
    """The processes of a sweep that run settings."""
    words = ["ps", "-o", "pid=,args=", "--ppid", str(driver)]
    lines = subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()
    rows = (line.split(maxsplit=1) for line in lines)
    return [int(pid) for pid, arguments in rows if "theorylab.lab.sweeps." in arguments]


def is_running(process: int) -> bool:
    """Whether a process is there, and no zombie."""
    state = Path(f"/proc/{process}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def harassed(
    words: Sequence[str], store: Path, every: float, until: int
) -> tuple[int, str, list[int]]:
    """Start a sweep and kill a worker every few seconds; kill it too when so many are done.

    Gives the number of workers killed, what the sweep printed, and the workers at its death.
    """
    with tempfile.TemporaryFile("w+") as printed:  # a pipe would be full at some time
        driver = subprocess.Popen(words, stdout=printed)
        killed, last, workers = 0, time.monotonic(), []
        while driver.poll() is None:
            time.sleep(0.1)
            if len(finished(store)) >= until:
                workers = workers_of(driver.pid)
                driver.send_signal(signal.SIGKILL)
                driver.wait()
            elif time.monotonic() - last >= every and (alive := workers_of(driver.pid)):
                os.kill(random.choice(alive), signal.SIGKILL)
                killed, last = killed + 1, time.monotonic()
        printed.seek(0)
        return killed, printed.read(), workers


def main() -> int:
    """Do it, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("local", "dask"), default="local")
    parser.add_argument("--settings", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--every", type=float, default=4.0, help="seconds between two kills")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        alone, harried = Path(folder) / "alone", Path(folder) / "harried"
        subprocess.run(command(alone, given.settings), stdout=subprocess.DEVNULL, check=False)
        options = ("--engine", given.engine, "--workers", str(given.workers), "--as", "harried")
        words = command(harried, given.settings, *options)
        began = time.monotonic()
        first, _, left = harassed(words, harried, given.every, given.settings // 2)
        time.sleep(2 * given.every)
        remain = [process for process in left if is_running(process)]
        before = finished(harried)
        again = [*command(harried, 0)[:4], "--resume", "harried", "--out", str(harried), "--json"]
        again += ["--engine", given.engine, "--workers", str(given.workers)]
        second, printed, _ = harassed(again, harried, given.every, given.settings + 1)
        after = finished(harried)
        told = json.loads(printed)
        kept = all(after.get(key) == then for key, then in before.items())
        same = contents(harried) == contents(alone)
        print(f"{given.engine}: {given.settings} settings, {given.workers} workers")
        print(f"  workers killed: {first} before the sweep was killed, {second} after")
        print(f"  there when it was killed: {len(before)}; its workers still alive: {len(remain)}")
        print(f"  asked again: {told['num_read']} read, {told['num_run']} run,", end=" ")
        print(f"{told['num_lost']} lost and tried again, {len(told['failures'])} failed")
        print(f"  in the end: {len(after)} outcomes, none written twice: {kept}")
        print(f"  bytes as in one process: {same}; {time.monotonic() - began:.0f} s")
        whole = len(after) == given.settings and not told["failures"] and not remain
        return 0 if whole and kept and same else 1


if __name__ == "__main__":
    sys.exit(main())
