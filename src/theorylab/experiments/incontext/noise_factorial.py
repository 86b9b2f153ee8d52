"""A large model is less robust only where noise met in pre-training meets noise in the prompt.

Three noises, each on or off: directions of pre-training that the task does not need (variance in
them, or none); inputs at inference (random examples, or a design whose second moment is exactly Λ);
labels at inference (σ, or 0). The risk of the large model minus that of the small one is measured
on the same prompts. It is zero without the first noise, and zero without both of the others; one of
these is enough.

Source: shi · noise-matrix · §5.7; shi · rank-behaviour · Theorem 5.4.3.
"""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_least, at_most, holds
from theorylab.experiments.checks import refuse_nonpositive
from theorylab.experiments.drawing import THEORY, panels
from theorylab.incontext import Prompts, shrinkage, summaries
from theorylab.progress import report
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"\Delta R = \frac{[X]\,\|s\|_D^2 + \sigma^2}{M} \sum_{i=r+1}^{r'} (\lambda_i v_i)^2"

MATRIX = Source("shi", "noise-matrix", "§5.7")
GAP = Source("shi", "rank-behaviour", "Theorem 5.4.3")


@dataclass(frozen=True)
class Config:
    """Two ranks, and three noises on or off."""

    ranks: tuple[int, ...] = (2, 6)  # r and r′
    pretraining_examples: int = 40  # N
    num_examples: int = 16  # M
    noise: float = 1.0  # σ where it is on
    rest: float = 0.5  # variance in the directions beyond r where it is on
    num_prompts: int = 40000  # in each of the eight cells
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.ranks) != 2 or not 1 <= self.ranks[0] < self.ranks[1] <= 64:
            raise ValueError(f"ranks must be two, growing from 1 to at most 64, got {self.ranks}.")
        if self.num_examples < self.ranks[1]:
            raise ValueError(
                f"num_examples must be at least the larger rank {self.ranks[1]}, "
                f"for a design without noise, got {self.num_examples}."
            )
        refuse_nonpositive(self, "noise", "rest")
        for name, least in (("pretraining_examples", 1), ("num_prompts", 100)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")


PRESETS = {
    "smoke": Config(ranks=(1, 3), num_examples=8, num_prompts=4000),
    "paper": Config(ranks=(8, 32), num_examples=64, num_prompts=400000),
}


class Result(NamedTuple):
    """What was measured, in the eight cells (c)."""

    noises: Bool[np.ndarray, "c 3"]  # pre-training, inputs, labels
    gap: Float[np.ndarray, " c"]  # risk of the large model minus the small one's, sampled
    error: Float[np.ndarray, " c"]  # its standard error
    theory: Float[np.ndarray, " c"]
    risk: Float[np.ndarray, "c 2"]  # of the two models


def memory(config: Config) -> int:
    """Bytes of the prompts of one cell, and of copies."""
    return 8 * 4 * config.num_prompts * (config.num_examples + 1) * config.ranks[1]


def run(config: Config) -> Result:
    """Measure the eight cells."""
    cells = np.array(list(product([False, True], repeat=3)))
    keys = jax.random.split(jax.random.key(config.seed), len(cells))
    measure = jax.jit(lambda key, cell: _cell(key, cell, config))
    measured = []
    for place, (key, cell) in enumerate(zip(keys, cells, strict=True)):
        report("comparing two ranks", place / len(cells))
        measured.append([np.asarray(part) for part in measure(key, cell)])
    gap, error, theory, risk = (np.stack(part) for part in zip(*measured, strict=True))
    return Result(cells, gap, error, theory, risk)


def _cell(key: RandomKey, cell: jax.Array, config: Config) -> tuple[jax.Array, ...]:
    """The gap of one cell, its standard error, what theory says, both risks."""
    (small, d), m, b = config.ranks, config.num_examples, config.num_prompts
    pretraining, inputs, labels = cell
    places = jnp.arange(d)
    spectrum = jnp.where(places < small, 1.0, jnp.where(pretraining, config.rest, 0.0))
    task = jnp.where(places < small, 1.0, 0.0)
    noise = jnp.where(labels, config.noise, 0.0)
    x_key, query_key, noise_key = jax.random.split(key, 3)
    white = jax.random.normal(x_key, (b * m, d)).reshape(b, m, d)
    white = jnp.where(inputs, white, _design(white))
    x = white * jnp.sqrt(spectrum)[None, None, :]
    query = jax.random.normal(query_key, (b, d)) * jnp.sqrt(spectrum)[None, :]
    y = x @ task + noise * jax.random.normal(noise_key, (b, m))
    prompts = Prompts(x, y, query, query @ task)
    matrices = shrinkage(spectrum, config.pretraining_examples)
    matrices = jnp.stack([jnp.where(places < rank, matrices, 0.0) for rank in (small, d)])
    predicted = jnp.einsum("bd,rd,bd->rb", summaries(prompts), matrices, query)
    losses = (predicted - prompts.target[None, :]) ** 2
    gaps = losses[1] - losses[0]
    power = jnp.where(inputs, (task**2 * spectrum).sum(), 0.0) + noise**2
    theory = power * ((spectrum * matrices[1])[small:] ** 2).sum() / m
    return gaps.mean(), gaps.std(ddof=1) / jnp.sqrt(b), theory, losses.mean(axis=1)


def _design(white: jax.Array) -> jax.Array:
    """Examples turned and scaled so that XᵀX/M is exactly the identity, by Cholesky."""
    factor = jnp.linalg.cholesky(jnp.einsum("bmd,bme->bde", white, white) / white.shape[1])
    turned = jax.lax.linalg.triangular_solve(
        factor, white.swapaxes(1, 2), left_side=True, lower=True
    )
    return turned.swapaxes(1, 2)


def _null(result: Result) -> np.ndarray:
    """Cells in which no gap is claimed: no pre-training noise, or none at inference."""
    pretraining, inputs, labels = result.noises.T
    return ~(pretraining & (inputs | labels))


def _absent(result: Result, which: np.ndarray) -> float:
    """The largest gap in these cells, in standard errors, rounding apart."""
    return float((np.abs(result.gap) / (result.error + 1e-12))[which].max())


CLAIMS = (
    Claim(
        "Without noise in pre-training there is no gap, whatever the noise in the prompt.",
        judge=lambda r, c: at_most(_absent(r, ~r.noises[:, 0]), 3.0),
        source=MATRIX,
    ),
    Claim(
        "Without noise in inputs and labels there is no gap, whatever pre-training was.",
        judge=lambda r, c: at_most(_absent(r, ~r.noises[:, 1:].any(axis=1)), 3.0),
        source=MATRIX,
    ),
    Claim(
        "With noise in pre-training and in inputs or labels there is a gap, by 5 standard errors.",
        judge=lambda r, c: at_least((r.gap / (r.error + 1e-12))[~_null(r)].min(), 5.0),
        source=MATRIX,
    ),
    Claim(
        "In every cell the gap is the theorem's within 4 standard errors.",
        judge=lambda r, c: at_most((np.abs(r.gap - r.theory) / (r.error + 1e-12)).max(), 4.0),
        source=GAP,
    ),
    Claim(
        "σ = 0 alone does not remove the gap: random inputs are noise too.",
        judge=lambda r, c: holds(
            (r.gap - 5 * r.error)[(r.noises == [True, True, False]).all(axis=1)]
        ),
        source=MATRIX,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Measured and predicted gaps of the eight cells."""
    figure, (axis,) = panels("risk of the large model minus the small one's")
    names = ["".join("+" if on else "−" for on in cell) for cell in result.noises]
    places = np.arange(len(names))
    axis.bar(places, result.gap, yerr=3 * result.error, alpha=0.7)
    axis.plot(places, result.theory, "_", markersize=18, color=THEORY["color"])
    axis.set_xticks(places, names)
    axis.set_xlabel("noise of pre-training, inputs, labels")
    return figure
