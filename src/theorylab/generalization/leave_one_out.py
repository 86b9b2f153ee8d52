"""Can labels be predicted from inputs at all? Leave-one-out accuracy of kernel ridge regression.

    f₋ᵢ(xᵢ) = yᵢ − [G⁻¹y]ᵢ/[G⁻¹]ᵢᵢ,     G = K + λI

is what kernel ridge regression on the other n − 1 examples says at xᵢ: n machines for one inverse.
(So is the residual of linear regression over 1 − hᵢᵢ, with h its projection.)

    accuracy       argmax_a f₋ᵢ(xᵢ)_a = yᵢ, of one-hot labels less 1/k
    ridge          chosen on one half of the examples for the other half, and conversely, by
                   leave-one-out accuracy there: no example has a part in what predicts it
    chance         the share of the largest class
    permutations   the same with shuffled labels: they are predicted no better than by accident, and
                   their spread says how dependent the n predictions are
    interval       Clopper–Pearson for n p(1 − p)/v examples instead of n, with p and v the mean and
                   variance of the accuracy of shuffled labels, where that is fewer

A network that fits labels that cannot be predicted memorises them (Zhang et al. 2017,
arXiv:1611.03530). That no kernel predicts them is no proof: labels may follow a rule that the
kernel needs more examples to see.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int
from scipy import special

from theorylab.numerics.intervals import generator
from theorylab.typing import RandomKey

Matrix = Float[np.ndarray, "n n"] | Float[Array, "n n"]
Labels = Float[np.ndarray, "n *tasks"] | Float[Array, "n *tasks"]
RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # of the mean of the kernel's diagonal
PERMUTATIONS = 49


def leave_one_out(kernel: Matrix, y: Labels, ridge: float) -> Labels:
    """f₋ᵢ(xᵢ): what kernel ridge regression says at every input without its own label.

    Args:
        kernel: K at the inputs.
        y: Labels; several tasks in columns.
        ridge: λ, so that K + λI is positive definite.

    Example: each of two equal inputs is told by the other.
        >>> leave_one_out(np.ones((2, 2)), np.array([1.0, 3.0]), ridge=1.0).round(6).tolist()
        [1.5, 0.5]
    """
    inverse = np.linalg.inv(np.asarray(kernel, float) + ridge * np.eye(len(kernel)))
    return _left_out(inverse, np.asarray(y, float))


class Predictability(NamedTuple):
    """How well labels are predicted by the examples around them.

    Example:
        >>> found = Predictability(0.9, 0.8, 0.95, chance=0.5, shuffled=0.49, p_value=0.01)
        >>> found.low > found.chance
        True
    """

    accuracy: float
    low: float
    high: float
    chance: float  # the share of the largest class
    shuffled: float  # mean accuracy of shuffled labels
    p_value: float  # share of shuffled labels, and of these, that are predicted as well


def label_predictability(
    kernel: Matrix,
    classes: Int[np.ndarray, " n"],
    key: RandomKey,
    num_permutations: int = PERMUTATIONS,
    confidence: float = 0.95,
) -> Predictability:
    """Leave-one-out accuracy of class labels under a kernel, beside that of shuffled labels.

    Args:
        kernel: A kernel at the inputs that has not seen the labels. A constant is added to it, so
            that the mean is fitted too.
        classes: Class numbers.
        key: Halves the examples and shuffles labels.
        num_permutations: How often labels are shuffled.
        confidence: Of the interval.

    Example: labels that the kernel knows.
        >>> import jax
        >>> classes = np.arange(60) % 3
        >>> same = (classes[:, None] == classes[None]).astype(float)
        >>> label_predictability(same, classes, jax.random.key(0)).accuracy
        1.0
    """
    _, labels = np.unique(np.asarray(classes), return_inverse=True)
    n, k = len(labels), int(labels.max()) + 1
    if len(kernel) != n or n < 8 or k < 2:
        raise ValueError(
            "classes must be of at least 8 inputs, the kernel's, and of 2 classes, got"
            f" {n} labels of {k} classes and a kernel of {len(kernel)}."
        )
    random = generator(key)
    halves = np.array_split(random.permutation(n), 2)
    shuffled = [random.permutation(labels) for _ in range(num_permutations)]
    right = _chosen(np.asarray(kernel, float), np.stack([labels, *shuffled], axis=1), k, halves)
    accuracies = right.mean(axis=0)
    low, high = _interval(accuracies[0], accuracies[1:], n, confidence)
    as_good = np.count_nonzero(accuracies >= accuracies[0])  # with the labels themselves
    return Predictability(
        accuracy=float(accuracies[0]),
        low=low,
        high=high,
        chance=float(np.bincount(labels).max() / n),
        shuffled=float(accuracies[1:].mean()),
        p_value=float(as_good / len(accuracies)),
    )


def value_predictability(
    kernel: Matrix,
    y: Float[np.ndarray, "n k"],
    key: RandomKey,
    num_permutations: int = PERMUTATIONS,
) -> tuple[float, float, float]:
    """Leave-one-out R² of real targets under a kernel; of shuffled targets; and the p-value.

    R² compares f₋ᵢ with the mean of the other targets, so it is below 0 where nothing is predicted.

    Args:
        kernel: A kernel at the inputs that has not seen the targets; a constant is added to it.
        y: Targets.
        key: Halves the examples and shuffles targets.
        num_permutations: How often targets are shuffled.

    Example:
        >>> import jax
        >>> x = np.linspace(-1, 1, 30)[:, None]
        >>> found = value_predictability(x @ x.T, x, jax.random.key(0))
        >>> found[0] > 0.99, found[2]
        (True, 0.02)
    """
    values, random = np.asarray(y, float), generator(key)
    n = len(values)
    halves = np.array_split(random.permutation(n), 2)
    orders = [np.arange(n), *(random.permutation(n) for _ in range(num_permutations))]
    tasks = np.stack([values[order] for order in orders], axis=1)  # (n, runs, k)
    means = (tasks.sum(axis=0, keepdims=True) - tasks) / (n - 1)
    total = ((tasks - means) ** 2).sum(axis=(0, 2))
    squares = [((f - tasks) ** 2).sum(axis=2) for f in _by_ridge(np.asarray(kernel, float), tasks)]
    own = np.zeros(len(orders))
    for half, other in (halves, halves[::-1]):
        there = _by_ridge(_part(kernel, other), tasks[other])
        chosen = np.stack([((f - tasks[other]) ** 2).sum(axis=(0, 2)) for f in there]).argmin(
            axis=0
        )
        own += np.stack([each[half].sum(axis=0) for each in squares])[
            chosen, np.arange(len(chosen))
        ]
    scores = 1 - own / total
    as_good = np.count_nonzero(scores >= scores[0])
    return float(scores[0]), float(scores[1:].mean()), float(as_good / len(scores))


def _left_out(inverse: np.ndarray, y: np.ndarray) -> np.ndarray:
    diagonal = np.diag(inverse).reshape(-1, *[1] * (y.ndim - 1))
    return y - np.tensordot(inverse, y, axes=1) / diagonal


def _part(kernel: Matrix, rows: np.ndarray) -> np.ndarray:
    return np.asarray(kernel, float)[np.ix_(rows, rows)]


def _by_ridge(kernel: np.ndarray, tasks: np.ndarray) -> list[np.ndarray]:
    """f₋ᵢ(xᵢ) for every ridge, from one decomposition; a constant is added to the kernel."""
    values, vectors = np.linalg.eigh(kernel / np.diag(kernel).mean() + 1.0)
    flat = tasks.reshape(len(tasks), -1)
    rotated = vectors.T @ flat
    found = []
    for ridge in RIDGES:
        weights = 1 / (np.maximum(values, 0) + ridge)
        diagonal = (vectors**2) @ weights
        left_out = flat - (vectors @ (weights[:, None] * rotated)) / diagonal[:, None]
        found.append(left_out.reshape(tasks.shape))
    return found


def _chosen(
    kernel: np.ndarray, labels: Int[np.ndarray, "n runs"], num_classes: int, halves: list
) -> np.ndarray:
    """Which examples are predicted, in every run, by the ridge that the other half chose."""
    right = _right(kernel, labels, num_classes)
    own = np.zeros(labels.shape, bool)
    for half, other in (halves, halves[::-1]):
        scores = _right(_part(kernel, other), labels[other], num_classes).sum(axis=1)
        chosen = scores.argmax(axis=0)  # of every run
        own[half] = right[chosen, :, np.arange(labels.shape[1])].T[half]
    return own


def _right(kernel: np.ndarray, labels: np.ndarray, num_classes: int) -> np.ndarray:
    """Whether each label is predicted without itself, for every ridge: (ridges, n, runs)."""
    one_hot = (labels[:, :, None] == np.arange(num_classes)).astype(float) - 1 / num_classes
    return np.stack([f.argmax(axis=2) == labels for f in _by_ridge(kernel, one_hot)])


def _interval(
    accuracy: float, shuffled: np.ndarray, num_samples: int, confidence: float
) -> tuple[float, float]:
    """Clopper–Pearson, for as many examples as the spread of shuffled labels tells."""
    mean, variance = float(shuffled.mean()), float(shuffled.var(ddof=1))
    effective = num_samples if variance == 0 else mean * (1 - mean) / variance
    trials = min(float(num_samples), max(effective, 1.0))
    right, tail = accuracy * trials, (1 - confidence) / 2
    low = 0.0 if right == 0 else float(special.betaincinv(right, trials - right + 1, tail))
    wrong = trials - right
    high = 1.0 if wrong <= 0 else float(special.betaincinv(right + 1, wrong, 1 - tail))
    return low, high
