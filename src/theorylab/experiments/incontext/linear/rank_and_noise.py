"""Linear attention of a larger rank is worse where the task needs few directions.

Attention of rank r, at its optimum of pre-training, reads M examples with label noise σ. Its risk
is known exactly. Every direction it reads costs (‖w‖²_Λ + σ²)/M, whether the task needs it or not:
if the task lies in the first r directions, a larger model is worse; if it has a little in all of
them, the best rank falls with the noise and grows with the number of examples. The same order is
seen in models that are trained on prompts.

Source: shi · rank-behaviour · Theorems 5.4.2, 5.4.3.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, holds, identity, ordered
from theorylab.experiments.drawing import THEORY, beside_theory, label_axes, panels
from theorylab.fields import AboveOne, Count, Increasing, NonNegative, Seeded, within
from theorylab.incontext import Pretraining, pretrain, rank_risk, regression_prompts, task_risk
from theorylab.incontext.linear_attention import summaries
from theorylab.incontext.linear_risk import approximate_rank_risk, rank_gap, shrinkage
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = r"R(A_{r'}) - R(A_r) = \frac{\|s\|_D^2 + \sigma^2}{M} \sum_{i=r+1}^{r'} (\lambda_i v_i)^2"

RISK = Source("shi", "rank-behaviour", "Theorem 5.4.2")
GAP = Source("shi", "rank-behaviour", "Theorem 5.4.3")
TOGETHER = 50000  # prompts that are drawn at once


@dataclass(frozen=True)
class Config(Seeded):
    """Risks over ranks, noises and lengths of prompts, for a geometric spectrum."""

    dimension: Annotated[int, within(2, 64)] = 8  # d
    ratio: AboveOne = 1.4  # of neighbouring eigenvalues
    pretraining_examples: Count = 40  # N
    ranks: Increasing[Count] = (1, 2, 4, 6, 8)  # r; the first and last are trained
    noises: Increasing[NonNegative] = (0.0, 0.5, 1.0, 2.0, 4.0)  # σ
    examples: Increasing[Count] = (8, 16, 32, 64)  # M
    num_prompts: Annotated[int, within(100)] = 40000  # of every length, for sampled risks
    num_seeds: Count = 6  # trained models of each rank, at least 6 to conclude
    num_steps: Count = 1500  # of training
    batch_size: Count = 128  # prompts in a step

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ranks[-1] > self.dimension:
            raise ValueError(f"ranks must be at most the dimension, got {self.ranks}.")

    @property
    def spectrum(self) -> Float[Array, " d"]:
        """λ_i, geometric from 1 on."""
        return self.ratio ** -jnp.arange(self.dimension)

    @property
    def tasks(self) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """A task with something in all directions, and one in the first rank's only."""
        wide = jnp.ones(self.dimension) / jnp.sqrt(1.0 + jnp.arange(self.dimension))
        return wide, jnp.where(jnp.arange(self.dimension) < self.ranks[0], wide, 0.0)


PRESETS = {
    "smoke": Config(
        dimension=4,
        ratio=1.5,
        pretraining_examples=10,
        ranks=(1, 2, 4),
        noises=(0.0, 1.0, 3.0),
        examples=(8, 16),
        num_prompts=2000,
        num_steps=150,
        batch_size=32,
    ),
    "paper": Config(dimension=20, pretraining_examples=200, num_prompts=400000, num_steps=20000),
}


class Result(NamedTuple):
    """Axes: ranks (r), noises (a), numbers of examples (m), seeds (s)."""

    risk: Float[Measured, "r a m"]  # the theorem's, for a task with something everywhere
    sampled: Float[Measured, "r a m"]
    error: Float[Measured, "r a m"]  # standard errors of the sampled risks
    wrong_scale: Float[Measured, "r a m"]  # sampled with ρ = N at evaluation
    narrow: Float[Measured, "r a m"]  # the theorem's, for a task of the first rank's directions
    gap: Float[Measured, "r a m"]  # the theorem's gap to the first rank, for that task
    exact: Float[Measured, " r"]  # risks after very long pre-training
    approximate: Float[Measured, " r"]  # and the approximation there
    best: Int[Measured, "a m"]  # rank with the least risk, among all
    trained: Float[Measured, "2 s"]  # narrow task, first and last rank: risk with noise
    quiet: Float[Measured, "2 s"]  # task with something everywhere, no noise, long prompts


