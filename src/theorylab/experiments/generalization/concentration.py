"""Sums of independent variables stay near their mean, and every bound says how near.

Seven bounds (Markov, Chebyshev, Chernoff, Hoeffding, Bernstein, Gaussian anti-concentration, matrix
Bernstein) are laid beside the exact tails of binomial, sign and normal sums, on grids and in
logarithms, and beside simulated random matrices. Each of them holds on its domain. Three of them
are printed beyond their domain, where they fail: Chernoff's −δ²μ/3 for δ > 1, anti-concentration
for t > σ, and the shorthand exp(−ε²m) for averages. Dependence breaks them all.

Here m counts the summands, μ is the mean, σ² the variance, δ and ε are relative and absolute
deviations, t is a distance from the mean.

Source: arora · concentration-lab · §1.1.1.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    at_least,
    at_most,
    between,
    holds,
    mean_between,
    probability_at_most,
)
from theorylab.experiments.checks import refuse_below
from theorylab.experiments.drawing import THEORY, panels
from theorylab.generalization import exact_tails, tail_bounds
from theorylab.numerics import power_law
from theorylab.progress import report
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"\Pr[|X - \mathbb{E}X| \ge t] \le 2 \exp\left(-\frac{2 t^2}{\sum_i (b_i - a_i)^2}\right)"

LAB = Source("arora", "concentration-lab", "§1.1.1")
CHERNOFF = Source("arora", "concentration-lab", "§1.1.1, Chernoff")
ANTI = Source("arora", "concentration-lab", "§1.1.1, anti-concentration")
SHORTHAND = Source("arora", "concentration-lab", "§1.1.1, shorthand")
MATRIX = Source("arora", "concentration-lab", "§1.1.1, matrix Bernstein")

RARE, FAIR = 0.01, 0.5  # success probabilities with a variance far below, and at, a quarter
COUNTS = (16, 64, 256, 1024, 4096)  # numbers of signs for the central limit theorem
TAIL = 0.1  # matrix Bernstein's tail is counted where it promises this probability


@dataclass(frozen=True)
class Config:
    """Bounds beside exact tails on a grid, and beside simulated matrices."""

    num_trials: int = 10000  # trials of the binomial sums
    probability: float = 0.001  # of success in each
    num_signs: int = 100  # random signs in a sum
    largest_delta: float = 5.0  # relative deviations δ reach from 0 to this
    resolution: int = 400  # points of every grid
    matrix_size: int = 20  # rows and columns of the matrices
    num_matrices: int = 50  # matrices in a sum
    num_draws: int = 1000  # simulated sums of matrices
    seed: int = 0  # of the matrices and their signs

    def __post_init__(self) -> None:
        refuse_below(self, 1, "num_trials", "num_signs", "matrix_size", "num_matrices")
        for name, least in (("resolution", 10), ("num_draws", 30)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if not 0 < self.probability <= 0.5:
            raise ValueError(f"probability must be in (0, 0.5], got {self.probability}.")
        if not 1 < self.largest_delta < 1 / self.probability:
            raise ValueError(
                "largest_delta must be between 1 and 1/probability, where the sum ends,"
                f" got {self.largest_delta}."
            )


PRESETS = {
    "smoke": Config(resolution=60, num_draws=200),
    "paper": Config(resolution=10000, matrix_size=100, num_matrices=500, num_draws=10000),
}


class Result(NamedTuple):
    """Exact tails and their bounds, in logarithms unless it says otherwise; g or h points."""

    delta: Float[np.ndarray, " g"]  # relative deviations δ up to the largest
    above: Float[np.ndarray, " g"]  # P(X ≥ (1 + δ)μ), exact
    markov: Float[np.ndarray, " g"]
    chernoff: Float[np.ndarray, " g"]  # −δ²μ/3, on all of the grid
    chernoff_far: Float[np.ndarray, " g"]  # −μ((1 + δ)log(1 + δ) − δ)
    fraction: Float[np.ndarray, " g"]  # relative deviations δ < 1
    below: Float[np.ndarray, " g"]  # P(X ≤ (1 − δ)μ), exact
    chernoff_below: Float[np.ndarray, " g"]
    t: Float[np.ndarray, " h"]  # distances of a sum of signs from 0
    signs: Float[np.ndarray, " h"]  # P(|Σ ε| ≥ t), exact
    chebyshev: Float[np.ndarray, " h"]
    hoeffding: Float[np.ndarray, " h"]
    shorthand: Float[np.ndarray, " h"]  # −ε²m with ε = t/m
    dependent: Float[np.ndarray, " h"]  # P(|Σ ε| ≥ t), exact, if all signs are one and the same
    rare: Float[np.ndarray, " g"]  # P(Σ (Bᵢ − p) ≥ t), exact, for a rare success
    bernstein_rare: Float[np.ndarray, " g"]
    hoeffding_rare: Float[np.ndarray, " g"]  # of one side, as Bernstein's
    bernstein_fair: Float[np.ndarray, " g"]  # the same for a fair coin
    hoeffding_fair: Float[np.ndarray, " g"]
    sigmas: Float[np.ndarray, " g"]  # t/σ from 0 to 3
    within: Float[np.ndarray, " g"]  # P(|X| ≤ t) itself for a normal X
    anti_low: Float[np.ndarray, " g"]
    anti_high: Float[np.ndarray, " g"]
    norms: Float[np.ndarray, " draws"]  # ‖Z‖ itself
    norm_bound: Float[np.ndarray, ""]  # of E‖Z‖
    tail_start: Float[np.ndarray, ""]  # the t where P(‖Z‖ ≥ t) is promised to be 0.1
    counts: Float[np.ndarray, " m"]
    clt_distance: Float[np.ndarray, " m"]  # sup |F − Φ| of the standardised sum of signs


def memory(config: Config) -> int:
    """Bytes of the grids, of the matrices, and of their sums with their singular values."""
    matrix = config.matrix_size**2
    return 8 * (60 * config.resolution + matrix * (4 * config.num_matrices + 8 * config.num_draws))


def run(config: Config) -> Result:
    """Lay the bounds beside the exact tails, and simulate the matrices."""
    report("exact tails", 0.0)
    tails = _binomials(config) | _signs(config) | _variances(config) | _normals(config)
    report("sums of random matrices", 0.2)
    return Result(
        **tails,
        **_matrices(config),
        counts=np.asarray(COUNTS, float),
        clt_distance=np.asarray([exact_tails.distance_from_normal(m) for m in COUNTS]),
    )


def _binomials(config: Config) -> dict[str, np.ndarray]:
    """Markov and Chernoff on a binomial sum of mean μ."""
    trials, p = config.num_trials, config.probability
    mu = trials * p
    delta = np.linspace(0, config.largest_delta, config.resolution + 1)[1:]
    fraction = np.linspace(0, 1, config.resolution + 2)[1:-1]
    return {
        "delta": delta,
        "above": exact_tails.log_binomial_above(trials, p, (1 + delta) * mu),
        "markov": tail_bounds.log_markov(mu, (1 + delta) * mu),
        "chernoff": tail_bounds.chernoff_shorthand(mu, delta),
        "chernoff_far": tail_bounds.log_chernoff_far(mu, delta),
        "fraction": fraction,
        "below": exact_tails.log_binomial_below(trials, p, (1 - fraction) * mu),
        "chernoff_below": tail_bounds.log_chernoff_below(mu, fraction),
    }


def _signs(config: Config) -> dict[str, np.ndarray]:
    """Chebyshev, Hoeffding and the shorthand on a sum of signs, at all its values and between."""
    m = config.num_signs
    t = np.union1d(np.linspace(0, m, config.resolution + 1)[1:], np.arange(1.0, m + 1))
    return {
        "t": t,
        "signs": exact_tails.log_signs_beyond(m, t),
        "chebyshev": tail_bounds.log_chebyshev(float(m), t),
        "hoeffding": tail_bounds.log_hoeffding(4.0 * m, t),
        "shorthand": -(t**2) / m,
        "dependent": np.zeros_like(t),  # one sign for all: |Σ ε| = m, surely
    }


def _variances(config: Config) -> dict[str, np.ndarray]:
    """Bernstein and one-sided Hoeffding: the variance far below the range, and not."""
    m, results = config.num_trials, {}
    t = np.linspace(0, m / 4, config.resolution + 1)[1:]
    for name, p in (("rare", RARE), ("fair", FAIR)):
        variance, largest = m * p * (1 - p), max(p, 1 - p)
        results[f"bernstein_{name}"] = tail_bounds.log_bernstein(variance, largest, t)
        results[f"hoeffding_{name}"] = tail_bounds.log_hoeffding(float(m), t) - np.log(2)
    return results | {"rare": exact_tails.log_binomial_above(m, RARE, m * RARE + t)}


def _normals(config: Config) -> dict[str, np.ndarray]:
    """Anti-concentration of a standard normal variable, up to three deviations."""
    sigmas = np.linspace(0, 3, config.resolution + 1)[1:]
    low, high = tail_bounds.anti_concentration_shorthand(1.0, sigmas)
    within = exact_tails.normal_within(1.0, sigmas)
    return {"sigmas": sigmas, "within": within, "anti_low": low, "anti_high": high}


def _matrices(config: Config) -> dict[str, np.ndarray]:
    """Sums Z = Σ εᵢAᵢ of fixed matrices with random signs: ‖Z‖, and what is promised of it."""
    fixed_key, signs_key = jax.random.split(jax.random.key(config.seed))
    size = config.matrix_size
    fixed = jax.random.normal(fixed_key, (config.num_matrices, size, size)) / np.sqrt(size)
    norms = _norms(signs_key, fixed, config.num_draws)
    a = np.asarray(fixed)
    products = np.einsum("kij,klj->il", a, a), np.einsum("kji,kjl->il", a, a)
    variance = max(float(np.linalg.norm(product, 2)) for product in products)
    largest = float(np.linalg.norm(a, 2, axis=(1, 2)).max())
    # log(2n) − (t²/2)/(v + Mt/3) = log 0.1 is a quadratic equation in t.
    level = np.log(2 * size / TAIL)
    start = level * largest / 3 + np.sqrt((level * largest / 3) ** 2 + 2 * level * variance)
    return {
        "norms": np.asarray(norms),
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


def _near(result: Result) -> np.ndarray:
    """Where δ is at most 1."""
    return result.delta <= 1


def _anti_margins(result: Result) -> np.ndarray:
    """How far P(|X| ≤ t) is inside its two bounds, at every t."""
    return np.minimum(result.within - result.anti_low, result.anti_high - result.within)


# Exact tails carry rounding of some units in the last place of their logarithms, about 10⁴.
ROUNDING = 1e-9

CLAIMS = (
    Claim(
        "Markov's bound is never below the exact tail.",
        judge=lambda r, c: holds(r.markov - r.above, ROUNDING),
        source=LAB,
        formula=r"\Pr[X \ge t] \le \mathbb{E}X / t",
    ),
    Claim(
        "Chebyshev's inequality needs non-negative variables: signed ones violate it.",
        judge=lambda r, c: at_least(np.count_nonzero(r.chebyshev < r.signs - ROUNDING), 1),
        source=LAB,
        kind="printed",
    ),
    Claim(
        "Chebyshev's inequality holds for variables of either sign.",
        judge=lambda r, c: holds(r.chebyshev - r.signs, ROUNDING),
        source=LAB,
        kind="corrected",
        formula=r"\Pr[|X - \mathbb{E}X| \ge t] \le \mathrm{Var}X / t^2",
    ),
    Claim(
        "Chernoff's upper tail bound exp(−δ²μ/3) holds for all δ > 0.",
        judge=lambda r, c: holds(r.chernoff - r.above, ROUNDING),
        source=CHERNOFF,
        kind="printed",
        formula=r"\Pr[X \ge (1 + \delta)\mu] \le e^{-\delta^2 \mu / 3},\ \delta > 0",
    ),
    Claim(
        "Chernoff's upper tail bound exp(−δ²μ/3) holds for δ up to 1.",
        judge=lambda r, c: holds((r.chernoff - r.above)[_near(r)], ROUNDING),
        source=CHERNOFF,
        kind="corrected",
        formula=r"\Pr[X \ge (1 + \delta)\mu] \le e^{-\delta^2 \mu / 3},\ 0 < \delta \le 1",
    ),
    Claim(
        "Beyond, Chernoff's bound with (1 + δ)log(1 + δ) − δ in the exponent holds.",
        judge=lambda r, c: holds(r.chernoff_far - r.above, ROUNDING),
        source=CHERNOFF,
        kind="corrected",
        formula=r"\Pr[X \ge (1 + \delta)\mu] \le e^{-\mu((1 + \delta)\log(1 + \delta) - \delta)}",
    ),
    Claim(
        "Chernoff's lower tail bound holds for all δ below 1.",
        judge=lambda r, c: holds(r.chernoff_below - r.below, ROUNDING),
        source=CHERNOFF,
        formula=r"\Pr[X \le (1 - \delta)\mu] \le e^{-\delta^2 \mu / 2}",
    ),
    Claim(
        "Hoeffding's bound is never below the exact tail of a sum of signs.",
        judge=lambda r, c: holds(r.hoeffding - r.signs, ROUNDING),
        source=LAB,
        formula=r"\Pr[|X - \mathbb{E}X| \ge t] \le 2 e^{-2 t^2 / \sum_i (b_i - a_i)^2}",
    ),
    Claim(
        "An average of m centred variables in [−1, 1] is beyond ε with probability ≤ exp(−ε²m).",
        judge=lambda r, c: holds(r.shorthand - r.signs, ROUNDING),
        source=SHORTHAND,
        kind="printed",
        formula=r"\Pr\left[\left|\tfrac1m \textstyle\sum_i x_i\right| \ge \epsilon\right]"
        r" \le e^{-\epsilon^2 m}",
    ),
    Claim(
        "It is beyond ε with probability ≤ 2 exp(−ε²m/2).",
        judge=lambda r, c: holds(np.log(2) + r.shorthand / 2 - r.signs, ROUNDING),
        source=SHORTHAND,
        kind="corrected",
        formula=r"\Pr\left[\left|\tfrac1m \textstyle\sum_i x_i\right| \ge \epsilon\right]"
        r" \le 2 e^{-\epsilon^2 m / 2}",
    ),
    Claim(
        "Bernstein's bound is never below the exact tail of a sum of rare successes.",
        judge=lambda r, c: holds(r.bernstein_rare - r.rare, ROUNDING),
        source=LAB,
        formula=r"\Pr\left[\textstyle\sum_i X_i > t\right]"
        r" \le \exp\left(-\frac{t^2 / 2}{\sum_j \mathbb{E}X_j^2 + M t / 3}\right)",
    ),
    Claim(
        "Where the variance is far below the range, Bernstein's bound is below Hoeffding's.",
        judge=lambda r, c: at_least((r.hoeffding_rare - r.bernstein_rare).min(), 0.0),
        source=LAB,
    ),
    Claim(
        "Where the variance is as large as the range allows, it is not.",
        judge=lambda r, c: at_most((r.hoeffding_fair - r.bernstein_fair).max(), 0.0),
        source=LAB,
        kind="control",
    ),
    Claim(
        "A Gaussian is within t with probability between 2t/3σ and 4t/5σ, for all t.",
        judge=lambda r, c: holds(_anti_margins(r)),
        source=ANTI,
        kind="printed",
        formula=r"\tfrac23 \tfrac{t}{\sigma} < \Pr[|X| \le t] < \tfrac45 \tfrac{t}{\sigma}",
    ),
    Claim(
        "A Gaussian is within t with probability between 2t/3σ and 4t/5σ, for t up to σ.",
        judge=lambda r, c: holds(_anti_margins(r)[r.sigmas <= 1]),
        source=ANTI,
        kind="corrected",
        formula=r"\tfrac23 \tfrac{t}{\sigma} < \Pr[|X| \le t] < \tfrac45 \tfrac{t}{\sigma},"
        r"\ 0 < t \le \sigma",
    ),
    Claim(
        "The mean norm of a sum of random matrices is below matrix Bernstein's bound.",
        judge=lambda r, c: mean_between(r.norms / r.norm_bound, 0.0, 1.0),
        source=MATRIX,
        formula=r"\mathbb{E}\|Z\| \le \sqrt{2 v \log(n_1 + n_2)} + \tfrac{M}{3} \log(n_1 + n_2)",
    ),
    Claim(
        "Its tail is below matrix Bernstein's, where that is 0.1.",
        judge=lambda r, c: probability_at_most(
            np.count_nonzero(~(r.norms < r.tail_start)),
            r.norms.size,
            TAIL,  # NaN is beyond
        ),
        source=MATRIX,
        formula=r"\Pr[\|Z\| \ge t] \le (n_1 + n_2) \exp\left(-\frac{t^2 / 2}{v + M t / 3}\right)",
    ),
    Claim(
        "The law of a standardised sum approaches the normal law as one over √m.",
        # The distance is half an atom, √(2/πm)/2, up to a relative correction of order 1/m.
        judge=lambda r, c: between(power_law(r.counts, r.clt_distance).exponent, -0.51, -0.49),
        source=LAB,
        formula=r"\sup_x |F_m(x) - \Phi(x)| \propto m^{-1/2}",
    ),
    Claim(
        "If all signs are one and the same, Hoeffding's bound is violated.",
        judge=lambda r, c: at_most((r.hoeffding - r.dependent).min(), -1.0),
        source=LAB,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw exact tails with their bounds, anti-concentration, and the norms of matrices."""
    figure, (signs, binomial, normal, matrix) = panels(
        "|sum of signs| ≥ t", "binomial sum ≥ (1 + δ)μ", "normal |X| ≤ t", "norm of a matrix sum"
    )
    signs.plot(result.t, result.signs, label="exact", **THEORY)
    signs.plot(result.t, result.chebyshev, label="Chebyshev")
    signs.plot(result.t, result.hoeffding, label="Hoeffding")
    signs.plot(result.t, result.shorthand, label="exp(−ε²m)")
    signs.set(xlabel="t", ylabel="log probability")

    binomial.plot(result.delta, result.above, label="exact", **THEORY)
    binomial.plot(result.delta, result.markov, label="Markov")
    binomial.plot(result.delta, result.chernoff, label="−δ²μ/3")
    binomial.plot(result.delta, result.chernoff_far, label="Chernoff for all δ")
    binomial.set(xlabel="δ", ylabel="log probability")

    normal.plot(result.sigmas, result.within, label="exact", **THEORY)
    normal.plot(result.sigmas, result.anti_low, label="2t/3σ")
    normal.plot(result.sigmas, result.anti_high, label="4t/5σ")
    normal.set(xlabel="t/σ", ylabel="probability", ylim=(0, 1.5))

    matrix.hist(result.norms, bins=30, density=True, label="simulated")
    matrix.axvline(float(result.norm_bound), label="bound of the mean", **THEORY)
    matrix.set(xlabel="‖Z‖")
    for axis in (signs, binomial, normal, matrix):
        axis.legend(fontsize=7)
    return figure
