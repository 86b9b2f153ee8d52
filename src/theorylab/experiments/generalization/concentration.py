"""Sums of independent variables stay near their mean, and every bound says how near.

Five bounds (Markov, Chebyshev, Chernoff, Hoeffding, Gaussian anti-concentration) are laid beside
the exact tails of binomial, sign and normal sums, on grids and in logarithms. Each of them holds on
its domain. Three of them are printed beyond their domain, where they fail: Chernoff's −δ²μ/3 for
δ > 1, anti-concentration for t > σ, and the shorthand exp(−ε²m) for averages. Bernstein's bounds
are in `generalization/bernstein`.

Here m counts the summands, μ is the mean, σ² the variance, δ and ε are relative and absolute
deviations, t is a distance from the mean.

Source: arora · concentration-lab · §1.1.1, Lemmas 1.1.1–1.1.7, Theorem 1.1.3.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_most, holds
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Checked, Count, Positive, within
from theorylab.generalization import exact_tails, tail_bounds
from theorylab.progress import report
from theorylab.typing import Measured

PRECISION = "float64"
FORMULA = r"\Pr[|X - \mathbb{E}X| \ge t] \le 2 \exp\left(-\frac{2 t^2}{\sum_i (b_i - a_i)^2}\right)"

MARKOV = Source("arora", "concentration-lab", "Lemma 1.1.1")
CHEBYSHEV = Source("arora", "concentration-lab", "Lemma 1.1.2")
NORMAL = Source("arora", "concentration-lab", "Theorem 1.1.3")
CHERNOFF = Source("arora", "concentration-lab", "Lemma 1.1.4")
HOEFFDING = Source("arora", "concentration-lab", "Lemma 1.1.5")
ANTI = Source("arora", "concentration-lab", "Lemma 1.1.7")
SHORTHAND = Source("arora", "concentration-lab", "§1.1.1, shorthand")

COUNTS = (16, 64, 256, 1024, 4096)  # numbers of signs for the central limit theorem


@dataclass(frozen=True)
class Config(Checked):
    """Bounds beside exact tails on a grid."""

    num_trials: Count = 10000  # trials of the binomial sums
    probability: Annotated[Positive, within(0, 0.5)] = 0.001  # of success in each
    num_signs: Count = 100  # random signs in a sum
    largest_delta: Positive = 5.0  # relative deviations δ reach from 0 to this
    resolution: Count = 400  # points of every grid

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 < self.largest_delta < 1 / self.probability:
            must = "largest_delta must be between 1 and 1/probability, where the sum ends"
            raise ValueError(f"{must}, got {self.largest_delta}.")


PRESETS = {"smoke": Config(resolution=60), "paper": Config(resolution=10000)}


class Result(NamedTuple):
    """Exact tails and their bounds, in logarithms unless it says otherwise; g or h points."""

    delta: Float[Measured, " g"]  # relative deviations δ up to the largest
    above: Float[Measured, " g"]  # P(X ≥ (1 + δ)μ), exact
    markov: Float[Measured, " g"]
    chernoff: Float[Measured, " g"]  # −δ²μ/3, on all of the grid
    chernoff_far: Float[Measured, " g"]  # −μ((1 + δ)log(1 + δ) − δ)
    fraction: Float[Measured, " g"]  # relative deviations δ < 1
    below: Float[Measured, " g"]  # P(X ≤ (1 − δ)μ), exact
    chernoff_below: Float[Measured, " g"]
    t: Float[Measured, " h"]  # distances of a sum of signs from 0
    signs: Float[Measured, " h"]  # P(|Σ ε| ≥ t), exact
    chebyshev: Float[Measured, " h"]
    hoeffding: Float[Measured, " h"]
    shorthand: Float[Measured, " h"]  # −ε²m with ε = t/m
    sigmas: Float[Measured, " g"]  # t/σ from 0 to 3
    within: Float[Measured, " g"]  # P(|X| ≤ t) itself for a normal X
    anti_low: Float[Measured, " g"]
    anti_high: Float[Measured, " g"]
    clt_distance: Float[Measured, " m"]  # sup |F − Φ| of the standardised sum of signs


def run(config: Config) -> Result:
    """Lay the bounds beside the exact tails."""
    report("exact tails", 0.0)
    distances = [exact_tails.distance_from_normal(m) for m in COUNTS]
    tails = _binomials(config) | _signs(config) | _normals(config)
    return Result(**tails, clt_distance=np.asarray(distances))


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
    }


def _normals(config: Config) -> dict[str, np.ndarray]:
    """Anti-concentration of a standard normal variable, up to three deviations."""
    sigmas = np.linspace(0, 3, config.resolution + 1)[1:]
    low, high = tail_bounds.anti_concentration_shorthand(1.0, sigmas)
    within = exact_tails.normal_within(1.0, sigmas)
    return {"sigmas": sigmas, "within": within, "anti_low": low, "anti_high": high}


def _near(result: Result) -> np.ndarray:
    """Where δ is at most 1."""
    return result.delta <= 1


def _anti_margins(result: Result) -> np.ndarray:
    """How far P(|X| ≤ t) is inside its two bounds, at every t."""
    return np.minimum(result.within - result.anti_low, result.anti_high - result.within)


# Exact tails carry rounding of some units in the last place of their logarithms, about 10⁴.
ROUNDING = 1e-9


def _chernoff(result: Result) -> np.ndarray:
    """Chernoff's exponents for the upper tail: −δ²μ/3 up to δ = 1, the longer one beyond."""
    return np.where(_near(result), result.chernoff, result.chernoff_far)


