"""Strong features are learned first: a network grows from a simple one to a complex one.

A mixture of pairs of clusters, one of each label, with masses that fall from pair to pair. The
first gradient of a neuron that sees one cluster is as long as the cluster is heavy, so heavy
pairs are classified first, and light ones one after another. The loss is shown beside that of the
best networks on the k strongest pairs of directions. With equal masses there is no order.

A pair is learned from the step after which its error stays below 10 %.

This is an interpretation of the theory, not a theorem: the network at a time T₁ approximates the
best of few features, and at a later time T₂ the best of more.

Source: shi · simplicity-bias · §B.3.1.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, median_at_least, median_at_most, ordered
from theorylab.data import GaussianMixture
from theorylab.data.mixtures import orthogonal_mixture
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels
from theorylab.features import gradient
from theorylab.fields import Count, OpenFraction, Plural, Positive, Seeded, within
from theorylab.numerics import spearman
from theorylab.progress import report
from theorylab.training import ensemble, logarithmic
from theorylab.typing import Measured, RandomKey

PRECISION = "float32"
FORMULA = r"\text{order of learning} \sim p_j \|\mu_j\|"

ORDER = Source("shi", "simplicity-bias", "§B.3.1")

LEARNED = 0.1  # the error on a pair below which it counts as learned
THRESHOLD = 1.5  # bias over the standard deviation √d of ⟨w, μ⟩
NUM_TEST = 200  # points of every cluster


@dataclass(frozen=True)
class Config(Seeded):
    """Clusters of falling mass, learned online."""

    dimension: Plural = 64
    num_pairs: Count = 5  # of clusters, one of each label, so that no label is right for free
    ratio: OpenFraction = 0.5  # mass of a pair over that of the one before
    noise: Positive = 1.0  # standard deviation of a cluster; means are √d long
    width: Count = 100  # m, a quarter of the neurons
    num_steps: Annotated[int, within(10)] = 1000
    learning_rate: Positive = 0.05
    batch_size: Count = 300  # fresh samples in every step

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 3 <= self.num_pairs < self.dimension / 2:
            raise ValueError(
                "num_pairs must be at least 3 and below half of dimension, "
                f"got {self.num_pairs} and {self.dimension}."
            )

    @property
    def steps(self) -> np.ndarray:
        """When the network is measured."""
        return logarithmic(self.num_steps, count=60)[1:]

    @property
    def masses(self) -> np.ndarray:
        """p_j of every pair, which fall."""
        falling = self.ratio ** np.arange(self.num_pairs)
        return falling / falling.sum()


PRESETS = {
    "smoke": Config(
        dimension=32, num_pairs=4, width=40, num_steps=300, batch_size=150, num_seeds=6
    ),
    "paper": Config(dimension=256, num_pairs=10, width=1000, num_steps=20000),
}


class Result(NamedTuple):
    """What was measured: seeds (s), steps (t), pairs of clusters (r), strongest first."""

    errors: Float[Measured, "s t r"]  # on every pair
    losses: Float[Measured, "s t"]  # hinge loss on the law
    times: Float[Measured, "s r"]  # when a pair is learned; the last step if never
    agreement: Float[Measured, " s"]  # rank correlation of strength and earliness
    control: Float[Measured, " s"]  # the same with equal masses, in the same order
    optimum: Float[Measured, " r"]  # OPT on the strongest 1, 2, … pairs of directions


def memory(config: Config) -> int:
    """Bytes of samples and test samples with their hidden layers, of neurons, and of records."""
    samples = config.batch_size + 2 * NUM_TEST * config.num_pairs
    numbers = samples * (4 * config.dimension + 12 * config.width)
    numbers += config.dimension * (16 * config.width + 4 * config.num_pairs)
    return 4 * (2 * numbers + 4 * config.num_steps + 400 * config.num_seeds * config.num_pairs)


def run(config: Config) -> Result:
    """Train with falling and with equal masses, and solve for the best networks."""
    r = config.num_pairs
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    falling = config.ratio ** jnp.arange(r)
    falling, equal = (
        orthogonal_mixture(2 * r, config.dimension, 1.0, config.noise, jnp.repeat(mass / 2, 2))
        for mass in (falling / falling.sum(), jnp.full(r, 1 / r))
    )
    report("falling masses", 0.0)
    errors = np.asarray(ensemble(partial(_errors, law=falling, config=config), keys))
    report("equal masses", 0.45)
    others = np.asarray(ensemble(partial(_errors, law=equal, config=config), keys))
    report("the best networks", 0.9)
    times, other_times = (_times(config.steps, each[:, :, :r]) for each in (errors, others))
    return Result(
        errors=errors[:, :, :r],
        losses=errors[:, :, r],
        times=times,
        agreement=_agreement(times),
        control=_agreement(other_times),
        optimum=_optima(keys[0], falling),
    )


def _errors(key: RandomKey, law: GaussianMixture, config: Config) -> Float[Array, "t r"]:
    """Errors on all pairs and the hinge loss, at the recorded steps."""
    train_key, test_key = jax.random.split(key)
    r, d = law.means.shape
    noise = jax.random.normal(test_key, (r * NUM_TEST * d,))
    points = law.means[:, None, :] + config.noise * jnp.reshape(noise, (r, NUM_TEST, d))
    flat = jnp.reshape(points, (r * NUM_TEST, d))

    def measure(network: gradient.ReluNetwork) -> Float[Array, " r"]:
        margins = law.labels[:, None] * jnp.reshape(network(flat), (r, NUM_TEST))
        loss = law.probabilities @ jax.vmap(gradient.margin_loss)(margins).mean(axis=1)
        wrong = jnp.reshape(margins <= 0, (r // 2, 2 * NUM_TEST))
        return jnp.append(wrong.mean(axis=1), loss)

    # A neuron that sees one cluster of mean mass has ‖G‖ = √d/r, and is then active on it.
    rates = {"first_rate": 4 * r / d, "rate": config.learning_rate}
    recipe = gradient.OnlineRecipe(config.width, config.batch_size, **rates)
    ratio = THRESHOLD * d**0.5
    return gradient.learn_online(
        train_key, law.sample, d, ratio, recipe, config.steps, measure
    ).records


def _times(steps: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """The first recorded step from which on a pair's error stays below `LEARNED`."""
    below = np.flip(np.logical_and.accumulate(np.flip(errors < LEARNED, axis=1), axis=1), axis=1)
    first = steps[below.argmax(axis=1)]
    return np.where(below.any(axis=1), first, steps[-1]).astype(float)


