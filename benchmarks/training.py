"""Train 40 networks at once, one after another in JAX, and one after another in PyTorch.

    python benchmarks/training.py --torch PYTHON_THAT_HAS_TORCH

Each contender trains the same networks (784-256-10, ReLU, zero biases, weights N(0, 2/fan-in)) on
the same 5000 digits by 500 steps of plain SGD on the cross-entropy, with batches from shuffled
epochs, in float32. Each runs in a process of its own, with cold caches. The clock starts when
imports and data are there and stops when all networks are trained; tracing and compilation are
inside, and also shown apart. What was trained is then evaluated on all digits, to show that it was.
Rounds are interleaved, ratios are of one round.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
WIDTH, LEARNING_RATE = 256, 0.1
OURS = "at once"
LIMIT = 180  # seconds; on a busy machine PyTorch's threads can wait for each other for minutes
MEASURES = ("wall", "cpu", "compiling", "loss", "error", "accuracy")


class Task(NamedTuple):
    """What every contender is given."""

    data: str
    num_networks: int
    num_steps: int
    batch_size: int


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", type=int, default=40)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, nargs="+", default=[10, 32], help="batch sizes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--torch", help="a Python interpreter that can import torch==2.13.0")
    parser.add_argument("--only", help=argparse.SUPPRESS)  # a child: the contender to run
    parser.add_argument("--data", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        task = Task(given.data, given.networks, given.steps, given.batch[0])
        print(json.dumps(_timed(CONTENDERS[given.only], task)))
        return
    if not given.torch:
        print("Without PyTorch: name an interpreter that has it with --torch to compare with it.")
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "digits.npz")
        _save_digits(data)
        for size in given.batch:
            task = Task(data, given.networks, given.steps, size)
            _compare(task, given.rounds, given.torch)


def _compare(task: Task, num_rounds: int, torch: str | None) -> None:
    """Run the rounds of one batch size, and print a table."""
    commands = {name: [sys.executable, __file__, "--only", name] for name in CONTENDERS}
    if torch:
        script = str(HERE / "training_torch.py")
        commands["PyTorch, all cores"] = [torch, script, "--threads", "0"]
        commands["PyTorch, 1 thread"] = [torch, script, "--threads", "1"]
    rounds = [
        {name: _run(command, task) for name, command in commands.items()} for _ in range(num_rounds)
    ]
    print(f"\n{task.num_networks} networks, {task.num_steps} steps, batches of {task.batch_size}:")
    head = ("contender", "wall s", "CPU s", "compiling s", "loss", "accuracy", "wall ×", "CPU ×")
    print("{:20}{:>9}{:>9}{:>13}{:>18}{:>10}{:>9}{:>8}".format(*head))
    for name in commands:
        measured = [(r[name], r[OURS]) for r in rounds]
        wall, cpu, compiling, loss, error, accuracy = (
            median(one[key] for one, _ in measured) for key in MEASURES
        )
        ratios = [median(one[key] / ours[key] for one, ours in measured) for key in ("wall", "cpu")]
        quality = f"{f'{loss:.4f} ± {error:.4f}':>18}{accuracy:10.4f}"
        print(
            f"{name:20}{wall:9.2f}{cpu:9.2f}{compiling:13.2f}{quality}"
            f"{ratios[0]:9.2f}{ratios[1]:8.2f}",
            flush=True,
        )


def _run(command: list[str], task: Task) -> dict[str, float]:
    """What a contender measured in a process of its own; an infinite time if it took too long."""
    options = [
        *("--data", task.data),
        *("--networks", str(task.num_networks)),
        *("--steps", str(task.num_steps)),
        *("--batch", str(task.batch_size)),
    ]
    try:
        finished = subprocess.run(
            [*command, *options], capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return dict.fromkeys(MEASURES, math.nan) | {"wall": math.inf}
    if finished.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{finished.stderr}")
    return json.loads(finished.stdout.splitlines()[-1])


def _save_digits(path: str) -> None:
    from theorylab.data import mnist5k

    digits = mnist5k()
    x = np.asarray(digits.x, np.float32).reshape(len(digits.x), -1)
    np.savez(path, x=x, y=np.asarray(digits.y, np.float32))


def _timed(contender: Callable[[Task], list[Any]], task: Task) -> dict[str, float]:
    """Run a contender; in seconds, and with the quality of what it trained."""
    import jax

    compiling = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration_secs, **_: (
            compiling.append(duration_secs) if "/compile/" in event else None
        )
    )
    jax.block_until_ready(jax.device_put(np.zeros(1)))  # wakes the backend
    wall, cpu = time.perf_counter(), _cpu()
    networks = jax.block_until_ready(contender(task))
    wall, cpu, total = time.perf_counter() - wall, _cpu() - cpu, sum(compiling)
    _, risk, share = _model()
    evaluate = jax.jit(lambda *given: (risk(*given), share(*given)))
    losses, errors = np.array([evaluate(params, *_digits(task)) for params in networks]).T
    return {
        "wall": wall,
        "cpu": cpu,
        "compiling": total,
        "loss": float(losses.mean()),
        "error": float(losses.std() / math.sqrt(len(losses))),
        "accuracy": 1 - float(errors.mean()),
    }


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _model():
    """The network, its loss and its share of errors."""
    from theorylab.models import Standard, mlp, network
    from theorylab.training import cross_entropy, empirical_risk, zero_one

    architecture = mlp([WIDTH], num_outputs=10, activation="relu")
    scales = Standard(weight_scale=math.sqrt(2))
    model = network(architecture, (784,), scales, bias="zero")
    risk = empirical_risk(cross_entropy("mean"), model.apply)
    return model, risk, empirical_risk(zero_one("mean"), model.apply)


class Digits(NamedTuple):
    x: Any
    y: Any


def _digits(task: Task) -> Digits:
    arrays = np.load(task.data)
    return Digits(arrays["x"], arrays["y"])


def _life(task: Task) -> Callable[[Any, Digits], Any]:
    """The whole life of one network, as a function of its seed and the data."""
    import jax

    from theorylab.training import Batches, gradient_descent, sgd

    model, risk, _ = _model()

    def life(seed, digits):
        start, batches = jax.random.split(jax.random.key(seed))
        trajectory = sgd(
            loss_of=risk,
            params=model.init(start),
            dataset=digits,
            optimizer=gradient_descent(LEARNING_RATE),
            batch=Batches(task.batch_size),
            key=batches,
            steps=[task.num_steps],
            measure=lambda params: (),
        )
        return trajectory.params

    return life


def _apart(networks: Any) -> list[Any]:
    """The parameters of each network, from those of all."""
    import jax

    networks = jax.tree.map(np.asarray, networks)
    num_networks = len(jax.tree.leaves(networks)[0])
    return [jax.tree.map(itemgetter(i), networks) for i in range(num_networks)]


def at_once(task: Task) -> list[Any]:
    """What the library does: one program for all, on all cores."""
    import jax

    from theorylab.training import ensemble

    life, digits = _life(task), jax.device_put(_digits(task))
    return _apart(ensemble(lambda seed: life(seed, digits), np.arange(task.num_networks)))


def vectorised(task: Task) -> list[Any]:
    """All networks side by side in one vectorised program."""
    import jax

    seeds = np.arange(task.num_networks)
    return _apart(jax.jit(jax.vmap(_life(task), in_axes=(0, None)))(seeds, _digits(task)))


def one_after_another(task: Task) -> list[Any]:
    """A jitted step in a Python loop, its batches cut from the data with NumPy."""
    import jax
    import optax

    model, risk, _ = _model()
    x, y = _digits(task)
    init = jax.jit(model.init)
    optimizer = optax.sgd(LEARNING_RATE)

    def update(params, state, inputs, targets):
        updates, state = optimizer.update(jax.grad(risk)(params, inputs, targets), state)
        return optax.apply_updates(params, updates), state

    step = jax.jit(update, donate_argnums=(0, 1))
    networks = []
    for seed in range(task.num_networks):
        params = init(jax.random.key(seed))
        state = optimizer.init(params)
        generator = np.random.default_rng(seed)
        num_epochs = -(-task.num_steps * task.batch_size // len(x))
        stream = np.concatenate([generator.permutation(len(x)) for _ in range(num_epochs)])
        for first in range(0, task.num_steps * task.batch_size, task.batch_size):
            chosen = stream[first : first + task.batch_size]
            params, state = step(params, state, x[chosen], y[chosen])
        networks.append(params)
    return networks


CONTENDERS = {OURS: at_once, "vmap": vectorised, "one after another": one_after_another}

if __name__ == "__main__":
    main()
