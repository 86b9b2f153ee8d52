"""Kernel ridge regression on 20,000 digits: exact by Cholesky, and on Nyström centres.

    python benchmarks/regression.py --samples 20000

The tangent kernel of a fully connected ReLU network with three hidden layers, ten classes. Only
5,000 digits of MNIST come with the install, so the training set is made: 4,000 of them, each again
and again with a random shift of up to two pixels and noise on every pixel (made digits, easier than
new ones of MNIST: what is compared here is solvers). The other 1,000 are the test set, unchanged.

Each solver runs in a process of its own; time includes compilation, fit and prediction, memory is
the peak of the process.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

SOLVERS = ("cholesky", "nystrom", "conjugate_gradients")
NUM_TESTS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=SOLVERS[:2])
    parser.add_argument("--ridge", type=float, default=0.1)
    parser.add_argument("--precision", choices=("float32", "float64"), default="float64")
    parser.add_argument("--centres", type=int, default=2000, help="of Nyström")
    parser.add_argument("--only", choices=SOLVERS, help=argparse.SUPPRESS)  # a child
    given = parser.parse_args()
    if given.only:
        print(json.dumps(_measured(given)))
        return
    print(f"{given.samples} digits, ridge {given.ridge}, {given.precision}:")
    head = ("solver", "wall s", "CPU s", "peak GB", "accuracy", "report")
    print("{:22}{:>9}{:>9}{:>9}{:>10}  {}".format(*head))
    for solver in given.solvers:
        command = [sys.executable, __file__, *sys.argv[1:], "--only", solver]
        finished = subprocess.run(command, capture_output=True, text=True)
        if finished.returncode:
            raise SystemExit(f"{solver} failed:\n{finished.stderr}")
        found = json.loads(finished.stdout.splitlines()[-1])
        numbers = "{wall:9.1f}{cpu:9.1f}{peak:9.2f}{accuracy:10.4f}".format(**found)
        print(f"{solver:22}{numbers}  {found['report']}", flush=True)


def _measured(given: argparse.Namespace) -> dict[str, Any]:
    from theorylab.kernels.estimators import NTKClassifier

    (x, y), (tests, classes) = _digits(given.samples)
    model = NTKClassifier(
        depth=4,
        bias_scale=0.0,
        ridge=given.ridge,
        solver=given.only,
        num_centres=given.centres,
        tolerance=1e-4,
        random_state=0,
        precision=given.precision,
    )
    wall, cpu = time.perf_counter(), time.process_time()
    accuracy = float(np.mean(model.fit(x, y).predict(tests) == classes))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    report = {name: float(f"{value:.3g}") for name, value in model.solver_report_.items()}
    return {"wall": wall, "cpu": cpu, "peak": peak, "accuracy": accuracy, "report": report}


def _digits(
    num_samples: int,
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Made training digits and their classes, and real test digits with theirs."""
    from theorylab.data import mnist5k

    data, random = mnist5k(), np.random.default_rng(0)
    order = random.permutation(data.num_samples)
    x, classes = np.asarray(data.x)[order], np.asarray(data.y).argmax(axis=1)[order]
    chosen = np.resize(np.arange(NUM_TESTS, len(x)), num_samples)
    images = x[chosen].reshape(-1, 28, 28)
    shifts = random.integers(-2, 3, (num_samples, 2))
    shifts[: len(x) - NUM_TESTS] = 0  # the first of each digit as it is, but for the noise
    made = np.stack(
        [np.roll(image, tuple(shift), (0, 1)) for image, shift in zip(images, shifts, strict=True)]
    )
    made = np.clip(made + 0.05 * random.normal(size=made.shape), 0.0, 1.0)
    return _unit(made.reshape(num_samples, -1), classes[chosen]), _unit(
        x[:NUM_TESTS], classes[:NUM_TESTS]
    )


def _unit(x: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Images of length √d."""
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    return x * np.sqrt(x.shape[1]) / lengths, classes


if __name__ == "__main__":
    main()
