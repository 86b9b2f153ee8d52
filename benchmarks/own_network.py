"""Measurements of a user's own networks: do they take the time of the products that they need?

    python benchmarks/own_network.py [--networks cnn resnet …] [--samples 100]

Sharpness, top eigenvalues, trace, tangent kernel and its spectrum, AGOP, critical learning rate and
descent, for networks with convolutions, frozen batch statistics, attention, token inputs, and a
recurrent cell in a scan. Every measurement needs a number of products (with a Hessian, with a
kernel, or gradients); one of them is compiled and timed by itself, outside of any loop. The
overhead is the CPU time of the measurement over that of its products. Compilation is shown apart.

The CNN is Flax's where Flax is installed; the others are written by hand.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from theorylab.curvature import hessian, sharpness, trace
from theorylab.dynamics import critical_learning_rate
from theorylab.features import agop_sketch
from theorylab.features.agop import agop_product
from theorylab.kernels import ntk, ntk_eigenpairs
from theorylab.kernels.finite import ntk_vector_product
from theorylab.numerics import eigenpairs
from theorylab.training import cross_entropy, descend, squared

K = 10  # outputs
KEY = jax.random.key(0)
LOSS = cross_entropy("mean")


class Network(NamedTuple):
    """A network, its parameters, and one input's shape; `tokens` is the size of a vocabulary."""

    apply: Callable[[Any, Any], Any]
    params: Any
    shape: tuple[int, ...]
    tokens: int | None = None


class Measurement(NamedTuple):
    """What is timed, how many products it needs, and one such product."""

    run: Callable[..., Any]
    num_products: int
    product: Callable[..., Any]


def drawn(key: Any, *shape: int, fan_in: int | None = None) -> Any:
    """Weights of variance 1/fan-in, which is all axes but the last if nothing else is said."""
    size = fan_in
    if size is None:
        size = 1
        for axis in shape[:-1]:
            size *= axis
    return jax.random.normal(key, shape) / size**0.5


def convolved(x: Any, kernel: Any, stride: int = 1) -> Any:
    """A convolution as Flax writes it."""
    axes = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=axes)


def cnn() -> Network:
    """Three convolutions and two dense layers, 1 million parameters, on images of 32 × 32."""
    try:
        import flax.linen as nn  # pyright: ignore[reportMissingImports]
    except ImportError:
        return _cnn_by_hand()
    layers = []
    for channels, stride in ((32, 1), (64, 2), (128, 1)):
        layers += [nn.Conv(channels, (3, 3), strides=stride), nn.relu]
    pool = partial(nn.avg_pool, window_shape=(4, 4), strides=(4, 4))
    flat = lambda x: x.reshape(len(x), -1)  # noqa: E731
    module = nn.Sequential([*layers, pool, flat, nn.Dense(440), nn.relu, nn.Dense(K)])
    return Network(module.apply, module.init(KEY, jnp.zeros((1, 32, 32, 3))), (32, 32, 3))


def _cnn_by_hand() -> Network:
    keys = jax.random.split(KEY, 5)
    shapes = ((3, 3, 3, 32), (3, 3, 32, 64), (3, 3, 64, 128), (2048, 440), (440, K))
    params = [drawn(key, *shape) for key, shape in zip(keys, shapes, strict=True)]

    def apply(params: Any, x: Any) -> Any:
        for kernel, stride in zip(params[:3], (1, 2, 1), strict=True):
            x = jax.nn.relu(convolved(x, kernel, stride))
        x = x.reshape(len(x), 4, 4, 4, 4, 128).mean(axis=(2, 4)).reshape(len(x), -1)
        return jax.nn.relu(x @ params[3]) @ params[4]

    return Network(apply, params, (32, 32, 3))


