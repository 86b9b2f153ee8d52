"""Measurements of a convolutional network of a user's own: theorylab and the best peers.

    python benchmarks/own_network_peers.py --torch PYTHON_THAT_HAS_THEM [--samples 100] [--tasks …]

The network has three convolutions (3 → 32 → 64 → 128 channels, 3 × 3, the second with stride 2),
mean pooling over 4 × 4, and dense layers 2048 → 440 → 10: 999,218 parameters, on images of 32 × 32
with three colours. The large one has 64, 128 and 256 channels and 2,560 neurons: 10,884,746.

    sharpness, top 10, large top 5     Hessian: curvlinops, hessian-eigenthings, PyHessian
    kernel 1, kernel 10                tangent kernel, averaged over 1 and 10 outputs: torch.func
    AGOP                               average gradient outer product: torch.func.jacrev

All get the same weights, images and labels in single precision, in a process of their own that is
pinned to one core with one thread; CPU seconds count, of matrices the best of three calls. Of
eigenvalues, the largest ‖Hv − λv‖/λ₁ stands beside the time; steps and tolerances are to be chosen
so that it is equal. Of matrices, the trace and the norm are compared. Compilation is shown apart;
PyTorch has none.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
OURS, HESSIANS = "theorylab", ("curvlinops", "hessian-eigenthings", "PyHessian")
LIMIT = 3600  # seconds for one contender, on a busy machine
ROUNDS = {"eigenvalues": 1, "kernel": 3, "agop": 3}  # the best of so many calls counts


class Task(NamedTuple):
    """What is measured, of which network, and by whom besides us."""

    kind: str
    sizes: tuple[int, ...] = (32, 64, 128, 440, 10)  # channels, neurons, outputs
    top: int = 0  # how many eigenvalues
    peers: tuple[str, ...] = ("torch.func",)


LARGE = (64, 128, 256, 2560, 10)
TASKS = {
    "sharpness": Task("eigenvalues", top=1, peers=HESSIANS),
    "top 10": Task("eigenvalues", top=10, peers=HESSIANS),
    "large top 5": Task("eigenvalues", LARGE, top=5, peers=HESSIANS),
    "kernel 1": Task("kernel", (32, 64, 128, 440, 1)),
    "kernel 10": Task("kernel"),
    "AGOP": Task("agop"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--torch", help="a Python interpreter that can import the peers")
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--peers", nargs="*", help="only these")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--steps", type=int, default=40, help="Lanczos steps for eigenvalues")
    parser.add_argument("--tolerance", type=float, default=0.01, help="where peers may stop")
    parser.add_argument("--core", type=int, default=0, help="the core that all are pinned to")
    for hidden in ("--only", "--data", "--task", "--top"):  # of a child
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(measure(given)))
        return
    head = ("task", "contender", "CPU s", "×", "compiling", "peak GB", "residual")
    print("{:13}{:21}{:>9}{:>7}{:>11}{:>9}{:>10}  numbers".format(*head))
    for name in given.tasks:
        with tempfile.TemporaryDirectory() as folder:
            compare(name, str(Path(folder) / "task.npz"), given)


def compare(name: str, data: str, given: argparse.Namespace) -> None:
    """Give one task to all, and print a line for each."""
    task, ours = TASKS[name], None
    save(data, task.sizes, given.samples)
    contenders = {OURS: [sys.executable, __file__]}
    if given.torch:
        script = str(HERE / "own_network_torch.py")
        chosen = [each for each in task.peers if not given.peers or each in given.peers]
        contenders |= {each: [given.torch, script] for each in chosen}
    for contender, command in contenders.items():
        found = _run([*command, "--only", contender], data, task, given)
        if "failed" in found:
            print(f"{name:13}{contender:21}failed: {found['failed']}", flush=True)
            continue
        ours = ours or found["seconds"]
        numbers = " ".join(f"{number:.5g}" for number in found["numbers"])
        residual = f"{found['residual']:.1e}" if "residual" in found else ""
        print(
            f"{name:13}{contender:21}{found['seconds']:9.2f}{found['seconds'] / ours:7.2f}"
            f"{found['compiling']:11.1f}{found['peak']:9.2f}{residual:>10}  {numbers}",
            flush=True,
        )


def _run(command: list[str], data: str, task: Task, given: argparse.Namespace) -> dict[str, Any]:
    """What a contender measured in a process of its own, or why it did not."""
    options = {"data": data, "task": task.kind, "top": task.top, "steps": given.steps}
    options |= {"tolerance": given.tolerance, "core": given.core}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    one_thread = {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    }
    try:
        finished = subprocess.run(
            [*command, *words],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env=os.environ | one_thread,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"over {LIMIT} s"}
    if finished.returncode:
        return {"failed": (finished.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    return json.loads(finished.stdout.splitlines()[-1])


def save(path: str, sizes: tuple[int, ...], num_samples: int) -> None:
    """Images and labels at random, and weights of variance 2/fan-in."""
    draw = np.random.default_rng(0).standard_normal
    first, second, third, neurons, outputs = sizes
    shapes = [(3, 3, 3, first), (3, 3, first, second), (3, 3, second, third)]
    shapes += [(16 * third, neurons), (neurons, outputs)]
    arrays: dict[str, Any] = {"x": draw((num_samples, 32, 32, 3)).astype(np.float32)}
    arrays["y"] = np.eye(outputs, dtype=np.float32)[np.arange(num_samples) % outputs]
    for i, shape in enumerate(shapes):
        scale = math.sqrt(2 / math.prod(shape[:-1]))
        arrays[f"w{i}"] = (scale * draw(shape)).astype(np.float32)
        arrays[f"b{i}"] = np.zeros(shape[-1], np.float32)
    np.savez(path, **arrays)


def apply(params: dict[str, Any], x: Any) -> Any:
    """The network, as one writes it."""
    import jax

    axes = ("NHWC", "HWIO", "NHWC")
    for i, stride in enumerate((1, 2, 1)):
        kernel, bias = params[f"w{i}"], params[f"b{i}"][None, None, None]
        x = jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=axes
        )
        x = jax.nn.relu(x + bias)
    x = x.reshape(len(x), 4, 4, 4, 4, -1).mean(axis=(2, 4)).reshape(len(x), -1)
    x = jax.nn.relu(x @ params["w3"] + params["b3"][None])
    return x @ params["w4"] + params["b4"][None]


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """The time, the numbers and the residual of theorylab."""
    os.sched_setaffinity(0, {int(given.core)})
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    from theorylab.curvature import hessian
    from theorylab.features import agop
    from theorylab.kernels import ntk
    from theorylab.numerics import eigenpairs
    from theorylab.training import cross_entropy

    with np.load(given.data) as stored:
        params = jax.device_put(dict(stored))
    x, y = params.pop("x"), params.pop("y")
    key = jax.random.key(0)

    def curvature(params, x, y):
        return hessian(lambda w: cross_entropy("mean")(apply(w, x), y), params)

    def top(params, x, y, key):
        found = eigenpairs(curvature(params, x, y), params, int(given.top), given.steps, key)
        return found.values, found.vectors

    def residuals(params, x, y, values, vectors):
        images = jax.lax.map(curvature(params, x, y), vectors)
        flat = jax.vmap(lambda tree: ravel_pytree(tree)[0])
        return jnp.linalg.norm(flat(images) - values[:, None] * flat(vectors), axis=1)

    run = {
        "eigenvalues": top,
        "kernel": lambda params, x, y, key: ntk(apply, params, x),
        "agop": lambda params, x, y, key: agop(apply, params, x),
    }[given.task]
    began = time.process_time()
    compiled = jax.jit(run).lower(params, x, y, key).compile()
    compiling = time.process_time() - began
    times: list[float] = []
    answer: Any = ()
    for _ in range(ROUNDS[given.task]):
        began = time.process_time()
        answer = jax.block_until_ready(compiled(params, x, y, key))
        times.append(time.process_time() - began)
    seconds = min(times)
    found: dict[str, Any] = {"seconds": seconds, "compiling": compiling}
    if given.task == "eigenvalues":
        values = answer[0]
        off = jax.jit(residuals)(params, x, y, *answer)
        found |= {"numbers": values.tolist(), "residual": float(off.max() / values[0])}
    else:
        found["numbers"] = [
            float(np.trace(answer)),
            float(np.linalg.norm(np.asarray(answer, float))),
        ]
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return found


if __name__ == "__main__":
    main()
