"""The whole card of a network: seconds, memory, and what each row took.

    python benchmarks/examine.py [--networks cnn-1m transformer-1m cnn-10m transformer-10m]

A convolutional network on images of 32×32×3 pixels and a small causal transformer that reads 32
tokens, with about a million and about ten million parameters, 1,000 inputs, ten classes. Each runs
in a process of its own, so that memory is its own; compiling counts. What is aimed at: 30 s for a
million parameters; 120 s and 6 GB for ten million, on two cores.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from theorylab.checkup import examine

CLASSES = 10
INPUTS = 1_000
TOKENS, LENGTH = 256, 32


class Network(NamedTuple):
    """A network, its parameters, and its inputs."""

    apply: Callable[[Any, Any], jax.Array]
    params: Any
    x: jax.Array


def drawn(key: Any, *shape: int) -> jax.Array:
    """Weights of variance 2/fan-in, which is all axes but the last."""
    fan_in = 1
    for size in shape[:-1]:
        fan_in *= size
    return jax.random.normal(key, shape) * (2 / fan_in) ** 0.5


def cnn(channels: tuple[int, ...], hidden: int) -> Network:
    """Convolutions 3×3 with stride 2, then two dense layers."""
    keys = iter(jax.random.split(jax.random.key(0), 10))
    sizes = (3, *channels)
    filters = [drawn(next(keys), 3, 3, a, b) for a, b in zip(sizes, channels, strict=False)]
    flat = channels[-1] * (32 >> len(channels)) ** 2
    params = {
        "filters": filters,
        "hidden": drawn(next(keys), flat, hidden),
        "out": drawn(next(keys), hidden, CLASSES),
    }

    def apply(w: Any, x: jax.Array) -> jax.Array:
        for filter in w["filters"]:
            x = jax.lax.conv_general_dilated(
                x, filter, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x)
        x = jax.nn.relu(x.reshape(len(x), -1) @ w["hidden"])
        return x @ w["out"]

    return Network(apply, params, jax.random.normal(next(keys), (INPUTS, 32, 32, 3)))


def transformer(width: int, depth: int, heads: int) -> Network:
    """Causal attention and a hidden layer four times as wide, in every block; the last position."""
    keys = iter(jax.random.split(jax.random.key(1), 10 * depth + 10))
    block = lambda: {  # noqa: E731
        "qkv": drawn(next(keys), width, 3 * width) / 2**0.5,
        "mix": drawn(next(keys), width, width) / (2 * depth) ** 0.5,
        "up": drawn(next(keys), width, 4 * width),
        "down": drawn(next(keys), 4 * width, width) / (2 * depth) ** 0.5,
        "norms": jnp.ones((2, width)),
    }
    params = {
        "embedding": jax.random.normal(next(keys), (TOKENS, width)),
        "places": jax.random.normal(next(keys), (LENGTH, width)) / 10,
        "blocks": [block() for _ in range(depth)],
        "out": drawn(next(keys), width, CLASSES),
    }

    def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale

    def attend(w: Any, x: jax.Array) -> jax.Array:
        q, k, v = jnp.split((x @ w["qkv"]).reshape(len(x), LENGTH, heads, -1), 3, axis=-1)
        scores = jnp.einsum("nshd,nthd->nhst", q, k) / q.shape[-1] ** 0.5
        seen = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        scores = jnp.where(seen, scores, -1e9)
        mixed = jnp.einsum("nhst,nthd->nshd", jax.nn.softmax(scores), v)
        return mixed.reshape(x.shape) @ w["mix"]

    def apply(w: Any, ids: jax.Array) -> jax.Array:
        x = w["embedding"][ids] + w["places"]
        for part in w["blocks"]:
            x = x + attend(part, norm(x, part["norms"][0]))
            x = x + jax.nn.gelu(norm(x, part["norms"][1]) @ part["up"]) @ part["down"]
        return x[:, -1] @ w["out"]

    return Network(apply, params, jax.random.randint(next(keys), (INPUTS, LENGTH), 0, TOKENS))


NETWORKS: dict[str, Callable[[], Network]] = {
    "cnn-1m": lambda: cnn((32, 64, 128), 400),
    "transformer-1m": lambda: transformer(128, 5, 4),
    "cnn-10m": lambda: cnn((64, 128, 256), 2400),
    "transformer-10m": lambda: transformer(320, 8, 8),
}


def measure(name: str) -> None:
    """Examine one network twice, and print its rows and what they took."""
    made = NETWORKS[name]()
    y = jax.random.randint(jax.random.key(2), (INPUTS,), 0, CLASSES)
    moved = jax.tree.map(lambda w: w * 1.01, made.params)
    known: dict[str, Any] = {
        "learning_rate": 0.01,
        "batch_size": 64,
        "initial_params": made.params,
        "checkpoint": made.params,
    }
    for turn in ("first card", "second card"):
        start, cpu = time.perf_counter(), time.process_time()
        card = examine(made.apply, moved, made.x, y, **known)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        size = f"{card.about['parameters']:,.0f} parameters"
        print(f"{name}, {turn}: {size}, {wall:.1f} s, {cpu:.1f} CPU s, {memory:.1f} GB", flush=True)
        for row in sorted(card.rows, key=lambda row: -row.seconds):
            print(f"    {row.seconds:6.2f} s  {row.name:22} {row.status} {row.reason}"[:110])


def main() -> None:
    """Measure each network in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", nargs="*", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--here", choices=NETWORKS, help="measure one in this process")
    options = parser.parse_args()
    if options.here:
        return measure(options.here)
    for name in options.networks:
        subprocess.run([sys.executable, __file__, "--here", name], check=True)
    return None


if __name__ == "__main__":
    main()