def run(config: Config) -> Result:
    """Compute and sample risks of the optimum, then train models."""
    report("risks of the optimum", 0.0)
    everything, narrow, gap, exact, approximate = _theory(config)
    sampled = [_sampled(config, m, place) for place, m in enumerate(config.examples)]
    report("training models", 0.4)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    ends = (config.ranks[0], config.ranks[-1])
    tasks = config.tasks
    runs = [ensemble(lambda key, r=rank: _trained(key, r, tasks, config), keys) for rank in ends]
    return Result(
        risk=everything[jnp.array(config.ranks) - 1],
        **jax.tree.map(lambda *lengths: jnp.stack(lengths, axis=2), *sampled),
        narrow=narrow,
        gap=gap,
        exact=exact[:, -1, 0],
        approximate=approximate[:, -1, 0],
        best=1 + everything.argmin(axis=0),
        **jax.tree.map(lambda *ranks: jnp.stack(ranks), *runs),
    )


def _theory(config: Config) -> list[Float[Array, "r a m"]]:
    """What the theorems say: the wide task, the narrow one, limits."""
    spectrum, n, ranks = config.spectrum, config.pretraining_examples, config.ranks
    every = range(1, config.dimension + 1)
    (wide, narrow), lengths = config.tasks, jnp.array(config.examples, float)
    noises, lengths = jnp.meshgrid(jnp.array(config.noises), lengths, indexing="ij")

    @partial(jnp.vectorize, signature="(),()->(a),(r),(r),(r),(r)")
    def cell(noise: Array, m: Array) -> tuple[Array, ...]:
        return (
            jnp.stack([rank_risk(spectrum, wide, r, n, m, noise) for r in every]),
            jnp.stack([rank_risk(spectrum, narrow, r, n, m, noise) for r in ranks]),
            jnp.stack([rank_gap(spectrum, narrow, (ranks[0], r), n, m, noise) for r in ranks]),
            jnp.stack([rank_risk(spectrum, wide, r, 1e9, m, noise) for r in ranks]),
            jnp.stack([approximate_rank_risk(spectrum, wide, r, m, noise) for r in ranks]),
        )

    return [jnp.moveaxis(part, 2, 0) for part in jax.jit(cell)(noises, lengths)]


