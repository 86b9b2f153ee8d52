"""Kernels of networks: theorylab and Neural Tangents, on the same inputs and weights.

    python benchmarks/kernels.py --neural-tangents PYTHON_THAT_HAS_IT

Infinite width: fully connected with three hidden layers and n = 5000; convolutions (3 × 3, ReLU,
colour images) with a flattened readout, with pooling as in Myrtle, and three with a global average.
Pooled ones have few inputs: the cost of an entry does not depend on how many there are. Finite
width: all pairs of outputs of the kernel of two hidden layers, and of three convolutions; the best
implementation of Neural Tangents counts. Sampled: the mean over 16 random networks.

Each contender runs in a process of its own. What counts are CPU seconds of all threads, of the best
call after the first; the first one, with its compilation, is shown apart. The peak of memory is
without inputs and result. Differences are those of the first rows and columns, over the largest
entry. A share of the time is that of one run.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kernel_tasks import TASKS, Task, inputs, measure, weights

HERE = Path(__file__).resolve().parent
LIMIT = 900  # seconds for one contender
MOST_MEMORY = 200  # MB above inputs and result, of finite kernels
IMPORT_LIMIT = 2.0  # seconds
HE = math.sqrt(2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--neural-tangents", help="a Python interpreter that can import it")
    parser.add_argument(
        "--tasks", nargs="+", default=list(TASKS), help="names, or their beginnings"
    )
    parser.add_argument("--only", choices=TASKS, help=argparse.SUPPRESS)  # a child
    parser.add_argument("--corner", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        import jax

        print(measure(contender(TASKS[given.only]), jax.block_until_ready, given.corner))
        return
    if not given.neural_tangents:
        print("Alone: name an interpreter that has Neural Tangents with --neural-tangents.")
    _print_import(given.neural_tangents)
    head = ("task", "implementation", "CPU s", "first", "peak MB", "share", "limit", "difference")
    print("{:22}{:16}{:>9}{:>8}{:>9}{:>8}{:>8}{:>12}".format(*head))
    for name in TASKS:
        if any(name.startswith(wanted) for wanted in given.tasks):
            _compare(name, given.neural_tangents)


def _compare(name: str, neural_tangents: str | None) -> None:
    """Run the contenders of one task, and print their lines."""
    task = TASKS[name]
    with tempfile.TemporaryDirectory() as folder:
        ours = _run([sys.executable, __file__, "--only", name], Path(folder) / "ours.npy")
        theirs = {}
        for way in task.ways if neural_tangents else ():
            script = str(HERE / "kernels_neural_tangents.py")
            command = [neural_tangents, "-W", "ignore", script, "--task", name, "--way", way]
            theirs[way] = _run(command, Path(folder) / f"{way}.npy")
        for way, measured in theirs.items():
            _line(name, f"NT {way}", measured)
        known = {way: measured for way, measured in theirs.items() if "again" in measured}
        if not known or "again" not in ours:
            _line(name, "theorylab", ours)
            return
        best = min(known, key=lambda way: known[way]["again"])
        share = ours["again"] / known[best]["again"]
        corners = [np.load(Path(folder) / f"{one}.npy") for one in ("ours", best)]
        gap = np.abs(corners[0] - corners[1]).max() / np.abs(corners[1]).max()
        _line(name, "theorylab", ours, f"{share:8.3f}{task.limit:8.3f}{gap:12.1e}")


def _line(name: str, contender: str, measured: dict[str, Any], rest: str = "") -> None:
    if "failed" in measured:
        print(f"{name:22}{contender:16}failed: {measured['failed']}", flush=True)
        return
    times = f"{measured['again']:9.3f}{measured['first']:8.2f}{measured['peak']:9.0f}"
    print(f"{name:22}{contender:16}{times}{rest}", flush=True)


def _run(command: list[str], corner: Path) -> dict[str, Any]:
    """What a contender measured in a process of its own, or why it did not."""
    try:
        finished = subprocess.run(
            [*command, "--corner", str(corner)], capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"over {LIMIT} s"}
    if finished.returncode:
        return {"failed": (finished.stderr.strip().splitlines() or ["no message"])[-1][:100]}
    return json.loads(finished.stdout.splitlines()[-1])


def _print_import(neural_tangents: str | None) -> None:
    """How long a first import takes, the better of two."""
    packages = {"theorylab.kernels": sys.executable}
    if neural_tangents:
        packages["neural_tangents"] = neural_tangents
    for package, python in packages.items():
        walls = []
        for _ in range(2):
            start = time.perf_counter()
            subprocess.run([python, "-c", f"import {package}"], check=True, capture_output=True)
            walls.append(time.perf_counter() - start)
        limit = f" (limit {IMPORT_LIMIT})" if package.startswith("theorylab") else ""
        print(f"import {package}: {min(walls):.2f} s{limit}")


def contender(task: Task) -> Callable[[], Any]:
    """What computes the kernel of a task."""
    import jax

    from theorylab.kernels import infinite_kernels, ntk_full, sampled_kernels
    from theorylab.models import NTK, network

    x = jax.numpy.asarray(inputs(task))
    architecture, scales = _architecture(task), NTK(weight_scale=HE, bias_scale=0.1)
    if task.kind in ("dense", "flat", "myrtle", "pooled"):
        bias = "normal" if task.kind == "dense" else "none"
        return lambda: infinite_kernels(architecture, x, None, scales, bias).ntk
    model = network(architecture, x.shape[1:], scales)
    if task.kind == "sampled":
        key = jax.random.key(0)
        return lambda: sampled_kernels(model.init, model.apply, x, None, 16, key).ntk.mean
    leaves, tree = jax.tree.flatten(jax.eval_shape(model.init, jax.random.key(0)))
    drawn = weights([leaf.shape for leaf in leaves])
    params = jax.tree.unflatten(tree, map(jax.numpy.asarray, drawn))
    finite = jax.jit(lambda params, x: ntk_full(model.apply, params, x))
    return lambda: finite(params, x)


def _architecture(task: Task) -> Any:
    from theorylab.models import (
        Activation,
        AvgPool,
        Conv,
        Dense,
        Flatten,
        GlobalPool,
        Serial,
        mlp,
    )

    conv = (Conv(max(task.width, 1), (3, 3), padding="same"), Activation("relu"))
    dense, pool = Dense(task.num_outputs), AvgPool((2, 2))
    return {
        "dense": mlp([1] * 3, output_bias=False),
        "flat": Serial(*conv * 4, Flatten(), dense),
        "myrtle": Serial(*conv * 2, pool, *conv, pool, *conv, GlobalPool(), dense),
        "pooled": Serial(*conv * 3, GlobalPool(), dense),
        "mlp": mlp([max(task.width, 1)] * 2, task.num_outputs),
        "cnn": Serial(*conv * 3, GlobalPool(), dense),
        "sampled": mlp([max(task.width, 1)] * 3, task.num_outputs),
    }[task.kind]


if __name__ == "__main__":
    main()
