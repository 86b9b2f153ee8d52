"""With few examples, regression with a tangent kernel beats the network that it is the kernel of.

Handwritten digits, m labelled ones to learn from. Kernel regression with the tangent kernel of an
infinitely wide fully connected network has nothing to tune and nothing random; the finite network
of the same architecture is trained with the learning rate that is best in hindsight. The kernel is
better at all sizes. It does not vary less from one training set to the next, as the source expects:
that spread is the data's. (The source's example is CIFAR-10: a convolutional kernel of 14 layers
against ResNet-34.)

Source: golikov · ntk-small-data · 2.6.1; arora · ntk-practice · §9.5.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import Source, median_between, ordered
from theorylab.data import digits
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.fields import Checked, Count, Plural, Positive, Seed, Several
from theorylab.kernels import infinite_kernels
from theorylab.models import NTK, Standard, mlp, network
from theorylab.progress import report
from theorylab.training import cross_entropy, descend, ensemble
from theorylab.typing import Params, RandomKey

PRECISION = "float32"
FORMULA = r"f(x) = \Theta(x, X)\,(\Theta(X, X) + \lambda I)^{-1}\,Y"
SMALL = Source("golikov", "ntk-small-data", "2.6.1")
PRACTICE = Source("arora", "ntk-practice", "§9.5")

HE = math.sqrt(2.0)
FEW = 640  # examples, up to which the source's claim is made
RIDGE = 1e-4  # of the mean of the kernel's diagonal: single precision


@dataclass(frozen=True)
class Config(Checked):
    """Kernel regression and networks on few handwritten digits."""

    sizes: Several[Count] = (10, 20, 40, 80, 160, 320)  # labelled examples m
    num_test: Count = 600  # examples to be predicted
    num_splits: Count = 20  # random training and test sets
    depth: Plural = 3  # layers with weights, hidden ones and the output
    width: Count = 128  # of the network's hidden layers
    num_steps: Count = 150  # of Adam, all examples at once
    learning_rates: Several[Positive] = (0.001, 0.004, 0.016)  # the best in hindsight counts
    seed: Seed = 0  # of all randomness

    def __post_init__(self) -> None:
        super().__post_init__()
        if tuple(sorted(self.sizes)) != self.sizes:
            raise ValueError(f"sizes must grow, got {self.sizes}.")
        if max(self.sizes) + self.num_test > 1797:
            needed = max(self.sizes) + self.num_test
            raise ValueError(f"sizes and num_test must be at most 1797 together, got {needed}.")


PRESETS = {
    "smoke": Config(sizes=(20, 80), num_test=300, num_splits=24, width=64, num_steps=100),
    "paper": Config(sizes=(10, 20, 40, 80, 160, 320, 640), num_splits=100, width=1024),
}


class Result(NamedTuple):
    """Axes: s splits, m sizes. Accuracies on the test set."""

    kernel: Float[np.ndarray, "s m"]
    network: Float[np.ndarray, "s m"]  # of the learning rate that is best over all splits
    shuffled: Float[np.ndarray, "s m"]  # kernel regression on labels in random order


def memory(config: Config) -> int:
    """Bytes of the kernel of all digits, its parts, and two networks while they train."""
    largest = max(config.sizes) + config.num_test
    weights = 64 * config.width + (config.depth - 1) * config.width**2
    return 4 * (3 * 1797**2 + 4 * largest**2 + 2 * (10 * weights + 8 * largest * config.width))


def run(config: Config) -> Result:
    """Predict the test set from every training set, by kernel and by network."""
    report("tangent kernel of all digits", 0.0)
    data = digits(scaling="sphere")
    x, labels = jnp.sqrt(data.x.shape[1]) * data.x, jnp.argmax(data.y, axis=1)
    architecture = mlp([1] * (config.depth - 1))  # read as infinitely wide
    kernel = infinite_kernels(architecture, x, parametrization=NTK(weight_scale=HE)).ntk
    keys = jax.random.split(jax.random.key(config.seed), config.num_splits)
    found = []
    for number, size in enumerate(config.sizes):
        report(f"{size} examples", 0.05 + 0.95 * number / len(config.sizes))
        by_kernel = partial(_by_kernel, kernel, labels, size, config.num_test)
        own, shuffled = ensemble(by_kernel, keys)
        networks = ensemble(partial(_by_networks, config, x, labels, size), keys)
        found.append((own, networks[:, jnp.argmax(networks.mean(axis=0))], shuffled))
    return Result(*(np.stack(columns, axis=1) for columns in zip(*found, strict=True)))


def _split(key: Key[Array, ""], num_samples: int, size: int, num_test: int):
    """A training set and a test set; the smaller training sets are parts of the larger ones."""
    order = jax.random.permutation(key, num_samples)
    return order[num_test : num_test + size], order[:num_test]


def _by_kernel(
    kernel: Float[Array, "n n"], labels: Int[Array, " n"], size: int, num_test: int, key: RandomKey
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Accuracy of kernel regression, and of the same with labels in random order."""
    train, test = _split(key, len(labels), size, num_test)
    gram = kernel[train[:, None], train[None, :]]
    gram = gram + RIDGE * jnp.trace(gram) / size * jnp.eye(size)
    across = kernel[test[:, None], train[None, :]]

    def accuracy(known: Int[Array, " m"]) -> Float[Array, ""]:
        outputs = across @ jnp.linalg.solve(gram, jax.nn.one_hot(known, 10) - 0.1)
        return jnp.mean(jnp.argmax(outputs, axis=1) == labels[test])

    known = labels[train]
    return accuracy(known), accuracy(jax.random.permutation(jax.random.fold_in(key, 1), known))


