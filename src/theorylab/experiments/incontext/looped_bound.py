"""The error of a looped transformer is below e^{−T/2κ}, and far below it.

Random designs X (n × d), a unit vector θ*, loops with η = 1/L. The error after t loops is known
exactly by eigenvalues, and in logarithms it has no floor. It is never above the bound e^{−t/κ} of
its square; the true rate is (1 − 1/κ)^{2t}, at least twice as fast. The source sees the gap between
run and bound narrow with n. It widens: what narrows is the floor of rounding, at which a run stops
and the bound does not, so that a run in double precision even ends above the bound.

Source: shi · looped-bound · Theorems 8.16, 8.25, Lemma 8.15, Fig. 8.1.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_most, between, holds, trend
from theorylab.experiments.drawing import COLOURS, panels
from theorylab.incontext import (
    descent_weights,
    log_squared_errors,
    loop,
    loop_prompt,
    printed_log_bound,
    tight_log_bound,
)
from theorylab.progress import report
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"|\langle TF, \theta^* \rangle - \alpha| \le |\alpha| e^{-T/2\kappa}"

BOUND = Source("shi", "looped-bound", "Theorems 8.16, 8.25")
LEMMA = Source("shi", "looped-bound", "Lemma 8.15")
FIGURE = Source("shi", "looped-bound", "Fig. 8.1")

FLOOR = -60.0  # log of squared errors down to which runs are exact; rounding sets in at about −71
LATE = 100000  # loops after which only the least eigenvalue counts
NUM_RUNS = 10  # literal runs of each n: the source's number of trials
# Mean κ for d = 4: what the source prints for 10 trials, and over 20,000 draws.
PRINTED = {16: 4.57, 32: 3.13, 64: 2.07, 128: 1.62}
EXPECTED = {16: 4.84, 32: 2.83, 64: 2.03, 128: 1.64}


@dataclass(frozen=True)
class Config:
    """Gaussian designs of several lengths."""

    dimension: int = 4  # d
    examples: tuple[int, ...] = (16, 32, 64, 128)  # n
    num_loops: int = 200  # T
    num_trials: int = 10000  # designs of each length
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.dimension <= 64:
            raise ValueError(f"dimension must be between 2 and 64, got {self.dimension}.")
        if len(self.examples) < 2 or list(self.examples) != sorted(set(self.examples)):
            raise ValueError(f"examples must grow, got {self.examples}.")
        if self.examples[0] <= self.dimension or self.examples[-1] > 100000:
            raise ValueError(
                f"examples must be more than dimension and at most 100000, got {self.examples}."
            )
        if not 20 <= self.num_loops <= 100000:
            raise ValueError(f"num_loops must be between 20 and 100000, got {self.num_loops}.")
        if not 100 <= self.num_trials <= 10**7 or self.num_trials % 100:
            raise ValueError(f"num_trials must be some hundreds, got {self.num_trials}.")


PRESETS = {
    "smoke": Config(examples=(16, 128), num_trials=4000),
    "paper": Config(num_trials=100000),
}


class Result(NamedTuple):
    """What was measured: axes lengths (n), trials (s), runs (r), loops (t)."""

    dimension: int
    examples: Int[np.ndarray, " n"]
    condition: Float[np.ndarray, "n s"]  # κ
    margin: Float[np.ndarray, "n s"]  # bound minus exact log error, the least over all loops
    tight_margin: Float[np.ndarray, "n s"]  # the same for 2t log(1 − 1/κ)
    ratio: Float[np.ndarray, "n s"]  # slope of loops 5 to 15, over −1/κ
    tail: Float[np.ndarray, "n s"]  # slope of late loops, over 2 log(1 − 1/κ)
    exact: Float[np.ndarray, "n r t"]  # log of squared errors, by eigenvalues
    literal: Float[np.ndarray, "n r t"]  # by the transformer in double precision
    bound: Float[np.ndarray, "n r t"]  # −t/κ
    lemma: Float[np.ndarray, "n r t"]  # |α|‖θ_t − θ*‖ − |⟨output, θ*⟩ − α|


def memory(config: Config) -> int:
    """Bytes of a hundred designs with all their loops, and of what is kept of all."""
    block = 100 * (max(config.examples) + 3 * config.num_loops) * config.dimension
    return 8 * (block + 5 * config.num_trials * len(config.examples))


def run(config: Config) -> Result:
    """Evaluate all designs by eigenvalues, and run the transformer on a few."""
    cases = []
    for place, n in enumerate(config.examples):
        report(f"designs of {n} examples", place / len(config.examples))
        key = jax.random.fold_in(jax.random.key(config.seed), place)
        measured = jax.jit(lambda key, n=n: _measured(key, n, config))(key)
        cases.append([np.asarray(part) for part in measured])
    stacked = (np.stack(part) for part in zip(*cases, strict=True))
    return Result(config.dimension, np.array(config.examples), *stacked)


def _measured(key: RandomKey, n: int, config: Config) -> tuple[jax.Array, ...]:
    """All trials of one length by eigenvalues, and the literal runs."""
    keys = jax.random.split(key, config.num_trials)
    trials = jax.lax.map(lambda key: _trial(key, n, config), keys, batch_size=100)
    runs = jax.vmap(lambda key: _run(key, n, config))(keys[:NUM_RUNS])
    return *trials, *runs


def _task(key: RandomKey, n: int, d: int) -> tuple[jax.Array, ...]:
    """A design, a unit vector, and eigenvalues of XᵀX with the vector's coefficients."""
    x_key, theta_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n * d,)).reshape(n, d)
    theta = jax.random.normal(theta_key, (d,))
    theta = theta / jnp.linalg.norm(theta)
    values, vectors = jnp.linalg.eigh(x.T @ x)
    return x, theta, values, vectors.T @ theta


