"""A sweep against separate commands, against joblib, and against itself with one worker.

    python benchmarks/sweeps.py [--settings 200] [--commands 10]

All contenders start cold, in a process and with a cache of their own. CPU seconds are those of a
process and of all that it started; they hold on a busy machine, where wall seconds do not.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

EXPERIMENT = "dynamics/quadratic/phase_diagram"  # 5 ms of computing for each setting at its smoke
SWEEP = """
import json, resource, sys
from theorylab.cli import main
code = main(sys.argv[1:])
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps(usage.ru_utime + usage.ru_stime))
sys.exit(code)
"""
JOBLIB = """
import sys
from dataclasses import replace
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from theorylab.lab.compilation import kept_compilations
from theorylab.folders import cache_folder

def conducted(seed):
    from theorylab.experiments.dynamics.quadratic import phase_diagram
    from theorylab.lab.conduct import conduct
    return conduct(phase_diagram, replace(phase_diagram.PRESETS["smoke"], seed=seed), "smoke")

def judged(seed):
    from theorylab.experiments.dynamics.quadratic import phase_diagram
    from theorylab.experiments.tree import EXPERIMENTS
    from theorylab.lab.conduct import perform
    entry = EXPERIMENTS.entry("dynamics/quadratic/phase_diagram")
    config = replace(phase_diagram.PRESETS["smoke"], seed=seed)
    return perform(entry, phase_diagram, config, "smoke", "", with_figure=False)

work = {"conducted": conducted, "judged": judged}[sys.argv[1]]
found = Parallel(n_jobs=2)(delayed(work)(seed) for seed in range(int(sys.argv[2])))
assert len({outcome.config["seed"] for outcome in found}) == int(sys.argv[2])
get_reusable_executor().shutdown(wait=True)
"""


class Cost(NamedTuple):
    """What a contender took."""

    wall: float
    cpu: float
    driver: float = 0.0  # CPU seconds of the first process alone


@contextmanager
def apart() -> Iterator[dict[str, str]]:
    """An environment with a store and a cache of its own."""
    with tempfile.TemporaryDirectory() as folder:
        yield os.environ | {
            "THEORYLAB_STORE": f"{folder}/store",
            "THEORYLAB_CACHE": f"{folder}/cache",
            "NPROC": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }


def cost(words: Sequence[str], environment: dict[str, str]) -> tuple[Cost, str]:
    """Run a program to its end, with its children."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):  # 1: a verdict is not as expected
        raise SystemExit(ran.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - began, cpu), ran.stdout


def swept(*options: str) -> Cost:
    """One sweep."""
    words = ["sweep", EXPERIMENT, "--preset", "smoke", *options]
    with apart() as environment:
        found, printed = cost([sys.executable, "-c", SWEEP, *words], environment)
    return found._replace(driver=json.loads(printed.splitlines()[-1]))


def commands(number: int) -> Cost:
    """Separate commands, one seed each; from the second on they find compiled programs."""
    run = [sys.executable, "-m", "theorylab", "run", EXPERIMENT, "--preset", "smoke", "--seed"]
    with apart() as environment:
        cost([*run, "1000"], environment)
        costs = [cost([*run, str(seed)], environment)[0] for seed in range(number)]
    return Cost(sum(each.wall for each in costs), sum(each.cpu for each in costs))


def joblib(work: str, settings: int) -> Cost:
    """Two processes of joblib over a function of theorylab."""
    with apart() as environment, tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(JOBLIB)
        script.flush()
        return cost([sys.executable, script.name, work, str(settings)], environment)[0]


def main() -> None:
    """Print what everybody took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=200)
    parser.add_argument("--commands", type=int, default=10)
    parser.add_argument("--shapes", type=int, default=40)
    given = parser.parse_args()
    number, seeds = given.settings, ("--seeds", str(given.settings))
    one = swept(*seeds)
    some, factor = commands(given.commands), number / given.commands
    run = f"theorylab run, {given.commands} × {factor:g}"
    contenders = {
        "sweep, one worker": lambda: one,
        run: lambda: Cost(some.wall * factor, some.cpu * factor),
        "joblib over conduct, two processes": lambda: joblib("conducted", number),
        "joblib without figures, two processes": lambda: joblib("judged", number),
        "sweep, two workers": lambda: swept(*seeds, "--workers", "2"),
    }
    print(f"{number} settings of {EXPERIMENT} that share shapes\n")
    print(f"{'contender':40} {'wall s':>8} {'CPU s':>8} {'× CPU':>6}")
    for name, measured in contenders.items():
        each = measured()
        row = f"{name:40} {each.wall:8.1f} {each.cpu:8.1f} {each.cpu / one.cpu:6.1f}"
        print(row, flush=True)
    shapes = ("--over", f"num_settings=1:{given.shapes}:1")
    alone, two = swept(*shapes), swept(*shapes, "--workers", "2")
    path = two.driver + (two.cpu - two.driver) / 2
    print(f"\n{given.shapes} settings, each of another shape\n")
    print(f"one worker: {alone.wall:.1f} s, {alone.cpu:.1f} CPU s")
    print(f"two workers: {two.wall:.1f} s, {two.cpu:.1f} CPU s, {two.driver:.1f} of the driver's")
    print(f"ratio: {alone.wall / two.wall:.2f} by the wall clock here,", end=" ")
    print(f"{alone.cpu / path:.2f} on two free cores (driver, then half of the workers' CPU)")


if __name__ == "__main__":
    main()
