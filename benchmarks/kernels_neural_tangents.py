"""The contender of `kernels.py` that is Neural Tangents, in an environment of its own.

`tests/kernels/neural_tangents/make_values.py` says how to make one.
"""

import argparse
import os
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}

import jax
import neural_tangents as nt  # pyright: ignore[reportMissingImports]
from neural_tangents import stax  # pyright: ignore[reportMissingImports]

from kernel_tasks import TASKS, Task, inputs, measure, weights

WAYS = {"auto": 0, "jacobian": 1, "products": 2, "structured": 3}
HE = 2**0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--way", required=True)
    parser.add_argument("--corner", type=Path, required=True)
    given = parser.parse_args()
    compute = contender(TASKS[given.task], given.way)
    print(measure(compute, jax.block_until_ready, given.corner))


def contender(task: Task, way: str) -> Any:
    """What computes the kernel of a task."""
    x = jax.numpy.asarray(inputs(task))
    init, apply, kernel_fn = stax.serial(*_layers(task))
    if task.kind == "sampled":
        key = jax.random.PRNGKey(0)
        sampled = nt.monte_carlo_kernel_fn(init, apply, key, 16, vmap_axes=0, device_count=0)
        return lambda: sampled(x, None, "ntk")
    if task.kind in ("mlp", "cnn"):
        _, params = init(jax.random.PRNGKey(0), x.shape)
        leaves, tree = jax.tree_util.tree_flatten(params)
        drawn = weights([leaf.shape for leaf in leaves])
        params = jax.tree_util.tree_unflatten(tree, map(jax.numpy.asarray, drawn))
        implementation = nt.NtkImplementation(WAYS[way])
        settings = {"trace_axes": (), "vmap_axes": 0, "implementation": implementation}
        finite = jax.jit(nt.empirical_ntk_fn(apply, **settings))
        return lambda: finite(x, None, params)
    infinite = jax.jit(kernel_fn, static_argnames="get")
    if task.batch:
        infinite = nt.batch(infinite, batch_size=task.batch, device_count=0)
    return lambda: infinite(x, None, "ntk")


def _layers(task: Task) -> list[Any]:
    def conv(channels: int = 1) -> list[Any]:
        return [stax.Conv(channels, (3, 3), W_std=HE, b_std=None, padding="SAME"), stax.Relu()]

    def hidden(width: int, depth: int, bias: float | None = None) -> list[Any]:
        return [stax.Dense(width, HE, bias), stax.Relu()] * depth

    dense, pool = partial(stax.Dense, task.num_outputs, HE), stax.AvgPool((2, 2), (2, 2))
    every = stax.GlobalAvgPool()
    return {
        "dense": lambda: [*hidden(1, 3, 0.1), dense()],
        "flat": lambda: [*conv() * 4, stax.Flatten(), dense()],
        "myrtle": lambda: [*conv() * 2, pool, *conv(), pool, *conv(), every, dense()],
        "pooled": lambda: [*conv() * 3, every, dense()],
        "mlp": lambda: [*hidden(task.width, 2), dense()],
        "cnn": lambda: [*conv(task.width) * 3, every, dense()],
        "sampled": lambda: [*hidden(task.width, 3), dense()],
    }[task.kind]()


if __name__ == "__main__":
    main()
