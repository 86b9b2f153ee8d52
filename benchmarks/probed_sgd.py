"""What it costs to record the critical learning rate of every batch: SGD with and without.

6,400 steps of SGD with batches of 5 on a two-layer network of 1,024 neurons and 100 inputs, on a
product of two inputs: once bare, once with η_crit of the batch at every step. Both runs are
compiled first; the ratio of the times in one run is what counts. Rounds alternate, and the best of
each is taken, because other work on the machine only ever adds.

    python benchmarks/probed_sgd.py
"""

import argparse
import time

import jax
import numpy as np

from theorylab.data import low_rank_polynomial
from theorylab.dynamics import critical_learning_rate
from theorylab.models import mlp, network
from theorylab.training import Batches, empirical_risk, gradient_descent, probed_sgd, squared

LOSS = squared("mean")


def main() -> None:
    """Time both runs in turn, and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6400)
    parser.add_argument("--batch", type=int, default=5)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--dimension", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()

    data = low_rank_polynomial(jax.random.key(0), 2000, args.dimension)
    model = network(mlp([args.width]), (args.dimension,))
    params = model.init(jax.random.key(1))
    rate = 0.5 * critical_learning_rate(model.apply, params, data, LOSS)

    def run(probe):
        def train(params, data, rate):
            return probed_sgd(
                empirical_risk(LOSS, model.apply),
                params,
                data,
                gradient_descent(rate),
                Batches(args.batch),
                args.steps,
                probe,
                jax.random.key(2),
            )

        return jax.jit(train).lower(params, data, rate).compile()

    runs = {
        "bare": run(lambda params, batch, step: ()),
        "with η_crit": run(
            lambda params, batch, step: critical_learning_rate(model.apply, params, batch, LOSS)
        ),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    result = None
    for _ in range(args.rounds):
        for name, compiled in runs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            result = jax.block_until_ready(compiled(params, data, rate))
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    assert result is not None, "rounds must be at least 1"
    above = float(np.mean(np.asarray(result.records) < float(rate)))
    best = {name: np.min(spent, axis=0) for name, spent in times.items()}
    print(
        f"{args.steps} steps, batch {args.batch}, width {args.width}; η above η_crit: {above:.0%}"
    )
    for name, (wall, cpu) in best.items():
        ratio = cpu / best["bare"][1]
        print(f"{name:12} wall {wall:6.2f} s, CPU {cpu:6.2f} s, CPU ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