def _by_networks(
    config: Config, x: Float[Array, "n d"], labels: Int[Array, " n"], size: int, key: RandomKey
) -> Float[Array, " l"]:
    """Accuracy of a network trained with every learning rate."""
    train, test = _split(key, len(x), size, config.num_test)
    architecture = mlp([config.width] * (config.depth - 1), num_outputs=10)
    model = network(architecture, x.shape[1:], Standard(weight_scale=HE), bias="zero")
    start = model.init(jax.random.fold_in(key, 2))
    targets = jax.nn.one_hot(labels[train], 10)
    loss = cross_entropy("mean")

    def objective(params: Params) -> Float[Array, ""]:
        return loss(model.apply(params, x[train]), targets)

    def accuracy(params: Params) -> Float[Array, ""]:
        outputs = model.apply(params, x[test])
        return jnp.mean(jnp.argmax(outputs, axis=1) == labels[test])

    def trained(learning_rate: Float[Array, ""]) -> Float[Array, ""]:
        optimizer = optax.adam(learning_rate)
        return descend(objective, start, optimizer, [config.num_steps], accuracy).records[-1]

    return jax.lax.map(trained, jnp.asarray(config.learning_rates))


def _few(config: Config, values: Float[np.ndarray, "s m"]) -> Float[np.ndarray, " s"]:
    """The mean over the sizes for which the claim is made."""
    return values[:, np.asarray(config.sizes) <= FEW].mean(axis=1)


def _deviation(values: Float[np.ndarray, "s m"]) -> Float[np.ndarray, "s m"]:
    """How far every split is from the median split."""
    return np.abs(values - np.median(values, axis=0))


CLAIMS = (
    SMALL.claim(
        "With at most 640 examples kernel regression is more accurate than the trained network.",
        lambda r, c: ordered(_few(c, r.network), _few(c, r.kernel)),
        quote="consistently outperforms ResNet-34 trained with standard hyperparameters",
    ),
    PRACTICE.claim(
        "With the largest training sets too, the kernel beats the network.",
        lambda r, c: ordered(r.network[:, -1], r.kernel[:, -1]),
        quote="They found NTK can beat neural networks",
    ),
    SMALL.claim(
        "Accuracies of the kernel vary less from one training set to the next than the network's.",
        lambda r, c: ordered(*(_few(c, _deviation(own)) for own in (r.kernel, r.network))),
        quote="One possible advantage of kernel methods over neural nets is lower variance",
        expected="inconclusive",
        why="60 splits of another seed show no difference at any size (Levene's p from 0.3 to"
        " 0.98): the spread is that of the data, which the kernel has too.",
    ),
    SMALL.found(
        "From one training set to the next, kernel and network vary alike, to two points.",
        lambda r, c: median_between(
            _few(c, _deviation(r.kernel) - _deviation(r.network)), -0.02, 0.02
        ),
        demand="lab: chosen on 60 splits of another seed",
    ),
    SMALL.control(
        "With labels in random order, the kernel is at chance.",
        lambda r, c: median_between(_few(c, r.shuffled), 0.05, 0.15),
        demand="lab: chance is 0.1; a split's accuracy has a deviation of some 0.03",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Accuracy and its spread over the number of examples."""
    sizes = np.asarray(config.sizes)
    figure, (accuracy, spread) = panels("test accuracy", "deviation from the median split")
    named = {
        "tangent kernel, infinite width": result.kernel,
        "network, best learning rate": result.network,
        "kernel, labels in random order": result.shuffled,
    }
    curves(accuracy, sizes, named, "o-")
    own = {"tangent kernel": _deviation(result.kernel), "network": _deviation(result.network)}
    curves(spread, sizes, own, "o-")
    for axis in (accuracy, spread):
        label_axes(axis, "labelled examples m", logarithmic="x")
    return figure