def _trial(key: RandomKey, n: int, config: Config) -> tuple[jax.Array, ...]:
    """κ, margins of both bounds, and slopes of one design."""
    _, _, values, coefficients = _task(key, n, config.dimension)
    steps = jnp.arange(config.num_loops + 1.0)
    condition = values[-1] / values[0]
    errors = log_squared_errors(values, coefficients, 1 / values[-1], steps)
    late = log_squared_errors(
        values, coefficients, 1 / values[-1], jnp.array([1.0 * LATE, 2.0 * LATE])
    )
    return (
        condition,
        (printed_log_bound(condition, steps) - errors).min(),
        (tight_log_bound(condition, steps) - errors).min(),
        (errors[5] - errors[15]) / 10 * condition,
        (late[1] - late[0]) / LATE / (2 * jnp.log1p(-1 / condition)),
    )


def _run(key: RandomKey, n: int, config: Config) -> tuple[jax.Array, ...]:
    """Exact and literal errors of one design after every loop, and what bounds them."""
    x, theta, values, coefficients = _task(key, n, config.dimension)
    steps = jnp.arange(1.0, config.num_loops + 1)
    alpha = jax.random.uniform(key, minval=0.5, maxval=2.0)
    rates = jnp.full(config.num_loops, 1 / values[-1])
    outputs = loop(
        descent_weights(config.dimension), loop_prompt(x, x @ theta, alpha), rates
    ).outputs
    squares = jnp.sum((outputs / alpha - theta[None, :]) ** 2, axis=1)
    return (
        log_squared_errors(values, coefficients, 1 / values[-1], steps),
        jnp.log(jnp.maximum(squares, 1e-40)),
        printed_log_bound(values[-1] / values[0], steps),
        alpha * jnp.sqrt(squares) - jnp.abs(outputs @ theta - alpha),
    )


def _known(result: Result, table: dict[int, float]) -> tuple[np.ndarray, np.ndarray]:
    """κ of the lengths in the table, (n, s), and the table's values."""
    known = table if result.dimension == 4 else {}
    rows = [place for place, n in enumerate(result.examples) if int(n) in known]
    return result.condition[rows], np.array([table[int(n)] for n in result.examples[rows]])


def _printed_share(result: Result) -> float:
    """How far into the tails of 10-trial means the source's averages are: the worst of them."""
    known, printed = _known(result, PRINTED)
    if not len(known):
        return math.nan
    means = np.sort(known.reshape(len(known), -1, NUM_RUNS).mean(axis=2), axis=1)
    below = np.array([(row < value).mean() for row, value in zip(means, printed, strict=True)])
    return float(np.minimum(below, 1 - below).min())


