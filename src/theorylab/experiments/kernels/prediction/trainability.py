"""The condition number of the initial tangent kernel ranks networks by how well they will train.

A population of fully connected networks is drawn: depth, activation, skip connections and the scale
of the weights vary. Before any training, each has a condition number, κ = λ_m/λ₁, the ratio of the
smallest to the largest eigenvalue of its tangent kernel on m samples. Then each is trained for the
same number of steps, with the same fraction of its largest stable learning rate. Networks of small
κ fit badly: gradient descent is as slow as its slowest mode. They do not generalise badly: with so
few digits, the accuracy on held-out ones falls with κ. (The source's population is that of
NAS-Bench-201: convolutional cells.)

Source: golikov · ntk-nas · 2.6.1.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from matplotlib.figure import Figure
from scipy.stats import rankdata

from theorylab.claims import (
    Finding,
    Source,
    median_at_least,
    median_between,
    ordered,
    probability_at_least,
)
from theorylab.data import digits
from theorylab.experiments.drawing import label_axes, paired_bars, panels
from theorylab.fields import Count, OpenFraction, Plural, Seeded, within
from theorylab.kernels import ntk
from theorylab.kernels.trainability import trainability
from theorylab.models import activation
from theorylab.progress import report
from theorylab.training import descend, ensemble, gradient_descent, squared
from theorylab.typing import Params, RandomKey

PRECISION = "float64"
FORMULA = r"\kappa = \lambda_m / \lambda_1, \qquad \text{slowest mode: } (1 - \eta\lambda_m)^t"
PROXY = Source("golikov", "ntk-nas", "2.6.1")

ACTIVATIONS = ("relu", "tanh", "gelu", "sine")
LOSS = squared("half_sum")
NUM_TEST = 200  # held-out digits


@dataclass(frozen=True)
class Config(Seeded):
    """Populations of random networks, their κ at initialisation and their loss after training."""

    num_cells: Annotated[int, within(10)] = 60  # networks in a population
    num_seeds: Plural = 10  # populations
    num_samples: Annotated[int, within(1, 1597)] = 40  # digits m that are trained on
    width: Count = 64  # of every hidden layer
    max_depth: Count = 6  # hidden layers at most
    num_steps: Count = 150  # of gradient descent
    learning_rate: OpenFraction = 0.5  # in units of the largest stable one, 2/λ₁


PRESETS = {
    "smoke": Config(
        num_cells=40, num_seeds=14, num_samples=20, width=24, max_depth=5, num_steps=50
    ),
    "paper": Config(num_cells=500, num_seeds=20, num_samples=64, width=512, max_depth=12),
}


class Result(NamedTuple):
    """Axes: s populations, c networks in each. Correlations are Spearman's, over a population."""

    trainability: Float[np.ndarray, "s c"]  # κ before training
    loss: Float[np.ndarray, "s c"]  # after training, in units of the first; inf if it diverged
    accuracy: Float[np.ndarray, "s c"]  # on held-out digits
    depth: Int[np.ndarray, "s c"]
    rank_correlation: Float[np.ndarray, " s"]  # of κ and −loss
    shuffled_correlation: Float[np.ndarray, " s"]  # with the κ of the other populations
    performance_correlation: Float[np.ndarray, " s"]  # of −loss and accuracy
    proxy_correlation: Float[np.ndarray, " s"]  # of κ and accuracy
    worst_dropped: int  # of the worst tenth, those with κ below their population's median
    num_worst: int


class Cell(NamedTuple):
    """What a network is: one of a family that one compiled program computes."""

    depth: Int[Array, ""]
    activation: Int[Array, ""]
    skip: Float[Array, ""]  # 1: every layer is added to its input
    weight_scale: Float[Array, ""]


def memory(config: Config) -> int:
    """Bytes of the Jacobians of two networks, one on each core."""
    weights = config.width * (64 + config.max_depth * config.width + 1)
    return 2 * 8 * 3 * config.num_samples * weights


