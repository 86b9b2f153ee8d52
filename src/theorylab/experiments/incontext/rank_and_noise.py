"""Larger models are worse where the task needs few directions and the prompt is noisy.

Attention of rank r, at its optimum of pre-training, reads M examples with label noise σ. Its risk
is known exactly. Every direction it reads costs (‖w‖²_Λ + σ²)/M, whether the task needs it or not:
if the task lies in the first r directions, a larger model is worse; if it has a little in all of
them, the best rank falls with the noise and grows with the number of examples. The same order is
seen in models that are trained on prompts.

Source: shi · rank-behaviour · Theorems 5.4.2, 5.4.3.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_least, at_most, holds, identity, ordered
from theorylab.experiments.checks import refuse_negative
from theorylab.experiments.drawing import THEORY, panels
from theorylab.incontext import (
    Pretraining,
    approximate_rank_risk,
    pretrain,
    rank_gap,
    rank_risk,
    regression_prompts,
    shrinkage,
    summaries,
    task_risk,
)
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"R(A_{r'}) - R(A_r) = \frac{\|s\|_D^2 + \sigma^2}{M} \sum_{i=r+1}^{r'} (\lambda_i v_i)^2"

RISK = Source("shi", "rank-behaviour", "Theorem 5.4.2")
GAP = Source("shi", "rank-behaviour", "Theorem 5.4.3")


@dataclass(frozen=True)
class Config:
    """Risks over ranks, noises and lengths of prompts, for a geometric spectrum."""

    dimension: int = 8  # d
    ratio: float = 1.4  # of neighbouring eigenvalues
    pretraining_examples: int = 40  # N
    ranks: tuple[int, ...] = (1, 2, 4, 6, 8)  # r, growing; the first and last are trained
    noises: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)  # σ, growing
    examples: tuple[int, ...] = (8, 16, 32, 64)  # M, growing
    num_prompts: int = 40000  # of every length, for sampled risks
    num_seeds: int = 6  # trained models of each rank, at least 6 to conclude
    num_steps: int = 1500  # of training
    batch_size: int = 128  # prompts in a step
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_negative(self)
        if not 2 <= self.dimension <= 64:
            raise ValueError(f"dimension must be between 2 and 64, got {self.dimension}.")
        if not self.ratio > 1:
            raise ValueError(f"ratio must be above 1, got {self.ratio}.")
        for name, least in (("ranks", 1), ("noises", 0), ("examples", 1)):
            values = getattr(self, name)
            if len(values) < 2 or list(values) != sorted(set(values)) or values[0] < least:
                raise ValueError(f"{name} must grow from at least {least}, got {values}.")
        if self.ranks[-1] > self.dimension:
            raise ValueError(f"ranks must be at most the dimension, got {self.ranks}.")
        for name, least in (("num_prompts", 100), ("num_seeds", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        _ = self.recipe  # refuses the rest

    @property
    def recipe(self) -> Pretraining:
        """How models are trained."""
        return Pretraining(self.num_steps, self.batch_size, self.pretraining_examples)

    @property
    def spectrum(self) -> jax.Array:
        """λ_i, geometric from 1 on."""
        return float(self.ratio) ** -jnp.arange(self.dimension)


PRESETS = {
    "smoke": Config(
        dimension=4, ratio=1.5, pretraining_examples=10, ranks=(1, 2, 4), noises=(0.0, 1.0, 3.0),
        examples=(8, 16), num_prompts=2000, num_steps=150, batch_size=32,
    ),
    "paper": Config(dimension=20, pretraining_examples=200, num_prompts=400000, num_steps=20000),
}  # fmt: skip


class Result(NamedTuple):
    """What was measured: axes ranks (r), noises (a), numbers of examples (m), seeds (s)."""

    ranks: Int[np.ndarray, " r"]
    noises: Float[np.ndarray, " a"]
    examples: Int[np.ndarray, " m"]
    risk: Float[np.ndarray, "r a m"]  # the theorem's, for a task with something everywhere
    sampled: Float[np.ndarray, "r a m"]
    error: Float[np.ndarray, "r a m"]  # standard errors of the sampled risks
    wrong_scale: Float[np.ndarray, "r a m"]  # sampled with ρ = N at evaluation
    narrow: Float[np.ndarray, "r a m"]  # the theorem's, for a task of the first rank's directions
    gap: Float[np.ndarray, "r a m"]  # the theorem's gap to the first rank, for that task
    exact: Float[np.ndarray, " r"]  # risks after very long pre-training
    approximate: Float[np.ndarray, " r"]  # and the approximation there
    best: Int[np.ndarray, "a m"]  # rank with the least risk, among all
    trained: Float[np.ndarray, "2 s"]  # narrow task, first and last rank: risk with noise
    quiet: Float[np.ndarray, "2 s"]  # task with something everywhere, no noise, long prompts


def memory(config: Config) -> int:
    """Bytes of the prompts of the greatest length, and of copies."""
    return 8 * 3 * config.num_prompts * (max(config.examples) + 1) * config.dimension


def run(config: Config) -> Result:
    """Compute and sample risks of the optimum, then train models."""
    report("risks of the optimum", 0.0)
    wide, narrow = _tasks(config)
    everything, narrow_risk, gap, exact, approximate = _theory(config, wide, narrow)
    sampled = [_sampled(config, wide, m, place) for place, m in enumerate(config.examples)]
    means, errors, wrong = (np.stack(part, axis=2) for part in zip(*sampled, strict=True))
    report("training models", 0.4)
    trained, quiet = _trained(config, wide, narrow)
    return Result(
        ranks=np.array(config.ranks),
        noises=np.array(config.noises),
        examples=np.array(config.examples),
        risk=everything[np.array(config.ranks) - 1],
        sampled=means,
        error=errors,
        wrong_scale=wrong,
        narrow=narrow_risk,
        gap=gap,
        exact=exact[:, -1, 0],
        approximate=approximate[:, -1, 0],
        best=1 + everything.argmin(axis=0),
        trained=trained,
        quiet=quiet,
    )


def _tasks(config: Config) -> tuple[jax.Array, jax.Array]:
    """A task with something in all directions, and one in the first rank's only."""
    wide = jnp.ones(config.dimension) / jnp.sqrt(1.0 + jnp.arange(config.dimension))
    return wide, jnp.where(jnp.arange(config.dimension) < config.ranks[0], wide, 0.0)


