"""A kernel machine that learns its metric beats its own kernel where few directions matter.

Kernel regression treats all directions of the inputs alike. A recursive feature machine takes the
average gradient outer product G of what it learned as a metric, fits again, and so on. Where the
target depends on a few directions of many, the metric finds them, as the first layer of a network
does, and the error falls; where all directions matter alike, there is nothing to find.

Targets are polynomials of Gaussian inputs with known expected gradient outer product G*: x₁x₂
(rank 2), a staircase (rank 4), and ‖x‖/√d (all directions). Beside the machine a two-layer network
learns the first of them by SGD with a small start, and the features of both are compared.

Source: zhu · ext-* · Ch. 5; zhu · agop · Eqs 4.5–4.6; zhu · synthetic-tasks · §4.4.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, identity, median_at_least, median_at_most, ordered
from theorylab.data import Dataset, low_rank_polynomial, polynomial_agop
from theorylab.data.polynomials import Rank, polynomial_teacher
from theorylab.experiments.checks import refuse_below, refuse_nonpositive
from theorylab.experiments.drawing import panels
from theorylab.features import Recursion, agop, agop_alignment, learn_features
from theorylab.features.recursive import fit_machine
from theorylab.models import mlp, network
from theorylab.progress import report
from theorylab.training import (
    Batches,
    Until,
    empirical_risk,
    ensemble,
    gradient_descent,
    squared,
    train_until,
)

PRECISION = "float32"
FORMULA = r"M \leftarrow G(f_M), \quad G = \frac1n \sum_i \nabla f(x_i) \nabla f(x_i)^\top"

MACHINES = Source("zhu", "ext-*", "Ch. 5")
AGOP = Source("zhu", "agop", "Eq. 4.6")
TASKS: tuple[Rank, ...] = (2, 4, "full")
LOSS = squared("mean")


@dataclass(frozen=True)
class Config:
    """Recursive feature machines on polynomials of few and of all directions."""

    dimension: int = 50  # of the inputs, d
    num_train: int = 1000  # training samples, n
    num_test: int = 1000  # test samples, and validation samples that choose the best round
    num_iterations: int = 5  # how often the metric is made anew
    bandwidth: float = 1.0  # of the Laplace kernel, in median distances
    ridge: float = 0.01  # of kernel regression
    width: int = 256  # of the network
    weight_scale: float = 0.3  # of its initial weights: small, so that features are learned
    learning_rate: float = 2.0  # of its SGD, with batches of 20
    num_steps: int = 8000  # of its SGD at most
    num_seeds: int = 6  # independent data and networks, at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_below(self, 10, "dimension")
        least = {"num_train": 20, "num_test": 20, "width": 1, "num_iterations": 1}
        for name, value in (least | {"num_steps": 1, "num_seeds": 1}).items():
            if getattr(self, name) < value:
                raise ValueError(f"{name} must be at least {value}, got {getattr(self, name)}.")
        refuse_nonpositive(self, "bandwidth", "ridge", "weight_scale", "learning_rate")


PRESETS = {
    "smoke": Config(
        dimension=20, num_train=300, num_test=200, num_iterations=3, width=64, num_steps=2000
    ),
    "paper": Config(dimension=100, num_train=2000, num_test=5000, width=1024, num_seeds=10),
}


class Result(NamedTuple):
    """What was measured, for every target: axes targets, seeds, rounds."""

    dimension: int
    errors: Float[np.ndarray, "3 s t"]  # validation loss over that of the best constant
    gains: Float[np.ndarray, "3 s"]  # test loss of the best round over that of the plain kernel
    alignments: Float[np.ndarray, "3 s t"]  # of the metric with G*
    network_alignment: Float[np.ndarray, " s"]  # of the network's AGOP with G*, rank 2
    likeness: Float[np.ndarray, " s"]  # of the network's AGOP with the machine's last metric
    first_likeness: Float[np.ndarray, " s"]  # and with the AGOP of the plain kernel machine
    corner: Float[np.ndarray, "5 5"]  # of the last metric, rank 2, first seed


def memory(config: Config) -> int:
    """Bytes of the kernel matrix and of the data."""
    samples = config.num_train + 2 * config.num_test
    return 8 * (3 * config.num_train * samples + samples * (config.dimension + config.width))


def run(config: Config) -> Result:
    """Learn every target with machines, and the first with networks."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    recursion = Recursion(
        num_iterations=config.num_iterations, bandwidth=config.bandwidth, ridge=config.ridge
    )
    report("data", 0.0)
    x, targets = ensemble(lambda key: _drawn(key, config), keys)
    rounds: list[list[_Rounds]] = []
    for task, rank in enumerate(TASKS):
        report(f"machines, rank {rank}", 0.1 + task / 5)
        pairs = zip(np.asarray(x), np.asarray(targets[:, task]), strict=True)
        rounds.append([_machine(*pair, recursion, config) for pair in pairs])
    report("networks, rank 2", 0.7)
    features = np.asarray(
        ensemble(
            lambda one: _network(one[0], one[1], one[2], config),
            (keys, x, targets[:, TASKS.index(2)]),
        )
    )
    errors, metrics, gains = (
        np.asarray([[getattr(one, name) for one in found] for found in rounds])
        for name in _Rounds._fields
    )
    references = [np.asarray(polynomial_agop(rank, config.dimension)) for rank in TASKS]
    aligned = [
        np.stack([_aligned(one, reference) for one in found])
        for found, reference in zip(metrics, references, strict=True)
    ]
    rank_two = metrics[0]
    return Result(
        dimension=config.dimension,
        errors=errors,
        gains=gains,
        alignments=np.asarray(aligned),
        network_alignment=_aligned(features, references[0]),
        likeness=_aligned(features, rank_two[:, -1]),
        first_likeness=_aligned(features, rank_two[:, 1]),
        corner=rank_two[0, -1, :5, :5],
    )


