"""One dataset, two labelings: a kernel that looks at labels serves the one that others fail.

Inputs have two binary factors, a and b, beside noise. The kernel of a linear network predicts a
from such inputs, and fails at the parity ab; a kernel that knows inputs only need not serve both.
The label-aware kernel K^HR = (1 − λ)K + λZ adds a guess Z(x, x′) of the product of two labels: the
mean product over pairs of training inputs that are as similar as x and x′. The weight λ is chosen
by cross-validation on the training inputs. The kernel of a ReLU network sees the parity by itself,
and gains nothing.

Source: golikov · label-aware · 2.8.2.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import Source, median_at_least, median_at_most, ordered
from theorylab.experiments.drawing import panels
from theorylab.fields import Count, Plural, Positive, Seeded
from theorylab.kernels import (
    hybrid_kernel,
    infinite_kernels,
    label_kernel,
    target_alignment,
)
from theorylab.models import mlp
from theorylab.progress import report
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"K^{HR} = (1 - \lambda) K + \lambda Z, \qquad Z(x, x') = y^\top M(x, x')\, y"

SOURCE = Source("golikov", "label-aware", "2.8.2")

LABELINGS = ("factor", "parity", "random")
ACTIVATIONS = ("identity", "relu")  # of the networks whose kernels are used
WEIGHTS = np.array([0.0, 0.2, 0.4, 0.6, 0.8])  # λ, among which cross-validation chooses
RIDGE = 0.1  # in units of the mean of K(x, x)


@dataclass(frozen=True)
class Config(Seeded):
    """Inputs with two binary factors: kernel ridge regression of one, and of their parity."""

    num_samples: Count = 40  # training inputs
    num_test: Count = 100  # inputs where errors are counted
    dimension: Plural = 10  # inputs d
    strong: Positive = 2.0  # the size of the factor a
    weak: Positive = 1.2  # the size of the factor b
    noise: Positive = 0.3  # standard deviation of every coordinate
    bandwidth: Positive = 0.1  # of similarity, in units of the mean of K(x, x)
    num_folds: Plural = 4  # of cross-validation
    num_seeds: Count = 30  # random datasets

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_samples % self.num_folds:
            raise ValueError(
                f"num_samples must be a multiple of num_folds >= 2, "
                f"got {self.num_samples} and {self.num_folds}."
            )


PRESETS = {
    "smoke": Config(num_test=50, num_seeds=14),
    "paper": Config(num_samples=200, num_test=1000, num_seeds=100),
}


class Result(NamedTuple):
    """Axes: s datasets, k kernels (of a linear network, of a ReLU network), l labelings."""

    plain_error: Float[np.ndarray, "s k l"]  # share of wrong signs at the test inputs, with K
    aware_error: Float[np.ndarray, "s k l"]  # with K^HR
    weight: Float[np.ndarray, "s k l"]  # λ, as chosen
    plain_alignment: Float[np.ndarray, "s k l"]  # of K with the labels of the test inputs
    aware_alignment: Float[np.ndarray, "s k l"]  # of K^HR with them


def memory(config: Config) -> int:
    """Bytes of the similarities of one row with all pairs, and of the kernels."""
    n, m = config.num_samples, config.num_samples + config.num_test
    return 8 * (4 * m * n**2 + 8 * m**2)


def run(config: Config) -> Result:
    """Predict every labeling with and without the labels' kernel."""
    report("kernel ridge regression", 0.0)
    found = _datasets(jax.random.split(jax.random.key(config.seed), config.num_seeds), config)
    return Result(*(np.asarray(values) for values in found))


@partial(jax.jit, static_argnums=1)
def _datasets(keys: Key[Array, " s"], config: Config) -> tuple[Array, ...]:
    return jax.lax.map(lambda key: _dataset(key, config), keys)


def _dataset(key: RandomKey, config: Config) -> tuple[Array, ...]:
    """Plain error, error, weight and the two alignments of each labeling."""
    for_factors, for_noise, for_labels = jax.random.split(key, 3)
    total = config.num_samples + config.num_test
    factors = jax.random.rademacher(for_factors, (total, 2), float)
    noise = config.noise * jax.random.normal(for_noise, (total, config.dimension))
    sizes = jnp.zeros(config.dimension).at[:2].set(jnp.array([config.strong, config.weak]))
    x = noise + jnp.pad(factors, ((0, 0), (0, config.dimension - 2))) * sizes[None, :]
    networks = [mlp([1], activation=activation) for activation in ACTIVATIONS]
    kernels = jnp.stack([infinite_kernels(network, x).ntk for network in networks])
    kernels = kernels / jnp.trace(kernels, axis1=1, axis2=2)[:, None, None] * total
    chance = jax.random.rademacher(for_labels, (total,), float)
    labelings = jnp.stack([factors[:, 0], factors[:, 0] * factors[:, 1], chance])
    one = partial(_labeling, config=config)
    return jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None))(kernels, labelings)


