"""The Hessian of a convolutional network with a million parameters: theorylab and three peers.

    python benchmarks/curvature.py --torch PYTHON_THAT_HAS_THEM

The ten largest eigenvalues and a spectral density of the cross-entropy on 1,000 images, by
theorylab and by PyHessian, curvlinops (with SciPy's eigsh) and hessian-eigenthings, on the same
weights and images in single precision. Every contender runs in a process of its own, pinned to one
core with one thread, and CPU seconds count. Eigenpairs are wanted to an equal residual; the largest
‖Hv − λv‖/λ₁ that each one reached stands beside its time. Densities are Lanczos quadratures with
the same probes and steps. Compilation is shown apart; PyTorch has none.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
K, NUM_IMAGES = 10, 1000
SHAPES = {"w0": (5, 5, 1, 32), "w1": (3, 3, 32, 64), "w2": (1600, 600), "w3": (600, 10)}
OURS = "theorylab"
PEERS = ("PyHessian", "curvlinops", "hessian-eigenthings")
LIMIT = 3600  # seconds for one contender, on a busy machine


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--torch", help="a Python interpreter that can import the peers")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--steps", type=int, default=90, help="Lanczos steps for the eigenvalues")
    parser.add_argument(
        "--tolerance", type=float, default=0.02, help="where eigsh stops, relative to an eigenvalue"
    )
    parser.add_argument("--probes", type=int, default=2, help="probes of the density")
    parser.add_argument("--density-steps", type=int, default=30, help="steps of each probe")
    parser.add_argument("--core", type=int, default=0, help="the core that all are pinned to")
    parser.add_argument("--only", help=argparse.SUPPRESS)  # a child
    parser.add_argument("--data", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(measure(given)))
        return
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "task.npz")
        save(data)
        commands = {OURS: [sys.executable, __file__]}
        if given.torch:
            script = str(HERE / "curvature_torch.py")
            commands |= {name: [given.torch, script] for name in given.peers}
        else:
            print("Alone: name an interpreter that has the peers with --torch.")
        head = (
            "contender",
            "top 10 s",
            "×",
            "density s",
            "×",
            "both ×",
            "compiling",
            "residual",
            "λ₁",
            "λ₁₀",
        )
        print("{:22}{:>10}{:>7}{:>11}{:>7}{:>8}{:>11}{:>10}{:>10}{:>10}".format(*head))
        ours = None
        for name, command in commands.items():
            found = _run([*command, "--only", name], data, given)
            ours = ours or found
            _line(name, found, ours)


def _line(name: str, found: dict[str, Any], ours: dict[str, Any]) -> None:
    if "failed" in found:
        print(f"{name:22}failed: {found['failed']}", flush=True)
        return
    parts = ("top", "density")
    ratios = [found[part] / ours[part] for part in parts]
    both = sum(found[part] for part in parts) / sum(ours[part] for part in parts)
    values = found["values"]
    print(
        f"{name:22}{found['top']:10.1f}{ratios[0]:7.2f}{found['density']:11.1f}{ratios[1]:7.2f}"
        f"{both:8.2f}{found['compiling']:11.1f}{found['residual'] / values[0]:10.1e}"
        f"{values[0]:10.4f}{values[-1]:10.4f}",
        flush=True,
    )


def _run(command: list[str], data: str, given: argparse.Namespace) -> dict[str, Any]:
    """What a contender measured in a process of its own, or why it did not."""
    options = [
        *("--data", data),
        *("--steps", str(given.steps)),
        *("--tolerance", str(given.tolerance)),
        *("--probes", str(given.probes)),
        *("--density-steps", str(given.density_steps)),
        *("--core", str(given.core)),
    ]
    one_thread = {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    }
    try:
        finished = subprocess.run(
            [*command, *options],
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


def save(path: str) -> None:
    """The images, their labels, and weights of variance 1/fan-in."""
    from theorylab.data import mnist5k

    images = mnist5k()
    draw = np.random.default_rng(0).standard_normal
    arrays = {
        "x": np.asarray(images.x[:NUM_IMAGES], np.float32).reshape(-1, 28, 28, 1),
        "y": np.asarray(images.y[:NUM_IMAGES], np.float32),
    }
    for name, shape in SHAPES.items():
        scale = 1 / math.sqrt(math.prod(shape[:-1]))
        arrays[name] = (scale * draw(shape)).astype(np.float32)
        arrays[name.replace("w", "b")] = np.zeros(shape[-1], np.float32)
    np.savez(path, **arrays)


def apply(params: dict[str, Any], x: Any) -> Any:
    """The network; a convolution is a product with the windows, which XLA does fast in a loop."""
    import jax
    import jax.numpy as jnp

    def windows(x: Any, width: int) -> Any:
        n, size, _, channels = x.shape
        last = size - width + 1
        return jnp.concatenate(
            [
                jax.lax.slice(x, (0, i, j, 0), (n, i + last, j + last, channels), (1, 2, 2, 1))
                for i in range(width)
                for j in range(width)
            ],
            axis=-1,
        )

    for i in (0, 1):
        kernel, bias = params[f"w{i}"], params[f"b{i}"]
        flat = kernel.reshape(-1, kernel.shape[-1])
        x = jnp.tanh(windows(x, len(kernel)) @ flat + bias[None, None, None])
    x = jnp.tanh(x.reshape(len(x), -1) @ params["w2"] + params["b2"][None])
    return x @ params["w3"] + params["b3"][None]


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Times, values and residuals of theorylab."""
    os.sched_setaffinity(0, {given.core})
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    from theorylab.curvature import hessian, spectral_density
    from theorylab.numerics import eigenpairs
    from theorylab.training import cross_entropy

    with np.load(given.data) as stored:
        arrays = jax.device_put(dict(stored))
    x, y = arrays.pop("x"), arrays.pop("y")
    key = jax.random.key(0)

    def curvature(params, x, y):
        return hessian(lambda w: cross_entropy("mean")(apply(w, x), y), params)

    def top(params, x, y, key):  # residuals are not asked for: the peers report none
        found = eigenpairs(curvature(params, x, y), params, K, given.steps, key)
        return found.values, found.vectors

    def residuals(params, x, y, values, vectors):
        images = jax.lax.map(curvature(params, x, y), vectors)
        flat = jax.vmap(lambda tree: ravel_pytree(tree)[0])
        return jnp.linalg.norm(flat(images) - values[:, None] * flat(vectors), axis=1)

    def density(params, x, y, key):
        operator = curvature(params, x, y)
        return spectral_density(operator, params, key, given.density_steps, given.probes)

    began = time.process_time()
    programs = [jax.jit(part).lower(arrays, x, y, key).compile() for part in (top, density)]
    compiling = time.process_time() - began
    times, results = [], []
    for program in programs:
        began = time.process_time()
        results.append(jax.block_until_ready(program(arrays, x, y, key)))
        times.append(time.process_time() - began)
    values, vectors = results[0]
    return {
        "values": values.tolist(),
        "residual": float(jax.jit(residuals)(arrays, x, y, values, vectors).max()),
        "top": times[0],
        "density": times[1],
        "compiling": compiling,
    }


if __name__ == "__main__":
    main()