def _slack(result: Result) -> np.ndarray:
    """By what each bound is above the exact tail where it is nearest to it, in logarithms."""
    pairs = (
        (result.markov, result.above),
        (result.chebyshev, result.signs),
        (_chernoff(result), result.above),
        (result.chernoff_below, result.below),
        (result.hoeffding, result.signs),
    )
    return np.array([(bound - exact).min() for bound, exact in pairs])


def _stretched(result: Result) -> np.ndarray:
    """By what Chernoff's three bounds are above the tails at least, with larger exponents."""
    near = _near(result)
    gaps = (
        (2 * result.chernoff - result.above)[near],
        (1.1 * result.chernoff_far - result.above)[~near],
        2 * result.chernoff_below - result.below,
    )
    return np.array([gap.min() for gap in gaps])


CLAIMS = (
    MARKOV.claim(
        "Markov's bound is never below the exact tail of a binomial sum.",
        lambda r, c: holds(r.markov - r.above, ROUNDING),
        formula=r"\Pr[X \ge t] \le \mathbb{E}X / t",
    ),
    CHEBYSHEV.claim(
        "Chebyshev's bound is never below the exact tail of a sum of signs.",
        # The lemma speaks of non-negative variables; adding m to the sum makes it one.
        lambda r, c: holds(r.chebyshev - r.signs, ROUNDING),
        formula=r"\Pr[|X - \mathbb{E}X| \ge t] \le \mathrm{Var}X / t^2",
    ),
    *CHERNOFF.erratum(
        printed=(
            "Chernoff's upper tail bound exp(−δ²μ/3) holds for all δ > 0.",
            lambda r, c: holds(r.chernoff - r.above, ROUNDING),
            r"\Pr[X \ge (1 + \delta)\mu] \le e^{-\delta^2 \mu / 3},\ \delta > 0",
        ),
        corrected=(
            "It holds for δ up to 1; beyond, exp(−μ((1 + δ)log(1 + δ) − δ)) does.",
            lambda r, c: holds(_chernoff(r) - r.above, ROUNDING),
            r"\Pr[X \ge (1 + \delta)\mu] \le e^{-\mu((1 + \delta)\log(1 + \delta) - \delta)}",
        ),
        quote="where X_i = 1 with probability … and all X_i are independent",
    ),
    CHERNOFF.claim(
        "Chernoff's lower tail bound holds for all δ below 1.",
        lambda r, c: holds(r.chernoff_below - r.below, ROUNDING),
        formula=r"\Pr[X \le (1 - \delta)\mu] \le e^{-\delta^2 \mu / 2}",
    ),
    HOEFFDING.claim(
        "Hoeffding's bound is never below the exact tail of a sum of signs.",
        lambda r, c: holds(r.hoeffding - r.signs, ROUNDING),
        formula=r"\Pr[|X - \mathbb{E}X| \ge t] \le 2 e^{-2 t^2 / \sum_i (b_i - a_i)^2}",
    ),
    HOEFFDING.control(
        "Each of these five bounds, divided by e³, is below the exact tail somewhere; so are"
        " Chernoff's with twice the exponent, or 1.1 times the longer one.",
        lambda r, c: at_most(max(_slack(r).max() - 3, _stretched(r).max()), 0.0),
        demand="derived: at μ = 10 exact tails have 1.7 times −δ²μ/3 at δ = 1, 1.9 times −δ²μ/2"
        " near δ = 0.9, and 1.05 times the longer exponent at δ = 5; e³ is the lab's",
    ),
    *SHORTHAND.erratum(
        printed=(
            "An average of m centred variables in [−1, 1] is beyond ε with probability"
            " ≤ exp(−ε²m).",
            lambda r, c: holds(r.shorthand - r.signs, ROUNDING),
            r"\Pr\left[\left|\tfrac1m \textstyle\sum_i x_i\right| \ge \epsilon\right]"
            r" \le e^{-\epsilon^2 m}",
        ),
        corrected=(
            "It is beyond ε with probability ≤ 2 exp(−ε²m/2).",
            lambda r, c: holds(np.log(2) + r.shorthand / 2 - r.signs, ROUNDING),
            r"\Pr\left[\left|\tfrac1m \textstyle\sum_i x_i\right| \ge \epsilon\right]"
            r" \le 2 e^{-\epsilon^2 m / 2}",
        ),
        quote="the probability that this average is at least … in absolute value is at most",
    ),
    *ANTI.erratum(
        printed=(
            "A Gaussian is within t with probability between 2t/3σ and 4t/5σ, for all t.",
            lambda r, c: holds(_anti_margins(r)),
            r"\tfrac23 \tfrac{t}{\sigma} < \Pr[|X| \le t] < \tfrac45 \tfrac{t}{\sigma}",
        ),
        corrected=(
            "A Gaussian is within t with probability between 2t/3σ and 4t/5σ, for t up to σ.",
            lambda r, c: holds(_anti_margins(r)[r.sigmas <= 1]),
            r"\tfrac23 \tfrac{t}{\sigma} < \Pr[|X| \le t] < \tfrac45 \tfrac{t}{\sigma},"
            r"\ 0 < t \le \sigma",
        ),
        quote="that is, the probability density function of X is given by",
    ),
    NORMAL.claim(
        "The law of a sum of signs approaches the normal law: at 4096 signs they differ by half an"
        " atom, 0.006.",
        lambda r, c: at_most(
            abs(r.clt_distance[-1] / np.sqrt(1 / (2 * np.pi * COUNTS[-1])) - 1), 0.01
        ),
        formula=r"\sup_x |F_m(x) - \Phi(x)| \approx 1/\sqrt{2 \pi m}",
        quote="behaves like the normal distribution",
        demand="derived: half an atom of the law, up to a relative correction of order 1/m",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw exact tails with their bounds, and anti-concentration."""
    figure, (signs, binomial, normal) = panels(
        "|sum of signs| ≥ t", "binomial sum ≥ (1 + δ)μ", "normal |X| ≤ t"
    )
    shown = (
        (signs, result.t, ("signs", "chebyshev", "hoeffding", "shorthand")),
        (binomial, result.delta, ("above", "markov", "chernoff", "chernoff_far")),
        (normal, result.sigmas, ("within", "anti_low", "anti_high")),
    )
    for axis, x, (exact, *bounds) in shown:
        axis.plot(x, getattr(result, exact), label="exact", **THEORY)
        for name in bounds:
            axis.plot(x, getattr(result, name), label=name.replace("_", " "))
        axis.legend(fontsize=7)
    label_axes(signs, "t", "log probability")
    label_axes(binomial, "δ", "log probability")
    label_axes(normal, "t/σ", "probability")
    normal.set_ylim(0, 1.5)
    return figure
