"""One filter with a soft threshold learns to find the signal from some k₀ between 300 and 1000 on.

The theorem: there is a k₀ such that for every k ≥ k₀ noise patches of size log k/√k, a filter with
a soft threshold, trained by SGD on fresh batches, errs on at most 1 % in the end. It does not say
what k₀ is. The best threshold that there is errs on 37 % at k = 100 and on 23 % at k = 300, so that
no training can succeed there; at k = 1000 it errs on 0.2 %. So k₀ lies above 300, and at k = 100
descent on the true risk comes to rest at an accuracy of 0.63. (The theorem's algorithm has
η_b = η/k, and the source says that its proofs extend to larger η_b; here η_b = η/10.) Above k₀ it
learns, and the sooner the more noise patches there are, at one ratio of the two learning rates: the
gap between the largest noise and the signal opens.

The learning rate has to be small, too: where the bias falls faster than the filter grows, the
threshold overtakes the signal in the first steps, and the network is dead. From samples the noise
of the first batches can do the same: at k = 10⁴ and η_b = η/10 runs with batches of 150 live or die
by chance. With a slower bias, η_b = 0.03 η, batches of 50 are enough for an error of 1 %.

Source: karp · lsa-thm31 · 3.4, B.1.3, Thm 3.1; karp · lsa-linear · 3.3.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_least,
    at_most,
    between,
    holds,
    median_at_least,
    median_at_most,
)
from theorylab.data import patch_law
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels
from theorylab.features.local_signal import (
    FilterRates,
    FilterState,
    Grid,
    best_threshold,
    descend_each,
    error_rates,
    learn_projected,
    small_state,
)
from theorylab.fields import Count, Increasing, Plural, Positive, Seeded, within
from theorylab.numerics import power_law
from theorylab.progress import report
from theorylab.training import ensemble, every
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"P[\mathrm{sign} f_T(X) \ne y] \le 0.01, \quad k \ge k_0"

THEOREM = Source("karp", "lsa-thm31", "3.4, Thm 3.1")
SIZE = Source("karp", "lsa-thm31", "3.4, Thm 3.1, k₀")
SCHEDULE = Source("karp", "lsa-thm31", "B.1.3, η and T")
BASELINE = Source("karp", "lsa-linear", "3.3")
SIZES = (30, 100, 300, 1000, 3000, 10000)  # k of the best thresholds
SMALL, SOUND = 300, 1000  # k₀ lies between
RECORDS = 120
Steps = Annotated[int, within(RECORDS)]
GOAL = 0.95
RATIO = 0.1  # η_b/η
COARSE = Grid(num_frequencies=64, spacing=0.15, num_nodes=64)


@dataclass(frozen=True)
class Config(Seeded):
    """Descent on the true risk at several k, and SGD at one; η_b = η/10."""

    num_patches: Plural = 1000  # k of the long descent
    learning_rate: Positive = 0.1  # its η
    num_steps: Steps = 30000
    failing_patches: Plural = 100  # k of a descent that fails, with η = 0.1
    dying_patches: Plural = 3000  # k of a descent that dies, with η = 0.1
    timed_patches: Increasing[Plural] = (1000, 3000, 10000)  # k of those that are timed
    timed_rate: Positive = 0.02  # their η, and that of SGD
    timed_steps: Steps = 12000
    sgd_patches: Plural = 1000  # k of SGD
    sgd_batch: Count = 100  # fresh samples in a step
    sgd_steps: Steps = 2000
    learned_patches: Plural = 10000  # k of SGD that is to err on 1 %, with η = 0.02 too
    learned_ratio: Positive = 0.03  # its η_b/η
    learned_batch: Count = 50
    learned_steps: Steps = 2000  # the true risk has an error of 1 % after 1400
    num_seeds: Count = 6  # runs of SGD, at least 6 to conclude
    num_ratios: Count = 100  # thresholds that are tried at every k

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("sgd_steps", "learned_steps"):
            if (steps := getattr(self, name)) > self.timed_steps:
                raise ValueError(f"{name} must be at most {self.timed_steps}, got {steps}.")


PRESETS = {
    "smoke": Config(
        num_patches=10000,
        learning_rate=0.02,
        num_steps=1200,
        timed_patches=(10000, 30000),
        timed_steps=300,
        sgd_patches=100,
        sgd_steps=200,
        learned_patches=100,  # the same runs serve for both
        learned_ratio=RATIO,
        learned_batch=100,
        learned_steps=200,
        num_ratios=20,
    ),
    "paper": Config(num_steps=100000, timed_steps=100000, sgd_batch=500, sgd_steps=15000),
}


class Result(NamedTuple):
    """Axes: k sizes, t and u recorded steps, m timed sizes, s seeds of SGD, r and q its records."""

    ratios: Float[np.ndarray, " k"]  # the best threshold over the filter's length
    best_accuracies: Float[np.ndarray, " k"]
    linear_accuracies: Float[np.ndarray, " k"]  # without a threshold
    steps: Int[np.ndarray, " t"]
    accuracy: Float[np.ndarray, " t"]  # of the long descent
    threshold: Float[np.ndarray, " t"]  # its |b|/c
    failing: Float[np.ndarray, " t"]
    failing_gradient: float  # the largest part of the last gradient there
    dying: Float[np.ndarray, " t"]
    timed_steps: Int[np.ndarray, " u"]
    timed: Float[np.ndarray, "m u"]
    times: Float[np.ndarray, " m"]  # steps from which on accuracy is above 0.95
    sgd_steps: Int[np.ndarray, " r"]
    sgd: Float[np.ndarray, "s r"]
    sgd_true: Float[np.ndarray, " r"]  # of descent on the true risk
    learned_steps: Int[np.ndarray, " q"]
    learned: Float[np.ndarray, "s q"]  # of SGD that is to err on 1 %
    learned_true: Float[np.ndarray, " q"]


def memory(config: Config) -> int:
    """Bytes of the noise of one batch, on two cores, and of what becomes of it."""
    drawn = config.sgd_batch * config.sgd_patches, config.learned_batch * config.learned_patches
    return 4 * 2 * 6 * max(drawn)


def run(config: Config) -> Result:
    """Search the best thresholds, descend on the true risk at several k, and run SGD."""
    report("best thresholds", 0.0)
    laws = [patch_law(k, 2) for k in SIZES]
    best = [best_threshold(law, config.num_ratios) for law in laws]
    report("descent on the true risk", 0.1)
    patches = (config.num_patches, config.failing_patches, config.dying_patches)
    rates = [_rates(rate) for rate in (config.learning_rate, 0.1, 0.1)]
    steps = every(config.num_steps // RECORDS, config.num_steps)
    states, gradients, accuracies = _descended(patches, rates, steps)
    timed_steps = every(config.timed_steps // RECORDS, config.timed_steps)
    first, second = _sampled(config)
    slow = [_rates(config.timed_rate)] * len(config.timed_patches) + [first.rates, second.rates]
    sizes = (*config.timed_patches, first.num_patches, second.num_patches)
    *timed, beside, by_learned = _descended(sizes, slow, timed_steps)[2]
    report("SGD", 0.4)
    sgd_steps, learned_steps = (timed_steps[timed_steps <= s.num_steps] for s in (first, second))
    sgd = _sgd(config, first, sgd_steps)
    learned = sgd if first == second else _sgd(config, second, learned_steps)
    return Result(
        ratios=np.array([ratio for ratio, _ in best]),
        best_accuracies=np.array([1 - error for _, error in best]),
        linear_accuracies=np.array([1 - law.linear_error for law in laws]),
        steps=steps,
        accuracy=accuracies[0],
        threshold=-np.asarray(states.bias / states.signal)[0],
        failing=accuracies[1],
        failing_gradient=max(float(jnp.abs(part[1, -1])) for part in gradients),
        dying=accuracies[2],
        timed_steps=timed_steps,
        timed=np.stack(timed),
        times=np.array([_reached(timed_steps, row) for row in timed]),
        sgd_steps=sgd_steps,
        sgd=sgd,
        sgd_true=beside[: len(sgd_steps)],
        learned_steps=learned_steps,
        learned=learned,
        learned_true=by_learned[: len(learned_steps)],
    )


class Sampled(NamedTuple):
    """How SGD is run."""

    num_patches: int
    rates: FilterRates
    batch_size: int
    num_steps: int


def _sampled(config: Config) -> tuple[Sampled, Sampled]:
    """Beside the timed descents, and until it errs on 1 %."""
    eta = config.timed_rate
    slower = FilterRates(eta, config.learned_ratio * eta)
    return (
        Sampled(config.sgd_patches, _rates(eta), config.sgd_batch, config.sgd_steps),
        Sampled(config.learned_patches, slower, config.learned_batch, config.learned_steps),
    )


def _rates(learning_rate: float) -> FilterRates:
    return FilterRates(learning_rate, RATIO * learning_rate)


def _descended(
    patches: tuple[int, ...], rates: list[FilterRates], steps: np.ndarray
) -> tuple[FilterState, FilterState, np.ndarray]:
    """States, gradients and accuracies of descent on the true risk, one row for each k."""
    laws = [patch_law(k, 2) for k in patches]
    start = FilterState(jnp.array(1e-6), jnp.array(0.0), jnp.array(0.0))
    states, risks = descend_each(start, laws, rates, steps, COARSE).records
    rows = [jax.tree.map(lambda leaf, i=i: leaf[i], states) for i in range(len(laws))]
    errors = [error_rates(row, law, 2**12) for row, law in zip(rows, laws, strict=True)]
    return states, risks.gradient, 1 - np.stack(errors)


def _reached(steps: np.ndarray, accuracy: np.ndarray) -> float:
    """The first recorded step from which on accuracy is above the goal; NaN if it never is.

    A bias that overshoots may give a good network for a few steps only, which does not count.
    """
    below = np.flatnonzero(accuracy <= GOAL)
    place = below[-1] + 1 if len(below) else 0
    return float(steps[place]) if place < len(steps) else np.nan


def _sgd(config: Config, sampled: Sampled, steps: np.ndarray) -> np.ndarray:
    """Accuracies of SGD, all seeds."""
    law = patch_law(sampled.num_patches, 10)

    def one(key: RandomKey) -> FilterState:
        start_key, batch_key = jax.random.split(key)
        start = small_state(start_key, law)
        run = learn_projected(batch_key, start, law, sampled.rates, sampled.batch_size, steps)
        return run.records

    states = ensemble(one, jax.random.split(jax.random.key(config.seed), config.num_seeds))
    return 1 - error_rates(states, law, 2**12)


def _sizes(result: Result, chosen: np.ndarray) -> np.ndarray:
    return result.best_accuracies[chosen]


CLAIMS = (
    SIZE.found(
        "k₀ may be 1000: from there on there are thresholds that err on at most 1 %.",
        lambda r, c: at_least(_sizes(r, np.array(SIZES) >= SOUND).min(), 0.99),
        demand="source",
    ),
    SIZE.found(
        "k₀ is above 300: up to there no threshold errs on less than 20 %.",
        lambda r, c: at_most(_sizes(r, np.array(SIZES) <= SMALL).max(), 0.8),
        demand="lab: the best threshold at k = 300 has an accuracy of 0.773",
    ),
    BASELINE.control(
        "Without a threshold accuracy is at most 0.63 at every k.",
        lambda r, c: at_most(r.linear_accuracies.max(), 0.63),
        formula=r"\Phi(1/\log k)",
        demand="lab: the closed form has 0.625 at k = 30",
    ),
    THEOREM.claim(
        "For k ≥ k₀ descent on the true risk errs on at most 1 % at the end.",
        lambda r, c: at_least(r.accuracy[-1], 0.99),
        quote="There exists an absolute constant k_0 such that, for every",
        regime="num_patches >= 1000",
        demand="source",
    ),
    THEOREM.claim(
        "For k ≥ k₀ SGD on fresh batches errs on at most 1 % at the end.",
        lambda r, c: median_at_least(r.learned[:, -1], 0.99),
        quote="for the final network",
        regime="learned_patches >= 10000 and learned_steps >= 1400",
        demand="source",
    ),
    SIZE.control(
        "Below k₀, at k = 100, it comes to rest at an accuracy of 0.63, to 0.02.",
        lambda r, c: between(r.failing[-1], 0.61, 0.65),
        demand="lab: the best threshold has 0.628",
    ),
    SIZE.check(
        "It is at rest there: its gradient is below 0.02.",
        lambda r, c: at_most(r.failing_gradient, 0.02),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    SCHEDULE.control(
        "With η = 0.1 at k = 3000 the threshold overtakes the signal, and all outputs are 0.",
        lambda r, c: at_most(r.dying[-1], 0.01),
    ),
    SCHEDULE.found(
        "At one ratio of learning rates an accuracy of 0.95 comes sooner the more patches.",
        lambda r, c: holds(-np.diff(r.times) - 1),
    ),
    SCHEDULE.found(
        "The number of steps falls at least as 1/√k, where the proof's bound grows as √k.",
        lambda r, c: at_most(power_law(np.array(c.timed_patches), r.times).exponent, -0.5),
        formula=r"T \lesssim \sqrt{k} \log^{3/2} k / \eta",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    THEOREM.claim(
        "SGD stays with descent on the true risk: it ends within half a point.",
        lambda r, c: median_at_most(
            np.abs((r.sgd - r.sgd_true[None, :])[:, -5:].mean(axis=1)), 0.005
        ),
        quote="the empirical gradient concentrates around the true gradient",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the best thresholds over k, the long descents, the timed ones, and SGD."""
    figure, (best, long, timed, sgd) = panels(
        "best threshold", "descent on the true risk", "more patches are learned sooner", "SGD"
    )
    best.plot(SIZES, result.best_accuracies, "o-", ms=3, label="best threshold")
    best.plot(SIZES, result.linear_accuracies, "s-", ms=3, label="no threshold")
    best.axhline(0.99, label="the theorem's 0.99", **THEORY)
    for name, row in (("learns", result.accuracy), ("k = 100", result.failing)):
        long.plot(result.steps, row, label=name)
    long.plot(result.steps, result.dying, label="dies")
    for size, row in zip(config.timed_patches, result.timed, strict=True):
        timed.plot(result.timed_steps, row, label=f"k = {size}")
    timed.axhline(GOAL, **THEORY)
    curves(sgd, result.sgd_steps, {f"k = {config.sgd_patches}": result.sgd})
    curves(sgd, result.learned_steps, {f"k = {config.learned_patches}": result.learned}, "-", 1)
    sgd.plot(result.sgd_steps, result.sgd_true, label="true risk", **THEORY)
    sgd.plot(result.learned_steps, result.learned_true, **THEORY)
    label_axes(best, "noise patches k", "accuracy", "x")
    for axis in (long, timed, sgd):
        label_axes(axis, "step")
    for axis in (best, long, timed, sgd):
        axis.legend(fontsize=6)
    return figure
