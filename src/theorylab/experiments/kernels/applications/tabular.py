"""On small tables, the tangent kernel classifies as well as the best general-purpose methods.

Kernel regression with the tangent kernel of a wide network, beside a support vector machine with a
Gaussian kernel, a random forest, nearest neighbours and a linear model, on eleven small tables:
five real ones that scikit-learn carries (iris, wine, breast cancer, diabetes, digits) and six made
ones, whose laws `theorylab.data.table` states. Hyper-parameters are chosen by cross-validation
within the training part; the test part is for the accuracy alone, and inputs are standardised by
the training part.

What is compared: the average rank over tables (1 is best), the mean accuracy, and on how many
tables a method reaches 95 % of the best accuracy there (P95). Friedman's test says whether ranks
differ by more than chance; it is reported and not judged. The source speaks of 90 tables of the UCI
repository: `paper` takes twenty of them from OpenML. (Neural networks, which it compares with too,
are in `small_data`.)

Source: arora · ntk-practice · §9.5.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from scipy.stats import friedmanchisquare, rankdata

from theorylab.claims import (
    Source,
    median_at_least,
    median_at_most,
    median_between,
    ordered,
)
from theorylab.data import TABLES, Dataset, table
from theorylab.experiments.drawing import panels
from theorylab.fields import Checked, Count, Seed, within
from theorylab.kernels import NTKClassifier, infinite_kernels
from theorylab.models import NTK, mlp
from theorylab.progress import report

PRECISION = "float64"
FORMULA = r"\hat y(x) = \arg\max_k\, \Theta(x, X)\,(\Theta(X, X) + \lambda I)^{-1}\,Y_k"
PRACTICE = Source("arora", "ntk-practice", "§9.5")

METHODS = ("tangent kernel", "Gaussian kernel", "random forest", "nearest neighbours", "linear")
OWN, GAUSSIAN, FOREST, LINEAR = 0, 1, 2, 4
CURVED = ("circles", "shells", "chessboard", "product")  # of which a line says nothing
DEPTHS = (2, 4)  # layers with weights, to choose from
RIDGES = (0.001, 0.03, 1.0)  # λ, to choose from
BIAS_SCALE = 1.0  # as large as inputs are: without biases a kernel does not see how long x is
NUM_FOLDS = 3
COLUMNS = 64  # inputs are filled up to so many with zeros: one shape, compiled once
# Tables of the UCI repository, by their names at OpenML.
_UCI = """
balance-scale banknote-authentication blood-transfusion-service-center breast-w
climate-model-simulation-crashes diabetes ecoli glass haberman heart-statlog ilpd ionosphere
liver-disorders parkinsons qsar-biodeg seeds sonar vehicle vertebra-column yeast
"""
UCI = tuple(f"openml:{name}" for name in _UCI.split())


@dataclass(frozen=True)
class Config(Checked):
    """Five classifiers on small tables."""

    tables: Literal["bundled", "openml"] = "bundled"  # which tables
    num_train: Annotated[int, within(40, 2048)] = 120  # training rows, ≤ 3/5 of a table
    num_test: Count = 300  # rows to classify, at most
    num_trees: Count = 100  # of a random forest
    num_splits: Count = 20  # random training and test parts of every table
    seed: Seed = 0  # of all randomness


PRESETS = {
    "smoke": Config(num_train=60, num_test=128, num_trees=12, num_splits=6),
    "paper": Config(tables="openml", num_train=2048, num_test=5000, num_trees=500),
}


class Result(NamedTuple):
    """Axes: s splits, a tables, m methods."""

    names: tuple[str, ...]  # of tables
    accuracy: Float[np.ndarray, "s a m"]
    ranks: Float[np.ndarray, "s m"]  # in the mean over tables, 1 is best
    shuffled: Float[np.ndarray, "s a"]  # accuracy less chance, with labels in random order
    friedman: float  # p of Friedman's test on accuracies in the mean over splits


class Part(NamedTuple):
    """One split of one table, standardised by its training rows."""

    x: np.ndarray  # (n, d)
    classes: np.ndarray  # (n,)
    tests: np.ndarray
    truth: np.ndarray


def memory(config: Config) -> int:
    """Bytes of a few kernels of the training rows, and of one of all rows."""
    return 8 * config.num_train * (8 * config.num_train + 2 * config.num_test)


def run(config: Config) -> Result:
    """Classify every table in all ways."""
    names = TABLES if config.tables == "bundled" else (*UCI, *CURVED)
    accuracy = np.zeros((config.num_splits, len(names), len(METHODS)))
    shuffled = np.zeros((config.num_splits, len(names)))
    for number, name in enumerate(names):
        report(name, number / len(names))
        data = table(name, config.seed)
        for split in range(config.num_splits):
            random = np.random.default_rng([config.seed, number, split])
            part = _part(data, random, config)
            accuracy[split, number] = _accuracies(part, random, config)
            shuffled[split, number] = _shuffled(part, random)
    ranks = rankdata(-accuracy, axis=2).mean(axis=1)
    friedman = float(friedmanchisquare(*accuracy.mean(axis=0).T).pvalue)
    return Result(names=names, accuracy=accuracy, ranks=ranks, shuffled=shuffled, friedman=friedman)


def _part(data: Dataset, random: np.random.Generator, config: Config) -> Part:
    """Rows in random order; every class has its share among those that train."""
    x, classes = np.asarray(data.x), np.asarray(data.y).argmax(axis=1)
    order = random.permutation(len(x))
    # Every class in turn: the first rows then have as many of each as there are.
    rank = np.empty(len(x))
    for one in np.unique(classes):
        members = order[classes[order] == one]
        rank[members] = (np.arange(len(members)) + random.uniform()) / len(members)
    order = np.argsort(rank)
    num_train = min(config.num_train, 3 * len(x) // 5)
    train, test = order[:num_train], random.permutation(order[num_train:])[: config.num_test]
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    x = (x - mean) / np.where(deviation > 0, deviation, 1.0)
    return Part(x[train], classes[train], x[test], classes[test])


def _accuracies(part: Part, random: np.random.Generator, config: Config) -> Float[np.ndarray, " m"]:
    """The share of test rows that every method tells right."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import RidgeClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC

    folds = _folds(part.classes)
    widths = [factor / part.x.shape[1] for factor in (0.3, 1.0, 3.0)]
    machines = [SVC(C=cost, gamma=width) for cost in (1.0, 10.0, 100.0) for width in widths]
    others: list[Any] = [
        _best(machines, part, folds),
        RandomForestClassifier(config.num_trees, random_state=int(random.integers(2**31))),
        KNeighborsClassifier(),
        RidgeClassifier(),
    ]
    scores = [model.fit(part.x, part.classes).score(part.tests, part.truth) for model in others]
    depth, ridge = _chosen(part.x, part.classes, folds)
    return np.array([_by_kernel(part, depth, ridge), *scores])


