"""What it costs to watch a training run: the same loop with and without `theorylab.Watch`.

    python benchmarks/watch.py --steps 1000 --block 50

A convolutional network with 1,000,584 parameters (3 × 3 convolutions to 32 and 64 channels, each
with max-pooling, dense layers 3136 → 312 → 10) is trained on MNIST-5k by SGD with batches of 100
and momentum 0.9, in single precision, by a jitted step of optax. Two runs with the same seed and
batches take turns, a block of steps each, so that other work on the machine meets both. The step is
compiled before; whatever the Watch compiles counts as its cost. The clock of the Watch stands still
while the other run has its turn. Wall and CPU seconds of all blocks are added.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from theorylab import Watch
from theorylab.data import mnist5k

LEARNING_RATE, MOMENTUM, BATCH = 0.02, 0.9, 100
BARE, WATCHED = "bare", "watched"


def main() -> None:
    """Train both, and print the overhead and what was measured for it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--block", type=int, default=50)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--budget", type=float, default=0.1)
    parser.add_argument("--measures", nargs="+", help="instead of the default ones")
    given = parser.parse_args()

    data = mnist5k()
    x, y = jnp.asarray(data.x, jnp.float32).reshape(-1, 784), jnp.asarray(data.y, jnp.float32)
    turn = Turn()
    watch = Watch(
        apply,
        "cross_entropy",
        x,
        y,
        every=given.every,
        budget=given.budget,
        measures=given.measures,
        learning_rate=LEARNING_RATE,
        optimizer="momentum",
        momentum=MOMENTUM,
        clock=turn,
    )
    optimizer = optax.sgd(LEARNING_RATE, MOMENTUM)
    order = np.random.default_rng(0).integers(0, len(x), (given.steps, BATCH))

    @jax.jit
    def descend(params, state, batch, targets):
        value, slope = jax.value_and_grad(risk)(params, batch, targets)
        change, state = optimizer.update(slope, state, params)
        return optax.apply_updates(params, change), state, value

    params = initial(jax.random.key(0))
    start = (params, optimizer.init(params), jnp.zeros(()))
    jax.block_until_ready(descend(*start[:2], x[order[0]], y[order[0]]))
    runs = {BARE: start, WATCHED: start}
    spent = {name: np.zeros(2) for name in runs}

    def block(name, first):
        params, state, value = runs[name]
        for step in range(first, min(first + given.block, given.steps)):
            if name == WATCHED:
                watch(step, params, state)
            params, state, value = descend(params, state, x[order[step]], y[order[step]])
        runs[name] = jax.block_until_ready((params, state, value))

    for number, first in enumerate(range(0, given.steps, given.block)):
        for name in (BARE, WATCHED) if number % 2 else (WATCHED, BARE):
            before = np.array([time.perf_counter(), time.process_time()])
            with turn.of(name):
                block(name, first)
            spent[name] += np.array([time.perf_counter(), time.process_time()]) - before
    tell(watch, spent, given.steps, float(runs[BARE][2]), float(runs[WATCHED][2]))


class Turn:
    """A clock that stands still while the other run has its turn."""

    def __init__(self):
        self.now, self.since, self.name = 0.0, 0.0, BARE

    def __call__(self):
        going = time.perf_counter() - self.since if self.name == WATCHED else 0.0
        return self.now + going

    def of(self, name):
        self.name, self.since = name, time.perf_counter()
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.now, self.name = self(), BARE


def initial(key):
    """Weights of He's variance."""
    shapes = {"c1": (3, 3, 1, 32), "c2": (3, 3, 32, 64), "d1": (3136, 312), "d2": (312, 10)}
    keys = jax.random.split(key, len(shapes))
    params = {
        name: jax.random.normal(k, shape) * (2 / np.prod(shape[:-1])) ** 0.5
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    return {**params, "b1": jnp.zeros((1, 312))}


def apply(params, x):
    """The network."""
    x = x.reshape(-1, 28, 28, 1)
    for name in ("c1", "c2"):
        x = jax.lax.conv_general_dilated(
            x, params[name], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        window = (1, 2, 2, 1)
        x = jax.lax.reduce_window(jax.nn.relu(x), -jnp.inf, jax.lax.max, window, window, "VALID")
    hidden = x.reshape(len(x), -1) @ params["d1"]
    return jax.nn.relu(hidden + jnp.broadcast_to(params["b1"], hidden.shape)) @ params["d2"]


def risk(params, x, y):
    """The cross-entropy."""
    return -(jax.nn.log_softmax(apply(params, x)) * y).sum(1).mean()


def tell(watch, spent, steps, bare, watched):
    """Print what was spent, and what for."""
    count = sum(leaf.size for leaf in jax.tree.leaves(initial(jax.random.key(0))))
    print(f"{count:,} parameters, {steps} steps; last losses {bare:.6g}, {watched:.6g}")
    for name, (wall, cpu) in spent.items():
        more = np.array([wall, cpu]) / spent[BARE] - 1
        print(f"{name:8} wall {wall:7.1f} s {more[0]:+7.1%}   CPU {cpu:7.1f} s {more[1]:+7.1%}")
    print(f"its own account: {watch.share:.1%} of the time of training")
    for name in watch.measures:
        own = [each for each in watch.entries if each.measure == name]
        times = [each.seconds for each in own if each.status == "measured"]
        if times:
            rest = f"then {np.mean(times[1:]):.2f} s each" if times[1:] else ""
            found = watch.rows[name][1].reading
            last = found.method if found else ""
            print(f"{name}: {len(times)} times, first {times[0]:.1f} s, {rest}; last: {last}")
    for failure in watch.failures:
        print(*failure)


if __name__ == "__main__":
    main()