def _sampled(config: Config, m: int, place: int) -> dict[str, Float[Array, "r a"]]:
    """Mean risks, their standard errors, and risks with ρ = N, from the same prompts for all."""
    n, spectrum = config.pretraining_examples, config.spectrum
    kept = jnp.arange(config.dimension)[None, :] < jnp.array(config.ranks)[:, None]
    matrices = kept * shrinkage(spectrum, n)[None, :]
    noises = jnp.array(config.noises)

    def answered(key: RandomKey, task: Float[Array, " d"], count: int) -> tuple[Array, Array]:
        """Predictions on prompts, (r, a, prompts), and their targets."""
        clean_key, noise_key = jax.random.split(key)
        prompts = regression_prompts(clean_key, count, m, jnp.diag(spectrum), weights=task)
        noise = jax.random.normal(noise_key, prompts.y.shape)
        both = [summaries(prompts), summaries(prompts._replace(y=noise))]
        parts = [jnp.einsum("bd,rd,bd->rb", part, matrices, prompts.query) for part in both]
        return parts[0][:, None] + noises[None, :, None] * parts[1][:, None], prompts.target

    @jax.jit
    def measure(key: RandomKey, task: Float[Array, " d"]) -> dict[str, Array]:
        if config.num_prompts <= TOGETHER:
            predicted, target = answered(key, task, config.num_prompts)
        else:
            keys = jax.random.split(key, -(-config.num_prompts // TOGETHER))
            blocks, targets = jax.lax.map(lambda key: answered(key, task, TOGETHER), keys)
            joined = jnp.moveaxis(blocks, 0, 2).reshape(*blocks.shape[1:3], -1)
            predicted = joined[..., : config.num_prompts]
            target = targets.ravel()[: config.num_prompts]
        target = target[None, None, :]
        losses = (predicted - target) ** 2
        return {
            "sampled": losses.mean(axis=2),
            "error": losses.std(axis=2, ddof=1) / jnp.sqrt(config.num_prompts),
            "wrong_scale": ((predicted * m / n - target) ** 2).mean(axis=2),
        }

    return measure(jax.random.fold_in(jax.random.key(config.seed), place), config.tasks[0])


def _trained(
    key: RandomKey, rank: int, tasks: tuple[Array, Array], config: Config
) -> dict[str, Array]:
    """Exact risks of a model trained on prompts: with noise, and without."""
    (wide, narrow), covariance = tasks, jnp.diag(config.spectrum)
    recipe = Pretraining(config.num_steps, config.batch_size, config.pretraining_examples)
    matrix = pretrain(key, rank, covariance, recipe).matrix
    noisy = task_risk(matrix, narrow, covariance, config.examples[0], config.noises[-1])
    return {"trained": noisy, "quiet": task_risk(matrix, wide, covariance, 1e6)}


def _deviations(result: Result, sampled: np.ndarray) -> np.ndarray:
    """How far sampled risks are from the theorem's, in standard errors."""
    return np.abs(sampled - result.risk) / result.error


CLAIMS = (
    RISK.claim(
        "The sampled risk is the theorem's within 4 standard errors, in every cell.",
        lambda r, c: at_most(_deviations(r, r.sampled).max(), 4.0),
        demand="derived: 100 Gaussian deviates exceed 4 standard errors with probability 6e-3",
    ),
    GAP.claim(
        "The gap formula is the difference of the risks, to 10⁻¹⁰.",
        lambda r, c: identity(r.narrow - r.narrow[:1], r.gap, 1e-10),
        formula=FORMULA,
    ),
    RISK.claim(
        "After long pre-training the risk is ‖ξ‖² + ((r + 1)‖s‖² + r‖ξ‖² + rσ²)/M.",
        lambda r, c: identity(r.exact, r.approximate, 1e-6),
        demand="derived: at N = 10⁹ the terms of order tr Λ/Nλ_r that are left out are below 10⁻⁶",
    ),
    GAP.claim(
        "Where the task needs few directions, every larger rank is worse, at any noise and length.",
        lambda r, c: holds(np.diff(r.narrow, axis=0)),
        quote="a larger model will cover more useless features and keep more noise",
    ),
    GAP.claim(
        "More label noise widens the gap between the largest and the smallest model.",
        lambda r, c: holds(np.diff(r.narrow[-1] - r.narrow[0], axis=0)),
        quote="if we increase the label noise scale … larger models will be more sensitive",
    ),
    RISK.claim(
        "There is a trade-off: noise and length decide whether the largest rank is the best.",
        lambda r, c: at_least(np.ptp(r.best), 1),
        quote="there is a trade-off between the two error terms when scaling up the model",
    ),
    RISK.found(
        "The best rank never grows with the noise, and never falls with the number of examples.",
        lambda r, c: holds(np.append(-np.diff(r.best, axis=0), np.diff(r.best, axis=1))),
    ),
    GAP.found(
        "Models trained on prompts keep the order: with noise the small one has the smaller risk.",
        lambda r, c: ordered(r.trained[0], r.trained[1]),
    ),
    RISK.control(
        "Without noise and with long prompts the large trained model has the smaller risk.",
        lambda r, c: ordered(r.quiet[1], r.quiet[0]),
    ),
    RISK.control(
        "With the scale N of pre-training at evaluation, the theorem's risk is missed.",
        lambda r, c: at_least(_deviations(r, r.wrong_scale).max(), 20.0),
        demand="derived: no Gaussian deviate comes to 20 standard errors",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Risk by rank for all noises, the narrow task, the best rank, trained models."""
    figure, axes = panels(
        "risk, task in all directions", "risk, task in few", "the best rank", "trained models"
    )
    noises = [f"σ = {noise:g}" for noise in config.noises]
    beside_theory(axes[0], config.ranks, result.sampled[..., 0], result.risk[..., 0], noises)
    axes[1].plot(config.ranks, result.narrow[..., 0], label=noises)
    for place, m in enumerate(config.examples):
        axes[2].plot(config.noises, result.best[:, place], "o-", label=f"M = {m}")
    axes[3].plot(*result.trained, "o", label="few directions, noise")
    axes[3].plot(*result.quiet, "s", label="all directions, none")
    axes[3].axline((1.0, 1.0), (2.0, 2.0), **THEORY)
    label_axes(axes[0], "rank (dots: sampled, dashed: the theorem)", logarithmic="y")
    label_axes(axes[1], "rank", logarithmic="y")
    label_axes(axes[2], "noise σ")
    label_axes(axes[3], "risk of the small model", "risk of the large model", "xy")
    for axis in axes:
        axis.legend(fontsize=7)
    return figure