def run(config: Config) -> Result:
    """Draw populations, measure κ, train."""
    report("digits", 0.0)
    key = jax.random.key(config.seed)
    data_key, cell_key = jax.random.split(key)
    x, y = _task(data_key, config.num_samples + NUM_TEST)
    report("networks", 0.05)
    keys = jax.random.split(cell_key, config.num_seeds * config.num_cells)
    found = ensemble(partial(_one, config, x, y), keys)
    shape = (config.num_seeds, config.num_cells)
    kappa, loss, accuracy, depth = (np.asarray(values).reshape(shape) for values in found)
    loss = np.where(np.isfinite(loss), loss, np.inf)
    report("ranks", 0.95)
    worst = loss >= np.sort(loss, axis=1)[:, -(config.num_cells // 10), None]
    return Result(
        trainability=kappa,
        loss=loss,
        accuracy=accuracy,
        depth=depth,
        rank_correlation=_spearman(kappa, -loss),
        shuffled_correlation=_with_others(kappa, -loss),
        performance_correlation=_spearman(-loss, accuracy),
        proxy_correlation=_spearman(kappa, accuracy),
        worst_dropped=int(np.sum(worst & (kappa < np.median(kappa, axis=1, keepdims=True)))),
        num_worst=int(np.sum(worst)),
    )


def _task(key: RandomKey, num_samples: int) -> tuple[Float[Array, "m d"], Float[Array, "m 1"]]:
    """Digits of length √d, and whether they are odd."""
    data = digits(scaling="sphere").shuffled(key).subset(slice(num_samples))
    odd = jnp.argmax(data.y, axis=1) % 2
    return jnp.sqrt(data.x.shape[1]) * data.x, (2.0 * odd - 1.0)[:, None]


class Trained(NamedTuple):
    """What is known of a network: before training, after it, and its depth."""

    trainability: Float[Array, ""]
    loss: Float[Array, ""]
    accuracy: Float[Array, ""]
    depth: Int[Array, ""]


def _one(config: Config, x: Float[Array, "m d"], y: Float[Array, "m 1"], key: RandomKey) -> Trained:
    """Draw a random network of the family and train it on the first samples."""
    for_cell, for_weights = jax.random.split(key)
    cell = _draw(for_cell, config.max_depth)
    params = _init(for_weights, config, x.shape[1])
    apply, n = partial(_apply, cell), config.num_samples
    kernel = ntk(apply, params, x[:n])
    start = apply(params, x)
    step = config.learning_rate * 2 / jnp.linalg.eigvalsh(kernel)[-1]

    def objective(params: Params) -> Float[Array, ""]:
        # All begin at the output 0, with one loss.
        return LOSS(apply(params, x[:n]) - start[:n], y[:n])

    end = descend(objective, params, gradient_descent(step), [config.num_steps], objective)
    right = (apply(end.params, x[n:]) - start[n:]) * y[n:] > 0
    return Trained(
        trainability=trainability(kernel),
        loss=end.records[-1] / LOSS(jnp.zeros_like(y[:n]), y[:n]),
        accuracy=jnp.mean(right.astype(y.dtype)),
        depth=cell.depth,
    )


def _draw(key: Key[Array, ""], max_depth: int) -> Cell:
    keys = jax.random.split(key, 4)
    return Cell(
        depth=jax.random.randint(keys[0], (), 1, max_depth + 1),
        activation=jax.random.randint(keys[1], (), 0, len(ACTIVATIONS)),
        skip=jax.random.bernoulli(keys[2]).astype(float),
        weight_scale=jnp.exp(jax.random.uniform(keys[3], (), minval=-0.7, maxval=1.1)),
    )


def _init(key: RandomKey, config: Config, dimension: int) -> Params:
    first, hidden, last = jax.random.split(key, 3)
    width = config.width
    return {
        "first": jax.random.normal(first, (dimension, width)),
        "hidden": jax.random.normal(hidden, (config.max_depth - 1, width, width)),
        "last": jax.random.normal(last, (width, 1)),
    }


def _apply(cell: Cell, params: Params, x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
    """The network in the NTK parametrization; layers beyond its depth are the identity."""
    functions = [activation(name) for name in ACTIVATIONS]

    def layer(h: Array, weight: Array) -> Array:
        h = jax.lax.switch(cell.activation, functions, h)
        return cell.weight_scale / jnp.sqrt(len(weight)) * (h @ weight)

    def hidden(h: Array, numbered: tuple[Array, Array]) -> tuple[Array, None]:
        number, weight = numbered
        return jnp.where(number < cell.depth, layer(h, weight) + cell.skip * h, h), None

    h = cell.weight_scale / jnp.sqrt(x.shape[1]) * (x @ params["first"])
    numbers = jnp.arange(1, len(params["hidden"]) + 1)
    h, _ = jax.lax.scan(hidden, h, (numbers, params["hidden"]))
    return layer(h, params["last"])


def _spearman(first: Float[np.ndarray, "s c"], second: Float[np.ndarray, "s c"]) -> np.ndarray:
    """Spearman's rank correlation in every row."""
    pairs = zip(rankdata(first, axis=1), rankdata(second, axis=1), strict=True)
    return np.array([np.corrcoef(one, other)[0, 1] for one, other in pairs])


def _with_others(first: Float[np.ndarray, "s c"], second: Float[np.ndarray, "s c"]) -> np.ndarray:
    """The mean correlation of every row with all other rows' numbers."""
    shifts = range(1, len(first))
    return np.mean([_spearman(np.roll(first, shift, axis=0), second) for shift in shifts], axis=0)


def _positive(correlation: Float[np.ndarray, " s"]) -> Finding:
    return ordered(np.zeros_like(correlation), correlation)


CLAIMS = (
    PROXY.claim(
        "Trainability correlates positively with the condition number κ before training.",
        lambda r, c: _positive(r.rank_correlation),
        quote="trainability correlates with NTK condition number",
        formula=r"\rho_S(\kappa, -\text{loss}) > 0",
    ),
    PROXY.claim(
        "Performance correlates positively with trainability.",
        lambda r, c: _positive(r.performance_correlation),
        quote="performance correlates with trainability",
        regime="num_samples >= 40 and num_cells >= 60",
        expected="inconclusive",
        why="With tens of training digits almost every network that fits them overfits; the source"
        " speaks of networks trained on all of CIFAR-10 and ImageNet.",
    ),
    PROXY.claim(
        "A small condition number implies low performance: κ correlates with held-out accuracy.",
        lambda r, c: _positive(r.proxy_correlation),
        quote="small condition number implies low trainability and thus, by the first hypothesis",
        expected="refuted",
        why="With tens of training digits, networks of large κ fit best and generalise worst: large"
        " weights and few layers. The source's population, trained on CIFAR-10, would be needed.",
    ),
    PROXY.found(
        "The rank correlation of κ with minus the training loss is above 0.4.",
        lambda r, c: median_at_least(r.rank_correlation, 0.4),
        demand="lab: chosen before the first run",
    ),
    PROXY.found(
        "Keeping the half with the larger κ drops more than half of those that train worst.",
        lambda r, c: probability_at_least(r.worst_dropped, r.num_worst, 0.5),
        demand="derived: a κ that tells nothing drops one half",
    ),
    PROXY.control(
        "The κ of other networks tells nothing.",
        lambda r, c: median_between(r.shuffled_correlation, -0.25, 0.25),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Loss over κ, coloured by depth; and the correlations."""
    figure, (scatter, bars) = panels("loss after training", "rank correlations")
    shown = np.isfinite(result.loss)
    dots = scatter.scatter(
        np.maximum(result.trainability[shown], 1e-17),
        np.clip(result.loss[shown], 1e-17, 1e3),
        c=result.depth[shown],
        s=8,
        cmap="viridis",
        vmin=1,
    )
    figure.colorbar(dots, ax=scatter, label="depth")
    label_axes(scatter, "κ = λ_m/λ₁ before training", "loss", logarithmic="xy")
    named = {
        "κ, loss": result.rank_correlation,
        "loss, accuracy": result.performance_correlation,
        "κ, accuracy": result.proxy_correlation,
        "another's κ": result.shuffled_correlation,
    }
    paired_bars(bars, named)
    return figure
