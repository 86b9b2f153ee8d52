"""A recursive feature machine beats its own kernel where few directions matter.

Kernel regression treats all directions of the inputs alike. A recursive feature machine takes the
average gradient outer product G of what it learned as a metric, fits again, and so on. Where the
target depends on a few directions of many, the metric finds them, as the first layer of a network
does, and the error falls; where all directions matter alike, there is nothing to find.

Targets are polynomials of Gaussian inputs with known expected gradient outer product G*: x₁x₂
(rank 2), a staircase (rank 4), and ‖x‖/√d (all directions). Beside the machine a two-layer network
learns the first of them by SGD with a small start, and the features of both are compared.

Source: zhu · agop · Remark 4.4.1, Eqs 4.5–4.6; zhu · synthetic-tasks · §4.4.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import Source, identity, median_at_least, median_at_most, ordered
from theorylab.data import Dataset, low_rank_polynomial, polynomial_agop
from theorylab.data.polynomials import Rank, polynomial_teacher
from theorylab.experiments.drawing import curves, image, label_axes, panels
from theorylab.features import Recursion, agop, agop_alignment, learn_features
from theorylab.features.recursive import fit_machine
from theorylab.fields import Count, Positive, Seeded
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
from theorylab.typing import Measured

from ._polynomials import NOT_KEPT

PRECISION = "float32"
FORMULA = r"M \leftarrow G(f_M), \quad G = \frac1n \sum_i \nabla f(x_i) \nabla f(x_i)^\top"

MACHINES = Source("zhu", "agop", "Remark 4.4.1")
AGOP = Source("zhu", "agop", "Eq. 4.6")
TASKS: tuple[Rank, ...] = (2, 4, "full")
RANK_2, RANK_4, FULL = range(3)  # along the axis of targets
LOSS = squared("mean")
LINEAR = np.array([1.0, 2.0, 0.0, 0.0, 0.0])  # the weights of a function with a known AGOP

NETWORK_SCALE = 0.3  # of the network's initial weights: small, so that features are learned
NETWORK_RATE = 2.0  # the learning rate of its SGD, with batches of 20


@dataclass(frozen=True)
class Config(Seeded):
    """Recursive feature machines on polynomials of few and of all directions."""

    num_seeds: Count = 6  # data and networks, at least 6 to conclude
    dimension: Count = 50  # of the inputs, d
    num_train: Count = 1000  # training samples, n
    num_test: Count = 1000  # test samples, and validation samples that choose the best round
    num_rounds: Count = 5  # how often the metric is updated
    bandwidth: Positive = 1.0  # of the Laplace kernel, in median distances
    ridge: Positive = 0.01  # of kernel regression
    width: Count = 256  # of the network
    num_steps: Count = 8000  # of the network's SGD at most

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in {"dimension": 10, "num_train": 20, "num_test": 20}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")


PRESETS = {
    "smoke": Config(
        dimension=20, num_train=300, num_test=200, num_rounds=3, width=64, num_steps=2000
    ),
    "paper": Config(dimension=100, num_train=2000, num_test=5000, width=1024, num_seeds=10),
}


class Result(NamedTuple):
    """Axes: targets (rank 2, rank 4, full), s seeds, t rounds."""

    errors: Float[Measured, "3 s t"]  # validation loss over that of the best constant
    gains: Float[Measured, "3 s"]  # test loss of the best round over that of the plain kernel
    alignments: Float[Measured, "3 s t"]  # of the metric with G*
    network_alignment: Float[Measured, " s"]  # of the network's AGOP with G*, rank 2
    likeness: Float[Measured, " s"]  # of the network's AGOP with the machine's last metric
    first_likeness: Float[Measured, " s"]  # and with the AGOP of the plain kernel machine
    corner: Float[Measured, "5 5"]  # of the last metric, rank 2, first seed
    linear: Float[Measured, "5 5"]  # the AGOP of x₁ + 2x₂, on inputs of the first seed


def memory(config: Config) -> int:
    """Bytes of the kernel matrix, and of the data and metrics of all seeds."""
    samples, d = config.num_train + 2 * config.num_test, config.dimension
    one = 3 * config.num_train * samples + samples * (d + config.width)
    return 8 * (one + config.num_seeds * (samples * (d + 3) + 6 * (config.num_rounds + 2) * d**2))


def run(config: Config) -> Result:
    """Learn every target with machines, and the first with networks."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    report("data", 0.0)
    x, targets = ensemble(lambda key: _drawn(key, config), keys)
    rounds = []
    for task, rank in enumerate(TASKS):
        report(f"machines, rank {rank}", 0.1 + task / 5)
        pairs = zip(np.asarray(x), np.asarray(targets[:, task]), strict=True)
        found = [_machine(*pair, config) for pair in pairs]
        rounds.append(jax.tree.map(lambda *seeds: np.stack(seeds), *found))
    report("networks, rank 2", 0.7)
    given = (keys, x, targets[:, RANK_2])
    features = np.asarray(ensemble(lambda one: _network(*one, config=config), given))
    references = [np.asarray(polynomial_agop(rank, config.dimension)) for rank in TASKS]
    aligned = [
        np.stack([_aligned(metrics, reference) for metrics in found.metrics])
        for found, reference in zip(rounds, references, strict=True)
    ]
    metrics = rounds[RANK_2].metrics
    return Result(
        errors=np.stack([found.errors for found in rounds]),
        gains=np.stack([found.gain for found in rounds]),
        alignments=np.stack(aligned),
        network_alignment=_aligned(features, references[RANK_2]),
        likeness=_aligned(features, metrics[:, -1]),
        first_likeness=_aligned(features, metrics[:, 1]),
        corner=metrics[0, -1, :5, :5],
        linear=agop(lambda w, x: x @ w, jnp.asarray(LINEAR[:, None], x.dtype), x[0, :20, :5]),
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


def _machine(x: np.ndarray, y: np.ndarray, config: Config) -> _Rounds:
    """Validation samples choose the round, test samples measure it."""
    recursion = Recursion(
        num_steps=config.num_rounds, bandwidth=config.bandwidth, ridge=config.ridge
    )
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
        jax.tree.map(lambda w: NETWORK_SCALE * w, model.init(init_key)),
        train,
        validation,
        gradient_descent(NETWORK_RATE),
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
    MACHINES.claim(
        "Where two directions of many matter, learning the metric cuts the kernel's test loss to"
        " less than a third.",
        lambda r, c: median_at_most(r.gains[RANK_2], 1 / 3),
        quote="transformed by AGOP can lead to substantial increases in test performance",
        demand=NOT_KEPT,
    ),
    MACHINES.found(
        "Where four do, in a staircase, one update of the metric already lowers the error.",
        lambda r, c: ordered(r.errors[RANK_4][:, 1], r.errors[RANK_4][:, 0]),
    ),
    AGOP.claim(
        "The metric captures the two directions: its alignment with the true G* is above 0.9.",
        lambda r, c: median_at_least(r.alignments[RANK_2][:, -1], 0.9),
        formula=r"\cos(M, G^*) \ge 0.9",
        quote="captures the directions along which … varies the most",
        demand=NOT_KEPT,
    ),
    AGOP.found(
        "One update of the metric is not enough: the alignment grows until the last round.",
        lambda r, c: ordered(r.alignments[RANK_2][:, 1], r.alignments[RANK_2][:, -1]),
    ),
    MACHINES.found(
        "A network that has learned the same target has the same features: alignment above 0.9.",
        lambda r, c: median_at_least(r.likeness, 0.9),
        demand=NOT_KEPT,
    ),
    MACHINES.control(
        "Where all directions matter alike, the best round gains less than a tenth of the loss.",
        lambda r, c: median_at_least(r.gains[FULL], 0.9),
        demand=NOT_KEPT,
    ),
    AGOP.check(
        "The plain kernel's metric, the identity, has the alignment √(2/d) with two directions.",
        lambda r, c: identity(
            float(np.mean(r.alignments[RANK_2][:, 0])), (2 / c.dimension) ** 0.5, 1e-5
        ),
    ),
    AGOP.check(
        "Gradients are not centred: the AGOP of a linear function wᵀx is wwᵀ.",
        lambda r, c: identity(r.linear, np.outer(LINEAR, LINEAR), 1e-5),
        formula=r"G = \tfrac1n \sum_i \nabla f(x_i) \nabla f(x_i)^T = w w^T",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Errors and alignments over rounds, and the corner of the metric."""
    figure, (errors, alignments, corner) = panels(
        "validation loss / variance", "alignment of M with G*", "corner of M, rank 2"
    )
    for axis, values in ((errors, result.errors), (alignments, result.alignments)):
        named = {f"rank: {rank}": seeds for rank, seeds in zip(TASKS, values, strict=True)}
        curves(axis, range(config.num_rounds + 1), named, "o-")
        label_axes(axis, "round")
    errors.set_yscale("log")
    image(corner, result.corner)
    return figure