def resnet() -> Network:
    """Two residual blocks with batch statistics that are frozen: a scale and a shift."""
    keys = jax.random.split(KEY, 6)
    mean, deviation = 0.1 * jax.random.normal(keys[5], (64,)), jnp.linspace(0.5, 2, 64)
    params = {
        "stem": drawn(keys[0], 3, 3, 3, 64),
        "blocks": [drawn(key, 3, 3, 64, 64) for key in keys[1:5]],
        "gains": jnp.ones((4, 64)),
        "out": drawn(keys[0], 64, K),
    }

    def apply(params: Any, x: Any) -> Any:
        def normalised(x: Any, gain: Any) -> Any:
            return (x - mean[None, None, None]) * (gain / deviation)[None, None, None]

        x = convolved(x, params["stem"], 2)
        for block in range(2):
            branch = x
            for layer in (2 * block, 2 * block + 1):
                branch = jax.nn.relu(normalised(branch, params["gains"][layer]))
                branch = convolved(branch, params["blocks"][layer])
            x = x + branch
        return jax.nn.relu(x).mean(axis=(1, 2)) @ params["out"]

    return Network(apply, params, (32, 32, 3))


def attended(x: Any, params: Any, causal: bool) -> Any:
    """A block of four heads and a two-layer network, each after layer normalisation."""

    def normalised(x: Any) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / jnp.sqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-6)

    n, length, width = x.shape
    heads = (normalised(x) @ params["heads"]).reshape(n, length, 3, 4, width // 4)
    query, keys, values = (heads[:, :, part] for part in range(3))
    scores = jnp.einsum("nqhd,nkhd->nhqk", query, keys) / (width // 4) ** 0.5
    if causal:
        scores = jnp.where(jnp.tri(length, dtype=bool)[None, None], scores, -1e9)
    mixed = jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(scores), values)
    x = x + mixed.reshape(x.shape) @ params["mix"]
    return x + jax.nn.gelu(normalised(x) @ params["up"]) @ params["down"]


def _block(key: Any, width: int) -> dict[str, Any]:
    sizes = {"heads": (1, 3), "mix": (1, 1), "up": (1, 4), "down": (4, 1)}
    keys = jax.random.split(key, 4)
    draws = zip(sizes.items(), keys, strict=True)
    return {name: drawn(key, a * width, b * width) for (name, (a, b)), key in draws}


def vit() -> Network:
    """Patches of 4 × 4 by a strided convolution, and one block of attention of width 128."""
    keys = jax.random.split(KEY, 4)
    params = {
        "patches": drawn(keys[0], 4, 4, 3, 128),
        "places": drawn(keys[1], 64, 128),
        "block": _block(keys[2], 128),
        "out": drawn(keys[3], 128, K),
    }

    def apply(params: Any, x: Any) -> Any:
        x = convolved(x, params["patches"], 4).reshape(len(x), 64, 128) + params["places"][None]
        return attended(x, params["block"], causal=False).mean(axis=1) @ params["out"]

    return Network(apply, params, (32, 32, 3))


def transformer() -> Network:
    """Two causal blocks of width 128 on 32 tokens of 64; the last position answers."""
    keys = jax.random.split(KEY, 5)
    params = {
        "tokens": drawn(keys[0], 64, 128, fan_in=1),
        "places": drawn(keys[1], 32, 128),
        "blocks": [_block(key, 128) for key in keys[2:4]],
        "out": drawn(keys[4], 128, K),
    }

    def apply(params: Any, x: Any) -> Any:
        x = params["tokens"][x] + params["places"][None]
        for block in params["blocks"]:
            x = attended(x, block, causal=True)
        return x[:, -1] @ params["out"]

    return Network(apply, params, (32,), tokens=64)


def recurrent() -> Network:
    """A cell of 256 neurons that reads the 32 rows of an image in a scan."""
    keys = jax.random.split(KEY, 3)
    params = [drawn(keys[0], 96, 256), drawn(keys[1], 256, 256), drawn(keys[2], 256, K)]

    def apply(params: Any, x: Any) -> Any:
        rows = jnp.moveaxis(x.reshape(len(x), 32, 96), 1, 0)

        def step(state: Any, row: Any) -> tuple[Any, None]:
            return jnp.tanh(row @ params[0] + state @ params[1]), None

        return lax.scan(step, jnp.zeros((len(x), 256)), rows)[0] @ params[2]

    return Network(apply, params, (32, 32, 3))


NETWORKS = {each.__name__: each for each in (cnn, resnet, vit, transformer, recurrent)}


def measurements(network: Network, steps: int) -> dict[str, Measurement]:
    """All measurements: functions of parameters, inputs and targets, which are no constants."""
    apply, params = network.apply, network.params
    flat = jax.tree.map(jnp.ones_like, params)

    def risk(w: Any, x: Any, y: Any) -> Any:
        return LOSS(apply(w, x), y)

    def curved(w: Any, x: Any, y: Any) -> Any:
        return hessian(lambda w: risk(w, x, y), w)

    def descent(w: Any, x: Any, y: Any) -> Any:
        loss = lambda w: risk(w, x, y)  # noqa: E731
        return descend(loss, w, optax.sgd(0.01), [steps], lambda w: jnp.zeros(())).params

    by_hessian = lambda w, x, y: curved(w, x, y)(flat)  # noqa: E731
    by_kernel = lambda w, x, y: ntk_vector_product(apply, w, x)(y)  # noqa: E731
    gradient = lambda w, x, y: jax.grad(risk)(w, x, y)  # noqa: E731
    found = {
        "sharpness": Measurement(
            lambda w, x, y: sharpness(lambda w: risk(w, x, y), w, KEY, steps), steps + 1, by_hessian
        ),
        "top 5": Measurement(
            lambda w, x, y: eigenpairs(curved(w, x, y), w, 5, steps, KEY).values,
            *(steps + 5, by_hessian),
        ),
        "trace": Measurement(
            lambda w, x, y: trace(curved(w, x, y), w, KEY, steps, 0).value, steps, by_hessian
        ),
        "descent": Measurement(descent, steps, gradient),
        "kernel": Measurement(lambda w, x, y: ntk(apply, w, x), K, gradient),
        "its top 10": Measurement(
            lambda w, x, y: ntk_eigenpairs(apply, w, x, 10, KEY, steps).values,
            *(steps + 10, by_kernel),
        ),
        "critical rate": Measurement(  # by 50 products and a residual, of more than 512 outputs
            lambda w, x, y: critical_learning_rate(apply, w, (x, y), squared("mean")),
            *(51, by_kernel),
        ),
    }
    if network.tokens is None:
        ones = jnp.ones((jnp.zeros(network.shape).size, 1))
        found["AGOP, sketch"] = Measurement(
            lambda w, x, y: agop_sketch(apply, w, x, 4, KEY).factor,
            *(8, lambda w, x, y: agop_product(apply, w, x)(ones)),
        )
    return found


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[float, float]:
    """CPU seconds of compiling with the first call, and of the better of two more calls."""
    compiled = jax.jit(function)
    times = []
    for _ in range(3):
        began = time.process_time()
        jax.block_until_ready(compiled(*arguments))
        times.append(time.process_time() - began)
    return times[0] - min(times[1:]), min(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--only", nargs="*", help="measurements, by name")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--steps", type=int, default=20, help="Lanczos steps, probes, updates")
    given = parser.parse_args()
    head = ("network", "measurement", "CPU s", "products", "s each", "overhead", "compiling")
    print("{:14}{:14}{:>9}{:>10}{:>9}{:>10}{:>11}".format(*head), flush=True)
    for name in given.networks:
        network = NETWORKS[name]()
        shape = (given.samples, *network.shape)
        x = jax.random.normal(KEY, shape)
        if network.tokens:
            x = jax.random.randint(KEY, shape, 0, network.tokens)
        y = jax.nn.one_hot(jnp.arange(given.samples) % K, K)
        alone: dict[Any, float] = {}
        for what, (run, count, product) in measurements(network, given.steps).items():
            if given.only and what not in given.only:
                continue
            if product not in alone:
                alone[product] = timed(product, network.params, x, y)[1]
            compiling, seconds = timed(run, network.params, x, y)
            overhead = seconds / (count * alone[product])
            print(
                f"{name:14}{what:14}{seconds:9.2f}{count:10}{alone[product]:9.3f}"
                f"{overhead:10.2f}{compiling:11.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
