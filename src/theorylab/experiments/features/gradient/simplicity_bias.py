"""Strong features are learned first: a network grows from a simple one to a complex one.

A mixture of pairs of clusters, one of each label, with masses that fall from pair to pair. The
first gradient of a neuron that sees one cluster is as long as the cluster is heavy, so heavy
pairs are classified first, and light ones one after another. The loss is shown beside that of the
best networks on the k strongest pairs of directions. With equal masses there is no order.

A pair is learned from when on its error stays below 10 %.

This is an interpretation of the theory, not a theorem: the network at a time T₁ approximates the
best of few features, and at a later time T₂ the best of more.

Source: shi · simplicity-bias · §B.3.1.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, median_at_least, median_at_most, ordered
from theorylab.data import GaussianMixture
from theorylab.data.mixtures import orthogonal_mixture
from theorylab.experiments.checks import refuse_nonpositive
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features.gradient import (
    FiniteLaw,
    OnlineRecipe,
    ReluNetwork,
    direction_optimum,
    learn_online,
    margin_loss,
)
from theorylab.numerics import spearman
from theorylab.progress import report
from theorylab.training import ensemble, logarithmic
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"\text{order of learning} \sim p_j \|\mu_j\|"

ORDER = Source("shi", "simplicity-bias", "§B.3.1")
LEARNED = 0.1  # the error on a pair below which it counts as learned


@dataclass(frozen=True)
class Config:
    """Clusters of falling mass, learned online."""

    dimension: int = 64
    num_pairs: int = 5  # of clusters, one of each label, so that no label is right for free
    ratio: float = 0.5  # mass of a pair over that of the one before
    noise: float = 1.0  # standard deviation of a cluster; means are √d long
    threshold: float = 1.5  # bias over the standard deviation √d of ⟨w, μ⟩
    width: int = 100  # m, a quarter of the neurons
    num_steps: int = 1000
    rate: float = 0.05
    num_samples: int = 300  # fresh ones in every step
    num_seeds: int = 10  # at least 6 to conclude
    seed: int = 0

    def __post_init__(self) -> None:
        if not 3 <= self.num_pairs < self.dimension / 2 <= 10**5:
            raise ValueError(
                "num_pairs must be at least 3 and below half of dimension, "
                f"got {self.num_pairs} and {self.dimension}."
            )
        if not 0 < self.ratio < 1:
            raise ValueError(f"ratio must be in (0, 1), got {self.ratio}.")
        refuse_nonpositive(self, "noise", "threshold", "rate")
        for name in ("width", "num_samples", "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**7:
                raise ValueError(f"{name} must be from 1 to 10^7, got {getattr(self, name)}.")
        if not 10 <= self.num_steps <= 10**7:
            raise ValueError(f"num_steps must be from 10 to 10^7, got {self.num_steps}.")


PRESETS = {
    "smoke": Config(
        dimension=32, num_pairs=4, width=40, num_steps=300, num_samples=150, num_seeds=6
    ),
    "paper": Config(dimension=256, num_pairs=10, width=1000, num_steps=20000),
}


class Result(NamedTuple):
    """What was measured: seeds (s), steps (t), pairs of clusters (r), strongest first."""

    steps: Int[np.ndarray, " t"]
    strengths: Float[np.ndarray, " r"]  # p_j‖μ_j‖
    errors: Float[np.ndarray, "s t r"]  # on every pair
    losses: Float[np.ndarray, "s t"]  # hinge loss on the law
    times: Float[np.ndarray, "s r"]  # when a pair is learned; the last step if never
    agreement: Float[np.ndarray, " s"]  # rank correlation of strength and earliness
    control: Float[np.ndarray, " s"]  # the same with equal masses, in the same order
    optimum: Float[np.ndarray, " r"]  # OPT on the strongest 1, 2, … pairs of directions


def memory(config: Config) -> int:
    """Bytes of the hidden layer on samples, and on test samples of all clusters."""
    return 4 * 2 * 3 * 4 * config.width * (config.num_samples + 400 * config.num_pairs)


def run(config: Config) -> Result:
    """Train with falling and with equal masses, and solve for the best networks."""
    r, d = config.num_pairs, config.dimension
    falling = config.ratio ** jnp.arange(r)
    masses = (falling / falling.sum(), jnp.full(r, 1 / r))
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    laws = [
        orthogonal_mixture(2 * r, d, 1.0, config.noise, jnp.repeat(mass / 2, 2)) for mass in masses
    ]
    learned = []
    for place, law in enumerate(laws):
        report(("falling masses", "equal masses")[place], 0.45 * place)
        learned.append(ensemble(partial(_errors, law=law, config=config), keys))
    report("the best networks", 0.9)
    errors, others = (np.asarray(found) for found in learned)
    steps = _steps(config)
    times, other_times = _times(steps, errors[:, :, :r]), _times(steps, others[:, :, :r])
    return Result(
        steps=steps,
        strengths=np.asarray(masses[0]) / 2 * d**0.5,
        errors=errors[:, :, :r],
        losses=errors[:, :, r],
        times=times,
        agreement=_agreement(times),
        control=_agreement(other_times),
        optimum=_optima(keys[0], laws[0]),
    )


def _steps(config: Config) -> np.ndarray:
    return logarithmic(config.num_steps, count=60)[1:]


def _errors(key: RandomKey, law: GaussianMixture, config: Config) -> jax.Array:
    """Errors on all pairs and the hinge loss, at the recorded steps: (t, pairs + 1)."""
    train_key, test_key = jax.random.split(key)
    r, d = law.means.shape
    noise = jax.random.normal(test_key, (r * 200 * d,))
    points = law.means[:, None, :] + config.noise * jnp.reshape(noise, (r, 200, d))
    flat = jnp.reshape(points, (r * 200, d))

    def measure(network: ReluNetwork) -> jax.Array:
        margins = law.labels[:, None] * jnp.reshape(network(flat), (r, 200))
        loss = law.probabilities @ jax.vmap(margin_loss)(margins).mean(axis=1)
        wrong = jnp.reshape(margins <= 0, (r // 2, 400))
        return jnp.append(wrong.mean(axis=1), loss)

    # A neuron that sees one cluster of mean mass has ‖G‖ = √d/r, and is then active on it.
    recipe = OnlineRecipe(config.width, config.num_samples, first_rate=4 * r / d, rate=config.rate)
    return learn_online(
        train_key, law.sample, d, config.threshold * d**0.5, recipe, _steps(config), measure
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
    data = law._replace(means=law.means[:, :r]).sample(key, 500)
    points = FiniteLaw(data.x, data.y[:, 0], jnp.full(500, 1 / 500))
    biases = float(law.dimension) ** 0.5 * jnp.array([0.25, 0.5, 0.75])
    solve = jax.jit(partial(direction_optimum, norm_bound=float(r), num_steps=500))
    # Directions that are not offered are offered as zeros: one program for all k.
    offered = jnp.stack([jnp.eye(r) * (jnp.arange(r) <= k)[:, None] for k in range(1, r, 2)])
    return np.array([float(solve(each, biases, points).loss) for each in offered])


def _untracked(result: Result) -> np.ndarray:
    """How much the loss lacks to begin above the best of one pair, or to end below all but one."""
    begun = result.optimum[0] - result.losses[:, 0]
    return np.maximum(begun, result.losses[:, -1] - result.optimum[-2])


CLAIMS = (
    Claim(
        "Stronger pairs are learned earlier: the rank correlation is at least 0.8.",
        judge=lambda r, c: median_at_least(r.agreement, 0.8),
        source=ORDER,
    ),
    Claim(
        "The loss begins above the best on one pair, and ends below the best on all but one.",
        judge=lambda r, c: median_at_most(_untracked(r), 0.0),
        source=ORDER,
    ),
    Claim(
        "The strongest pair is learned at least twice as early as the weakest.",
        judge=lambda r, c: median_at_least(r.times[:, -1] / r.times[:, 0], 2.0),
        source=ORDER,
    ),
    Claim(
        "With equal masses the order is found less, start by start.",
        judge=lambda r, c: ordered(r.control, r.agreement),
        source=ORDER,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Errors on every cluster over time, and the loss beside the best ones of few features."""
    figure, axes = panels("error on every pair", "loss and the best of k features")
    for place, strength in enumerate(result.strengths):
        curve = result.errors[:, :, place].mean(axis=0)
        axes[0].semilogx(result.steps, curve, label=f"p‖μ‖ = {strength:.2g}")
    axes[0].set(xlabel="step", ylabel="error")
    axes[0].legend(fontsize=7)
    axes[1].semilogx(result.steps, result.losses.mean(axis=0), label="network")
    for best in result.optimum:
        axes[1].axhline(best, **THEORY)
    axes[1].set(xlabel="step", ylabel="hinge loss")
    return figure
