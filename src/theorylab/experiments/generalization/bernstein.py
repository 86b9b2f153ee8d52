"""Bernstein's bound beats Hoeffding's where the variance is small, for numbers and for matrices.

Bernstein's bound is laid beside the exact tail of a binomial sum of rare successes, whose variance
is far below its range, and of fair ones, whose variance is as large as the range allows; so is
Hoeffding's. Matrix Bernstein is laid beside the norms of simulated sums Z = Σ εᵢAᵢ of fixed
matrices with random signs.

Here t is a distance from the mean, v the variance and M the largest summand.

Source: arora · concentration-lab · Lemmas 1.1.5, 1.1.6, 1.1.8.
"""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure
from scipy.optimize import brentq

from theorylab.claims import (
    Source,
    at_least,
    at_most,
    holds,
    mean_between,
    probability_at_least,
    probability_at_most,
)
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Checked, Count, Seed, within
from theorylab.generalization import exact_tails, tail_bounds
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = (
    r"\Pr\left[\textstyle\sum_i X_i > t\right]"
    r" \le \exp\left(-\frac{t^2 / 2}{\sum_j \mathbb{E}X_j^2 + M t / 3}\right)"
)

HOEFFDING = Source("arora", "concentration-lab", "Lemma 1.1.5")
SCALAR = Source("arora", "concentration-lab", "Lemma 1.1.6")
MATRIX = Source("arora", "concentration-lab", "Lemma 1.1.8")

RARE, FAIR = 0.01, 0.5  # success probabilities with a variance far below, and at, a quarter
TAIL = 0.1  # matrix Bernstein's tail is counted where it promises this probability


@dataclass(frozen=True)
class Config(Checked):
    """Bernstein's bounds beside exact tails on a grid, and beside simulated matrices."""

    num_trials: Count = 10000  # trials of the binomial sums
    resolution: Count = 400  # points of every grid
    matrix_size: Count = 20  # rows and columns of the matrices
    num_matrices: Count = 50  # matrices in a sum
    num_draws: Annotated[int, within(30)] = 1000  # simulated sums of matrices
    seed: Seed = 0  # of the matrices and their signs


PRESETS = {
    "smoke": Config(resolution=60, num_draws=200),
    "paper": Config(resolution=10000, matrix_size=100, num_matrices=500, num_draws=10000),
}


class Result(NamedTuple):
    """Exact tails and their bounds at g distances, in logarithms; norms of matrices themselves."""

    rare: Float[Measured, " g"]  # P(Σ (Bᵢ − p) ≥ t), exact, for a rare success
    bernstein_rare: Float[Measured, " g"]
    hoeffding_rare: Float[Measured, " g"]  # of one side, as Bernstein's
    fair: Float[Measured, " g"]  # the same for a fair coin
    bernstein_fair: Float[Measured, " g"]
    hoeffding_fair: Float[Measured, " g"]
    norms: Float[Measured, " draws"]  # ‖Z‖
    norm_bound: Float[Measured, ""]  # of E‖Z‖
    tail_start: Float[Measured, ""]  # the t where P(‖Z‖ ≥ t) is promised to be 0.1


def memory(config: Config) -> int:
    """Bytes of the grids, of the matrices, and of their sums with their singular values."""
    matrix = config.matrix_size**2
    return 8 * (60 * config.resolution + matrix * (4 * config.num_matrices + 8 * config.num_draws))


def run(config: Config) -> Result:
    """Lay the bounds beside the exact tails, and simulate the matrices."""
    report("exact tails", 0.0)
    tails = _variances(config)
    report("sums of random matrices", 0.2)
    return Result(**tails, **_matrices(config))


def _distances(config: Config) -> np.ndarray:
    return np.linspace(0, config.num_trials / 4, config.resolution + 1)[1:]


def _variances(config: Config) -> dict[str, np.ndarray]:
    """Bernstein and one-sided Hoeffding: the variance far below the range, and not."""
    m, results = config.num_trials, {}
    t = _distances(config)
    for name, p in (("rare", RARE), ("fair", FAIR)):
        variance, largest = m * p * (1 - p), max(p, 1 - p)
        results[f"bernstein_{name}"] = tail_bounds.log_bernstein(variance, largest, t)
        results[f"hoeffding_{name}"] = tail_bounds.log_hoeffding(float(m), t) - np.log(2)
        results[name] = exact_tails.log_binomial_above(m, p, m * p + t)
    return results


def _matrices(config: Config) -> dict[str, Any]:
    """Sums Z = Σ εᵢAᵢ of fixed matrices with random signs: ‖Z‖, and what is promised of it."""
    fixed_key, signs_key = jax.random.split(jax.random.key(config.seed))
    size = config.matrix_size
    fixed = jax.random.normal(fixed_key, (config.num_matrices, size, size)) / np.sqrt(size)
    norms = _norms(signs_key, fixed, config.num_draws)
    a = np.asarray(fixed)
    products = np.einsum("kij,klj->il", a, a), np.einsum("kji,kjl->il", a, a)
    variance = max(float(np.linalg.norm(product, 2)) for product in products)
    largest = float(np.linalg.norm(a, 2, axis=(1, 2)).max())

    def tail(t: float) -> float:
        return tail_bounds.log_matrix_bernstein(variance, largest, a.shape[1:], t) - np.log(TAIL)

    # With L = log(2n/0.1) the bound is far below 0.1 at t = 4(√v + M)L.
    most = 4 * (np.sqrt(variance) + largest) * np.log(2 * size / TAIL)
    start = brentq(tail, 1e-3 * np.sqrt(variance), most)
    return {
        "norms": norms,
        "norm_bound": np.asarray(tail_bounds.matrix_bernstein_mean(variance, largest, a.shape[1:])),
        "tail_start": np.asarray(start),
    }