def _theory(config: Config, wide: jax.Array, narrow: jax.Array) -> list[np.ndarray]:
    """What the theorems say, ranks × noises × lengths: the wide task, the narrow one, limits."""
    spectrum, n, first = config.spectrum, config.pretraining_examples, config.ranks[0]
    every = range(1, config.dimension + 1)
    noises, lengths = jnp.meshgrid(
        jnp.array(config.noises), jnp.array(config.examples, float), indexing="ij"
    )

    @partial(jnp.vectorize, signature="(),()->(a),(r),(r),(r),(r)")
    def cell(noise: jax.Array, m: jax.Array) -> tuple[jax.Array, ...]:
        ranks = config.ranks
        return (
            jnp.stack([rank_risk(spectrum, wide, r, n, m, noise) for r in every]),
            jnp.stack([rank_risk(spectrum, narrow, r, n, m, noise) for r in ranks]),
            jnp.stack([rank_gap(spectrum, narrow, (first, r), n, m, noise) for r in ranks]),
            jnp.stack([rank_risk(spectrum, wide, r, 1e9, m, noise) for r in ranks]),
            jnp.stack([approximate_rank_risk(spectrum, wide, r, m, noise) for r in ranks]),
        )

    return [np.moveaxis(np.asarray(part), 2, 0) for part in jax.jit(cell)(noises, lengths)]


def _sampled(config: Config, task: jax.Array, m: int, place: int) -> tuple[np.ndarray, ...]:
    """Mean risks and their standard errors, ranks × noises, from the same prompts for all."""
    n, spectrum = config.pretraining_examples, config.spectrum
    kept = jnp.arange(config.dimension)[None, :] < jnp.array(config.ranks)[:, None]
    matrices = kept * shrinkage(spectrum, n)[None, :]
    noises = jnp.array(config.noises)

    @jax.jit
    def measure(key: RandomKey, task: jax.Array) -> tuple[jax.Array, ...]:
        clean_key, noise_key = jax.random.split(key)
        prompts = regression_prompts(
            clean_key, config.num_prompts, m, jnp.diag(spectrum), weights=task
        )
        noise = jax.random.normal(noise_key, prompts.y.shape)
        both = [summaries(prompts), summaries(prompts._replace(y=noise))]
        parts = [jnp.einsum("bd,rd,bd->rb", part, matrices, prompts.query) for part in both]
        predicted = parts[0][:, None] + noises[None, :, None] * parts[1][:, None]
        target = prompts.target[None, None, :]
        losses = (predicted - target) ** 2
        error = losses.std(axis=2, ddof=1) / jnp.sqrt(config.num_prompts)
        return losses.mean(axis=2), error, ((predicted * m / n - target) ** 2).mean(axis=2)

    key = jax.random.fold_in(jax.random.key(config.seed), place)
    return tuple(map(np.asarray, measure(key, task)))