def _mean_error(result: Result) -> float:
    """Relative distance of mean κ from the expected one, the largest of all lengths."""
    known, expected = _known(result, EXPECTED)
    return float(np.abs(known.mean(axis=1) / expected - 1).max()) if len(known) else math.nan


CLAIMS = (
    Claim(
        "No exact error is above e^{−t/κ}, for any design and any number of loops.",
        judge=lambda r, c: holds(r.margin, rounding=1e-9),
        source=BOUND,
    ),
    Claim(
        "No exact error is above (1 − 1/κ)^{2t}, the tighter bound.",
        judge=lambda r, c: holds(r.tight_margin, rounding=1e-9),
        source=BOUND,
    ),
    Claim(
        "In the end every error falls as (1 − 1/κ)^{2t}: slopes within 2 %, design by design.",
        judge=lambda r, c: at_most(np.abs(r.tail - 1).max(), 0.02),
        source=BOUND,
    ),
    Claim(
        "The run of the transformer agrees with the eigenvalues down to a log of −60.",
        judge=lambda r, c: at_most(
            np.abs(np.where(r.exact > FLOOR, r.literal - r.exact, 0)).max(), 0.01
        ),
        source=FIGURE,
    ),
    Claim(
        "The error of the product ⟨output, θ*⟩ is at most |α|‖θ_t − θ*‖.",
        judge=lambda r, c: holds(r.lemma, rounding=1e-14),
        source=LEMMA,
    ),
    Claim(
        "Longer prompts have smaller condition numbers.",
        judge=lambda r, c: trend(r.condition[:, :100], increasing=False),
        source=FIGURE,
    ),
    Claim(
        "Mean condition numbers at d = 4 are 4.84, 2.83, 2.03, 1.64, within 2 %.",
        judge=lambda r, c: at_most(_mean_error(r), 0.02),
        source=FIGURE,
    ),
    Claim(
        "The source's mean κ of ten trials are inside the central 95 % of such means.",
        judge=lambda r, c: between(_printed_share(r), 0.025, 0.5),
        source=FIGURE,
    ),
    Claim(
        "The gap between run and bound narrows as n grows.",
        judge=lambda r, c: trend(r.ratio[:, :100], increasing=False),
        source=FIGURE,
        kind="printed",
    ),
    Claim(
        "The gap widens: the slope over that of the bound grows with n.",
        judge=lambda r, c: trend(r.ratio[:, :100]),
        source=FIGURE,
        kind="corrected",
    ),
    Claim(
        "A run in double precision stays below the bound for all loops.",
        judge=lambda r, c: holds(r.bound - r.literal),
        source=FIGURE,
        kind="printed",
    ),
    Claim(
        "It does until rounding: runs are below the bound where the exact log is above −60.",
        judge=lambda r, c: holds(np.where(r.exact > FLOOR, r.bound - r.literal, 0.0)),
        source=FIGURE,
        kind="corrected",
    ),
    Claim(
        "A bound twice as fast as (1 − 1/κ)^{2t} is violated by every design.",
        judge=lambda r, c: at_most(r.tail.max(), 1.99),
        source=BOUND,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """The source's figure: runs, exact errors, bounds; and condition numbers."""
    figure, axes = panels("log of squared error (first designs)", "slope over that of the bound")
    steps = np.arange(1, result.exact.shape[2] + 1)
    for place, n in enumerate(result.examples):
        colour = COLOURS[place % len(COLOURS)]
        axes[0].plot(steps, result.literal[place, 0], color=colour, label=f"n = {n}")
        axes[0].plot(steps, result.exact[place, 0], ":", color=colour)
        axes[0].plot(steps, result.bound[place, 0], "--", color=colour)
    axes[0].set_ylim(1.4 * result.bound.min(), 5.0)
    axes[0].set_xlabel("loops (solid: run, dotted: exact, dashed: bound)")
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].boxplot(result.ratio.T, showfliers=False)
    axes[1].set_xticks(np.arange(1, len(result.examples) + 1), [str(n) for n in result.examples])
    axes[1].set_xlabel("examples n")
    return figure