def _labeling(
    kernel: Float[Array, "m m"], labels: Float[Array, " m"], config: Config
) -> tuple[Array, ...]:
    n = config.num_samples
    train, test = _folds(n, config.num_folds)
    losses = jax.vmap(lambda train, test: _losses(kernel, labels, train, test, config)[0])
    chosen = jnp.argmin(losses(train, test).mean(axis=0))
    everything = jnp.arange(n), jnp.arange(n, n + config.num_test)
    _, errors, alignments = _losses(kernel, labels, *everything, config)
    weight = jnp.asarray(WEIGHTS)[chosen]
    return errors[0], errors[chosen], weight, alignments[0], alignments[chosen]


def _folds(num_samples: int, num_folds: int) -> tuple[Int[Array, "f _"], Int[Array, "f _"]]:
    """Training and test places of every fold."""
    places, folds = np.arange(num_samples), range(num_folds)
    train = np.stack([places[places % num_folds != fold] for fold in folds])
    test = np.stack([places[places % num_folds == fold] for fold in folds])
    return jnp.asarray(train), jnp.asarray(test)


def _losses(
    kernel: Float[Array, "m m"],
    labels: Float[Array, " m"],
    train: Array,
    test: Array,
    config: Config,
) -> tuple[Array, Array, Array]:
    """Squared loss, share of errors and alignment on the test places, for every weight."""
    known, y = kernel[train[:, None], train[None, :]], labels[train]
    places = jnp.concatenate([train, test])
    whole = kernel[places[:, None], places[None, :]]
    aware = label_kernel(whole, known, y, config.bandwidth)

    def at(weight: Float[Array, ""]) -> tuple[Array, Array, Array]:
        mixed = hybrid_kernel(whole, aware, weight)
        n = len(train)
        alpha = jnp.linalg.solve(mixed[:n, :n] + RIDGE * jnp.eye(n), y)
        outputs = mixed[n:, :n] @ alpha
        wrong = jnp.mean((outputs * labels[test] <= 0).astype(outputs.dtype))
        loss = jnp.mean((jnp.clip(outputs, -1, 1) - labels[test]) ** 2)
        return loss, wrong, target_alignment(mixed[n:, n:], labels[test])

    return jax.vmap(at)(jnp.asarray(WEIGHTS))


CLAIMS = (
    SOURCE.claim(
        "One kernel does not serve two labelings: the linear one fails at the parity, not at the "
        "factor.",
        lambda r, c: ordered(r.plain_error[:, 0, 0], r.plain_error[:, 0, 1]),
    ),
    SOURCE.claim(
        "With labels it has fewer errors at the parity, dataset by dataset.",
        lambda r, c: ordered(r.aware_error[:, 0, 1], r.plain_error[:, 0, 1]),
    ),
    SOURCE.claim(
        "Cross-validation gives labels a weight there.",
        lambda r, c: median_at_least(r.weight[:, 0, 1], 0.1),
        formula=r"\lambda > 0",
    ),
    SOURCE.claim(
        "The kernel's alignment with the parity of new inputs grows.",
        lambda r, c: ordered(r.plain_alignment[:, 0, 1], r.aware_alignment[:, 0, 1]),
    ),
    SOURCE.claim(
        "At the factor, where the plain kernel is right, at most one error in 50 comes in.",
        lambda r, c: median_at_most(r.aware_error[:, 0, 0] - r.plain_error[:, 0, 0], 0.02),
    ),
    SOURCE.control(
        "The kernel of a ReLU network, which sees the parity by itself, gains nothing from labels.",
        lambda r, c: median_at_least(r.aware_error[:, 1, 1] - r.plain_error[:, 1, 1], -0.02),
    ),
    SOURCE.control(
        "From random labels there is nothing to learn: two of five predictions at least are wrong.",
        lambda r, c: median_at_least(r.aware_error[:, 0, 2], 0.4),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw errors and alignments of every dataset: label-aware over plain, linear kernel."""
    figure, (errors, alignments) = panels("share of errors", "alignment with new labels")
    for number, name in enumerate(LABELINGS):
        pair = result.plain_error[:, 0, number], result.aware_error[:, 0, number]
        errors.plot(*pair, ".", label=name)
        pair = result.plain_alignment[:, 0, number], result.aware_alignment[:, 0, number]
        alignments.plot(*pair, ".", label=name)
    for axis in (errors, alignments):
        axis.axline((0, 0), slope=1, color="#222222", linewidth=0.8)
        axis.set(xlabel="K", ylabel="K^HR")
        axis.legend(fontsize=7)
    return figure