def _norms(key: RandomKey, fixed: Float[Array, "k n n"], num_draws: int) -> Float[Array, " draws"]:
    """Draw signs and take spectral norms, all at once."""

    @jax.jit
    def draw(key: RandomKey, fixed: Array) -> Array:
        signs = jax.random.rademacher(key, (num_draws, len(fixed)), fixed.dtype)
        return jnp.linalg.norm(jnp.tensordot(signs, fixed, axes=1), ord=2, axis=(1, 2))

    return draw(key, fixed)


# Exact tails carry rounding of some units in the last place of their logarithms, about 10⁴.
ROUNDING = 1e-9

CLAIMS = (
    SCALAR.claim(
        "Bernstein's bound is never below the exact tail of a sum of rare successes.",
        lambda r, c: holds(r.bernstein_rare - r.rare, ROUNDING),
        formula=r"\Pr\left[\textstyle\sum_i X_i > t\right]"
        r" \le \exp\left(-\frac{t^2 / 2}{\sum_j \mathbb{E}X_j^2 + M t / 3}\right)",
    ),
    SCALAR.control(
        "Divided by 20 it is below the exact tail somewhere.",
        lambda r, c: at_most((r.bernstein_rare - r.rare).min(), np.log(20)),
        demand="lab: 20, chosen before the first run",
    ),
    SCALAR.control(
        "With an exponent 1.15 times as large it is below the exact tail somewhere.",
        lambda r, c: at_most((1.15 * r.bernstein_rare - r.rare).min(), 0.0),
        demand="derived: at t = 125, 12 deviations, the exact exponent is 1.10 times Bernstein's",
    ),
    SCALAR.found(
        "Where the variance is far below the range, Bernstein's bound is below Hoeffding's.",
        lambda r, c: at_least((r.hoeffding_rare - r.bernstein_rare).min(), 0.0),
    ),
    SCALAR.control(
        "Where the variance is as large as the range allows, it is not.",
        lambda r, c: at_most((r.hoeffding_fair - r.bernstein_fair).max(), 0.0),
    ),
    HOEFFDING.check(
        "There Hoeffding's bound of one side is never below the exact tail.",
        lambda r, c: holds(r.hoeffding_fair - r.fair, ROUNDING),
    ),
    HOEFFDING.control(
        "With an exponent 1.1 times as large it is below the exact tail somewhere.",
        lambda r, c: at_most((1.1 * r.hoeffding_fair - r.fair).min(), 0.0),
        demand="derived: at t = m/4 the exact exponent is 1.05 times Hoeffding's, for many trials",
    ),
    MATRIX.claim(
        "The mean norm of a sum of random matrices is below matrix Bernstein's bound.",
        lambda r, c: mean_between(r.norms / r.norm_bound, 0.0, 1.0),
        formula=r"\mathbb{E}\|Z\| \le \sqrt{2 v \log(n_1 + n_2)} + \tfrac{M}{3} \log(n_1 + n_2)",
    ),
    MATRIX.control(
        "Half of that bound is below the mean norm.",
        lambda r, c: mean_between(r.norms / r.norm_bound, 0.5, np.inf),
        demand="lab: a half, chosen before the first run",
    ),
    MATRIX.claim(
        "Its tail is below matrix Bernstein's, where that is 0.1.",
        lambda r, c: probability_at_most(
            np.count_nonzero(~(r.norms < r.tail_start)),
            r.norms.size,
            TAIL,  # NaN is beyond
        ),
        demand="source",
        formula=r"\Pr[\|Z\| \ge t] \le (n_1 + n_2) \exp\left(-\frac{t^2 / 2}{v + M t / 3}\right)",
    ),
    MATRIX.control(
        "At two fifths of that distance the tail is above 0.1.",
        lambda r, c: probability_at_least(
            np.count_nonzero(r.norms >= 0.4 * r.tail_start), r.norms.size, TAIL
        ),
        demand="lab: one norm in ten was beyond 0.44 of it, at seed 0 of default and smoke",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the exact tail with both bounds, and the norms of matrices."""
    figure, (rare, matrix) = panels("sum of rare successes ≥ mean + t", "norm of a matrix sum")
    tails = {"Bernstein": result.bernstein_rare, "Hoeffding": result.hoeffding_rare}
    rare.plot(_distances(config), result.rare, label="exact", **THEORY)
    for name, values in tails.items():
        rare.plot(_distances(config), values, label=name)
    label_axes(rare, "t", "log probability")
    matrix.hist(result.norms, bins=30, density=True, label="simulated")
    matrix.axvline(float(result.norm_bound), label="bound of the mean", **THEORY)
    label_axes(matrix, "‖Z‖")
    for axis in (rare, matrix):
        axis.legend(fontsize=7)
    return figure
