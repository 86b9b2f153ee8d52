"""Five certified Hessian eigenvalues of networks with 11 million parameters: time and memory.

    python benchmarks/large_network.py --network dense --samples 1000
    python benchmarks/large_network.py --network cnn --samples 50

The dense network is 3072 → 2560 → 1200 → 10 (10,948,320 weights), the convolutional one that of
`own_network_peers.py` (10,884,746); weights have variance 1/fan-in, inputs are normal and labels
random. Products go on until every eigenvalue is certain to 1 %. One product is timed by itself; the
overhead is the CPU time of all over that of the products. The process is pinned to one core.
"""

import argparse
import os
import resource
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import own_network_peers as peers
from theorylab.curvature import hessian
from theorylab.numerics import certified_eigenpairs
from theorylab.training import cross_entropy

SIZES = (3072, 2560, 1200, 10)


def dense(samples: int) -> tuple[Any, Any, jax.Array]:
    """The network, its weights and its inputs."""
    draw = np.random.default_rng(0).standard_normal
    params = [jnp.asarray(draw(pair) / pair[0] ** 0.5, jnp.float32) for pair in pairwise(SIZES)]

    def apply(params: Any, x: Any) -> Any:
        for weight in params[:-1]:
            x = jax.nn.relu(x @ weight)
        return x @ params[-1]

    return apply, params, jnp.asarray(draw((samples, SIZES[0])), jnp.float32)


def cnn(samples: int) -> tuple[Any, Any, jax.Array]:
    """The large network of the comparison with peers, with half the variance of its weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "task.npz")
        peers.save(path, peers.LARGE, samples)
        with np.load(path) as stored:
            arrays = jax.device_put(dict(stored))
    x = arrays.pop("x")
    params = {name: array / 2**0.5 for name, array in arrays.items() if name != "y"}
    return peers.apply, params, x


def seconds_of(call: Any) -> float:
    """CPU seconds of the best of three calls."""
    times = []
    for _ in range(3):
        began = time.process_time()
        jax.block_until_ready(call())
        times.append(time.process_time() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--network", choices=("dense", "cnn"), default="dense")
    parser.add_argument("--samples", type=int, default=1000)
    given = parser.parse_args()
    os.sched_setaffinity(0, {0})
    apply, params, x = {"dense": dense, "cnn": cnn}[given.network](given.samples)
    labels = np.random.default_rng(0).integers(0, 10, given.samples)
    y = jax.nn.one_hot(jnp.asarray(labels), 10)
    curvature = hessian(lambda w: cross_entropy("mean")(apply(w, x), y), params)
    compiled = jax.jit(curvature)
    jax.block_until_ready(compiled(params))
    each = seconds_of(lambda: compiled(params))
    began = time.process_time()
    found = certified_eigenpairs(curvature, params, 5, jax.random.key(0))
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(found.values.tolist(), found.bounds.tolist(), "converged" if found.converged else "")
    print(
        f"{given.network}: CPU {seconds:.1f} s with compilation, {found.products} products of"
        f" {each:.2f} s, overhead {seconds / (found.products * each):.2f}, peak {peak:.1f} GB"
    )


if __name__ == "__main__":
    main()