def _agreement(times: np.ndarray) -> np.ndarray:
    """Rank correlation of strength and earliness in every seed; 0 if all are learned at once."""
    places = np.arange(times.shape[1], dtype=float)
    return np.nan_to_num([spearman(places, row).estimate for row in times])


def _optima(key: RandomKey, law: GaussianMixture) -> np.ndarray:
    """OPT on the strongest k pairs of directions, on a sample in the span of the means."""
    r = len(law.labels)
    points = gradient.empirical_law(law._replace(means=law.means[:, :r]).sample(key, 500))
    biases = float(law.dimension) ** 0.5 * jnp.array([0.25, 0.5, 0.75])
    solve = jax.jit(partial(gradient.direction_optimum, norm_bound=float(r), num_steps=500))
    # Directions that are not offered are offered as zeros: one program for all k.
    offered = jnp.stack([jnp.eye(r) * (jnp.arange(r) <= k)[:, None] for k in range(1, r, 2)])
    return np.array([float(solve(each, biases, points).loss) for each in offered])


def _untracked(result: Result) -> np.ndarray:
    """How much the loss lacks to begin above the best of one pair, or to end below all but one."""
    begun = result.optimum[0] - result.losses[:, 0]
    return np.maximum(begun, result.losses[:, -1] - result.optimum[-2])


CLAIMS = (
    ORDER.claim(
        "The loss begins above the best on one pair, and ends below the best on all but one.",
        lambda r, c: median_at_most(_untracked(r), 0.0),
        quote="first learn to approximate the best network in a smaller family",
    ),
    ORDER.claim(
        "Stronger pairs are learned earlier: the rank correlation is at least 0.8.",
        lambda r, c: median_at_least(r.agreement, 0.8),
        quote="the learning first learns simpler functions and then more sophisticated ones",
        demand="lab: 0.8, chosen for this experiment; the runs it was set on were not kept",
    ),
    ORDER.found(
        "The strongest pair is learned at least twice as early as the weakest.",
        lambda r, c: median_at_least(r.times[:, -1] / r.times[:, 0], 2.0),
    ),
    ORDER.control(
        "With equal masses the order is found less, start by start.",
        lambda r, c: ordered(r.control, r.agreement),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Errors on every pair over time, and the loss beside the best ones of few features."""
    figure, axes = panels("error on every pair", "loss and the best of k features")
    strengths = config.masses / 2 * config.dimension**0.5
    pairs = {
        f"p‖μ‖ = {strength:.2g}": result.errors[:, :, place]
        for place, strength in enumerate(strengths)
    }
    curves(axes[0], config.steps, pairs)
    label_axes(axes[0], "step", "error", "x")
    curves(axes[1], config.steps, {"network": result.losses})
    for best in result.optimum:
        axes[1].axhline(best, **THEORY)
    label_axes(axes[1], "step", "hinge loss", "x")
    return figure