def _folds(classes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Parts of the training rows, to choose hyper-parameters by; the same for all methods."""
    place = np.argsort(np.argsort(classes, kind="stable"), kind="stable") % NUM_FOLDS
    return [
        (np.flatnonzero(place != fold), np.flatnonzero(place == fold)) for fold in range(NUM_FOLDS)
    ]


def _best(models: list[Any], part: Part, folds: list[tuple[np.ndarray, np.ndarray]]) -> Any:
    """The model with the best accuracy in cross-validation, the first of equals."""

    def right(model: Any) -> int:
        told = [model.fit(part.x[a], part.classes[a]).predict(part.x[b]) for a, b in folds]
        return sum(
            int(np.sum(found == part.classes[b])) for found, (_, b) in zip(told, folds, strict=True)
        )

    return max(models, key=right)


def _chosen(
    x: np.ndarray, classes: np.ndarray, folds: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[int, float]:
    """Depth and ridge with the best accuracy in cross-validation; one kernel serves all folds."""
    targets = np.eye(classes.max() + 1)[classes]
    scales = NTK(weight_scale=math.sqrt(2.0), bias_scale=BIAS_SCALE)
    points = jnp.asarray(_filled(x))
    right: dict[tuple[int, float], int] = {}
    for depth in DEPTHS:
        network = mlp([1] * (depth - 1))
        kernels = infinite_kernels(network, points, parametrization=scales, bias="normal")
        gram = np.asarray(kernels.ntk)
        for ridge in RIDGES:
            right[depth, ridge] = 0
            for rest, fold in folds:
                matrix = gram[np.ix_(rest, rest)] + ridge * np.eye(len(rest))
                alpha = np.linalg.solve(matrix, targets[rest] - 1 / targets.shape[1])
                told = (gram[np.ix_(fold, rest)] @ alpha).argmax(axis=1)
                right[depth, ridge] += int(np.sum(told == classes[fold]))
    return max(right, key=lambda pair: right[pair])


def _filled(x: np.ndarray) -> np.ndarray:
    """Zeros for further columns. Kernels are functions of xᵀx′/d, so what is there gets √(D/d)."""
    _, d = x.shape
    columns = max(COLUMNS, d)
    return np.pad(math.sqrt(columns / d) * x, ((0, 0), (0, columns - d)))


def _by_kernel(part: Part, depth: int, ridge: float) -> float:
    model = NTKClassifier(depth=depth, bias_scale=BIAS_SCALE, ridge=ridge)
    return model.fit(_filled(part.x), part.classes).score(_filled(part.tests), part.truth)


def _shuffled(part: Part, random: np.random.Generator) -> float:
    """The tangent kernel's accuracy less chance, after training on labels in random order."""
    wrong = part._replace(classes=random.permutation(part.classes))
    chance = np.mean(part.truth[:, None] == part.classes[None, :])
    return float(_by_kernel(wrong, DEPTHS[0], RIDGES[-1]) - chance)


def _mean(result: Result, method: int) -> Float[np.ndarray, " s"]:
    """Accuracy in the mean over tables."""
    return result.accuracy[:, :, method].mean(axis=1)


def _near_best(result: Result, method: int) -> Float[np.ndarray, " s"]:
    """P95: the share of tables where a method reaches 95 % of the best accuracy."""
    return np.mean(result.accuracy[:, :, method] >= 0.95 * result.accuracy.max(axis=2), axis=1)


def _on_curved(result: Result, method: int) -> Float[np.ndarray, " s"]:
    chosen = np.isin(result.names, CURVED)
    return result.accuracy[:, chosen, method].mean(axis=1)


CLAIMS = (
    PRACTICE.claim(
        "In average rank the tangent kernel is ahead of the Gaussian kernel.",
        lambda r, c: ordered(r.ranks[:, OWN], r.ranks[:, GAUSSIAN]),
        quote="They found NTK can beat neural networks, other kernels like Gaussian",
        expected="inconclusive",
        why="On eleven small tables the difference is 0.07 to 0.2 of a rank, less than the splits'"
        " noise; the 90 tables of the UCI repository would be needed.",
    ),
    PRACTICE.claim(
        "In average rank the tangent kernel is ahead of the random forest.",
        lambda r, c: ordered(r.ranks[:, OWN], r.ranks[:, FOREST]),
        quote="the best previous classifier, random forest under various metrics",
        regime="num_trees >= 100",
    ),
    PRACTICE.claim(
        "In average accuracy the tangent kernel is ahead of the random forest.",
        lambda r, c: ordered(_mean(r, FOREST), _mean(r, OWN)),
        quote="including average rank, average accuracy, etc.",
        regime="num_trees >= 100",
    ),
    PRACTICE.found(
        "In average rank the tangent kernel is at most half a rank behind the Gaussian kernel.",
        lambda r, c: median_at_most(r.ranks[:, OWN] - r.ranks[:, GAUSSIAN], 0.5),
        demand="lab: a smoke run with seed 31 gave 0.07 (up to 0.32); with biases of 0.1 it was"
        " half a rank, because such a kernel is at chance on `shells`",
    ),
    PRACTICE.found(
        "Its mean accuracy is that of the better of the two, or larger, to two points.",
        lambda r, c: median_at_least(
            _mean(r, OWN) - np.maximum(_mean(r, GAUSSIAN), _mean(r, FOREST)), -0.02
        ),
        demand="lab: a smoke run with seed 31 gave 0.4 points",
    ),
    PRACTICE.found(
        "On most tables, six of ten, it reaches 95 % of the best accuracy.",
        lambda r, c: median_at_least(_near_best(r, OWN), 0.6),
        demand="lab: a smoke run with seed 31 gave 0.73 to 0.91",
    ),
    PRACTICE.control(
        "Where classes are curved, a linear model is at least 15 points behind.",
        lambda r, c: median_at_least(_on_curved(r, OWN) - _on_curved(r, LINEAR), 0.15),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    PRACTICE.control(
        "With labels in random order, the tangent kernel is at chance.",
        lambda r, c: median_between(r.shuffled.mean(axis=1), -0.1, 0.1),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw average ranks with every split, and the accuracy on every table."""
    figure, (ranks, accuracy) = panels(
        f"average rank (Friedman: p = {result.friedman:.2g})", "mean accuracy on every table"
    )
    for number, method in enumerate(METHODS):
        ranks.plot(result.ranks[:, number], np.full(len(result.ranks), number), "o", ms=3)
        ranks.plot(np.median(result.ranks[:, number]), number, "|", color="black", ms=14)
        places = np.arange(len(result.names))
        accuracy.plot(result.accuracy[:, :, number].mean(axis=0), places, "o", ms=4, label=method)
    ranks.set(yticks=range(len(METHODS)), yticklabels=METHODS, xlabel="rank, 1 is best")
    accuracy.set(yticks=range(len(result.names)), yticklabels=result.names, xlabel="accuracy")
    accuracy.legend(fontsize=6)
    return figure
