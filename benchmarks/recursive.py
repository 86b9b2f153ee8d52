"""Recursive feature machines on tabular data, against the package xrfm in its own environment.

    python benchmarks/recursive.py --peer PYTHON

5,000 rows of 100 features, made: the target depends on a few directions, in a way that is no
polynomial, with noise. Both learn with the Laplace kernel, the same ridge, five iterations (six
solves) in float32, a bandwidth that follows the median distance, and keep the round that is best on
the same 1,000 validation rows; 2,000 rows are the test. PYTHON is that of an environment with torch
and xrfm. Each runs in a process of its own; the time is that of fit and prediction, imports left
out. The peer is given both of its solvers: LU, its default, and Cholesky, its faster one.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", help="the Python of an environment with torch and xrfm")
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--ridge", type=float, default=1e-2)
    parser.add_argument("--bandwidth", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help=argparse.SUPPRESS)  # a child, with its data
    given = parser.parse_args()
    if given.only:
        print(json.dumps(_measured(given)))
        return
    print(f"{given.samples} × {given.features}, {given.iterations} iterations, float32:")
    print("{:22}{:>9}{:>9}{:>12}{:>7}".format("machine", "wall s", "CPU s", "test error", "best"))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "data.npz")
        np.savez(path, **_data(given))
        commands = {"theorylab": [sys.executable, __file__, *sys.argv[1:], "--only", path]}
        if given.peer:
            script = str(HERE / "recursive_xrfm.py")
            for solver in ("solve", "cholesky"):
                commands[f"xrfm, {solver}"] = [
                    *(given.peer, script, path, solver, str(given.threads))
                ]
        for name, command in commands.items():
            finished = subprocess.run(command, capture_output=True, text=True)
            if finished.returncode:
                raise SystemExit(f"{name} failed:\n{finished.stderr}")
            found = json.loads(finished.stdout.splitlines()[-1])
            print("{:22}{wall:9.1f}{cpu:9.1f}{error:12.5f}{best!s:>7}".format(name, **found))


def _data(given: argparse.Namespace) -> dict[str, Any]:
    """Rows, targets and settings."""
    random = np.random.default_rng(given.seed)
    sizes = {"": given.samples, "_validation": 1000, "_test": 2000}
    directions = np.linalg.qr(random.normal(size=(given.features, 4)))[0]
    arrays: dict[str, Any] = {
        name: getattr(given, name) for name in ("bandwidth", "ridge", "iterations")
    }
    for name, size in sizes.items():
        x = random.normal(size=(size, given.features))
        u = (x @ directions).T
        y = np.sin(2 * u[0]) + u[1] * u[2] + np.maximum(u[3], 0)
        noise = 0.1 * random.normal(size=size)
        arrays["x" + name] = x.astype(np.float32)
        arrays["y" + name] = (y + noise)[:, None].astype(np.float32)
    return arrays


def _measured(given: argparse.Namespace) -> dict[str, Any]:
    from threadpoolctl import threadpool_limits

    from theorylab.features import Recursion, learn_features

    with np.load(given.only) as data:
        arrays = dict(data)
    recursion = Recursion(num_steps=given.iterations, bandwidth=given.bandwidth, ridge=given.ridge)
    validation = (arrays["x_validation"], arrays["y_validation"])
    with threadpool_limits(given.threads):
        wall, cpu = time.perf_counter(), time.process_time()
        found = learn_features(recursion, arrays["x"], arrays["y"], validation)
        outputs = found.machine(arrays["x_test"])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    error = float(np.mean((outputs - arrays["y_test"]) ** 2))
    return {"wall": wall, "cpu": cpu, "error": error, "best": found.best}


if __name__ == "__main__":
    main()