def _trained(config: Config, wide: jax.Array, narrow: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """Exact risks of models trained at the first and last rank: noisy, and without noise."""
    covariance = jnp.diag(config.spectrum)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)

    def one(key: RandomKey, rank: int) -> tuple[jax.Array, jax.Array]:
        matrix = pretrain(key, rank, covariance, config.recipe).matrix
        noisy = task_risk(matrix, narrow, covariance, config.examples[0], config.noises[-1])
        return noisy, task_risk(matrix, wide, covariance, 1e6)

    runs = [
        ensemble(lambda key, r=rank: one(key, r), keys)
        for rank in (config.ranks[0], config.ranks[-1])
    ]
    noisy, quiet = zip(*runs, strict=True)
    return np.stack([np.asarray(part) for part in noisy]), np.stack(
        [np.asarray(part) for part in quiet]
    )


def _deviations(result: Result, sampled: np.ndarray) -> np.ndarray:
    """How far sampled risks are from the theorem's, in standard errors."""
    return np.abs(sampled - result.risk) / result.error


CLAIMS = (
    Claim(
        "The sampled risk is the theorem's within 4 standard errors, in every cell.",
        judge=lambda r, c: at_most(_deviations(r, r.sampled).max(), 4.0),
        source=RISK,
    ),
    Claim(
        "The gap formula is the difference of the risks, to 10⁻¹⁰.",
        judge=lambda r, c: identity(r.narrow - r.narrow[:1], r.gap, 1e-10),
        source=GAP,
    ),
    Claim(
        "After long pre-training the risk is ‖ξ‖² + ((r + 1)‖s‖² + r‖ξ‖² + rσ²)/M.",
        judge=lambda r, c: identity(r.exact, r.approximate, 1e-6),
        source=RISK,
    ),
    Claim(
        "Where the task needs few directions, every larger rank is worse, at any noise and length.",
        judge=lambda r, c: holds(np.diff(r.narrow, axis=0)),
        source=GAP,
    ),
    Claim(
        "The best rank never grows with the noise.",
        judge=lambda r, c: holds(-np.diff(r.best, axis=0)),
        source=RISK,
    ),
    Claim(
        "The best rank never falls with the number of examples.",
        judge=lambda r, c: holds(np.diff(r.best, axis=1)),
        source=RISK,
    ),
    Claim(
        "Noise changes which rank is best.",
        judge=lambda r, c: at_least((r.best[0] - r.best[-1]).max(), 1),
        source=RISK,
    ),
    Claim(
        "Models trained on prompts keep the order: with noise the small one has the smaller risk.",
        judge=lambda r, c: ordered(r.trained[0], r.trained[1]),
        source=GAP,
    ),
    Claim(
        "Without noise and with long prompts the large trained model has the smaller risk.",
        judge=lambda r, c: ordered(r.quiet[1], r.quiet[0]),
        source=RISK,
        kind="control",
    ),
    Claim(
        "With the scale N of pre-training at evaluation, the theorem's risk is missed.",
        judge=lambda r, c: at_least(_deviations(r, r.wrong_scale).max(), 20.0),
        source=RISK,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Risk by rank for all noises, the narrow task, the best rank, trained models."""
    figure, axes = panels(
        "risk, task in all directions", "risk, task in few", "the best rank", "trained models"
    )
    for place, noise in enumerate(result.noises):
        for axis, table in ((axes[0], result.risk), (axes[1], result.narrow)):
            axis.semilogy(result.ranks, table[:, place, 0], label=f"σ = {noise:g}")
        axes[0].semilogy(result.ranks, result.sampled[:, place, 0], "o", color="C7", markersize=4)
    for axis in axes[:2]:
        axis.set_xlabel("rank")
        axis.legend(frameon=False, fontsize=7)
    for place, m in enumerate(result.examples):
        axes[2].plot(result.noises, result.best[:, place], "o-", label=f"M = {m}")
    axes[2].set_xlabel("noise σ")
    axes[2].legend(frameon=False, fontsize=7)
    axes[3].plot(result.trained[0], result.trained[1], "o", label="few directions, noise")
    axes[3].plot(result.quiet[0], result.quiet[1], "s", label="all directions, none")
    ends = [
        min(result.quiet.min(), result.trained.min()),
        max(result.quiet.max(), result.trained.max()),
    ]
    axes[3].loglog(ends, ends, **THEORY)
    axes[3].set_xlabel("risk of the small model")
    axes[3].set_ylabel("risk of the large model")
    axes[3].legend(frameon=False, fontsize=7)
    return figure