def _drawn(key: Key[Array, ""], config: Config) -> tuple[Array, Array]:
    """Inputs (n, d), and the targets of all tasks (tasks, n, 1) with the same noise."""
    total = config.num_train + 2 * config.num_test
    data = low_rank_polynomial(key, total, config.dimension, 2)
    noise = data.y - polynomial_teacher(2)(data.x)
    return data.x, jnp.stack([polynomial_teacher(rank)(data.x) + noise for rank in TASKS])


class _Rounds(NamedTuple):
    """Relative validation loss and metric of every round, and what the best one gains in tests."""

    errors: np.ndarray
    metrics: np.ndarray
    gain: float


def _machine(x: np.ndarray, y: np.ndarray, recursion: Recursion, config: Config) -> _Rounds:
    """Validation samples choose the round, test samples measure it."""
    train, validation, test = (
        (x[part], y[part]) for part in _parts(config.num_train, config.num_test)
    )
    found = learn_features(recursion, *train, validation)
    plain = fit_machine(recursion, np.eye(config.dimension, dtype=x.dtype), *train)
    best, first = (np.mean((one(test[0]) - test[1]) ** 2) for one in (found.machine, plain))
    constant = np.mean((validation[1] - train[1].mean()) ** 2)
    return _Rounds(found.errors / constant, found.metrics, float(best / first))


def _parts(num_train: int, num_test: int) -> tuple[slice, slice, slice]:
    """Where training, validation and test samples stand."""
    middle = num_train + num_test
    return slice(num_train), slice(num_train, middle), slice(middle, None)


def _network(key: Key[Array, ""], x: Array, y: Array, config: Config) -> Array:
    """The AGOP of a network that has learned rank 2."""
    train, validation = (
        Dataset(x[part], y[part], law="x₁x₂", source="synthetic")
        for part in _parts(config.num_train, config.num_test)[:2]
    )
    model = network(mlp([config.width]), (config.dimension,))
    init_key, batch_key = jax.random.split(jax.random.fold_in(key, 1))
    fitted = train_until(
        empirical_risk(LOSS, model.apply),
        jax.tree.map(lambda w: config.weight_scale * w, model.init(init_key)),
        train,
        validation,
        gradient_descent(config.learning_rate),
        Batches(20),
        Until(1e-2, config.num_steps, 200),
        batch_key,
    )
    return agop(model.apply, fitted.params, train.x)


def _aligned(
    matrices: Float[np.ndarray, "p d d"], references: Float[np.ndarray, "*q d d"]
) -> Float[np.ndarray, " p"]:
    """cos(G, G*) of every matrix with its own reference, or with the one there is."""
    pairs = (matrices, np.broadcast_to(references, matrices.shape))
    return np.asarray(jax.vmap(agop_alignment)(*(jnp.asarray(part, float) for part in pairs)))


CLAIMS = (
    Claim(
        "Where two directions of many matter, learning the metric cuts the kernel's test loss to"
        " less than a third.",
        judge=lambda r, c: median_at_most(r.gains[0], 1 / 3),
        source=MACHINES,
    ),
    Claim(
        "Where four do, in a staircase, one round of gradients lowers the error already.",
        judge=lambda r, c: ordered(r.errors[1][:, 1], r.errors[1][:, 0]),
        source=MACHINES,
    ),
    Claim(
        "The metric finds the two directions: its alignment with the true G* is above 0.9.",
        judge=lambda r, c: median_at_least(r.alignments[0][:, -1], 0.9),
        source=AGOP,
        formula=r"\cos(M, G^*) \ge 0.9",
    ),
    Claim(
        "One round of gradients is not enough: alignment grows from the first to the last round.",
        judge=lambda r, c: ordered(r.alignments[0][:, 1], r.alignments[0][:, -1]),
        source=AGOP,
    ),
    Claim(
        "A network that has learned the same target has the same features: alignment above 0.9.",
        judge=lambda r, c: median_at_least(r.likeness, 0.9),
        source=MACHINES,
    ),
    Claim(
        "Where all directions matter alike, the best round does not improve on it by a tenth.",
        judge=lambda r, c: median_at_least(r.gains[2], 0.9),
        source=MACHINES,
        kind="control",
    ),
    Claim(
        "The plain kernel's metric, the identity, has the alignment √(2/d) with two directions.",
        judge=lambda r, c: identity(
            float(np.mean(r.alignments[0][:, 0])), (2 / r.dimension) ** 0.5, 1e-5
        ),
        source=AGOP,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw errors and alignments over rounds, and the corner of the metric."""
    figure, (errors, alignments, corner) = panels(
        "validation loss / variance", "alignment of M with G*", "corner of M, rank 2"
    )
    for task, rank in enumerate(TASKS):
        line = errors.semilogy(np.median(result.errors[task], axis=0), "o-", label=f"rank {rank}")
        errors.semilogy(result.errors[task].T, linewidth=0.5, color=line[0].get_color())
        alignments.plot(np.median(result.alignments[task], axis=0), "o-")
    for axis in (errors, alignments):
        axis.set_xlabel("round")
    errors.legend(fontsize=7)
    corner.imshow(result.corner, cmap="viridis")
    return figure
