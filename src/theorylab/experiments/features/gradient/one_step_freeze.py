"""One step of everything, then only the output layer: a convex problem with bounds that hold.

After one gradient step the hidden layer is frozen, and descent in the output layer is descent on a
convex and smooth loss (the logistic one, divided by ln 2). With step size 1/L the loss is within
L‖a⁽⁰⁾ − a*‖²/2t of that of any a*, at every step t; the best of several a* makes this bound sharp,
and these are the best output layers of several norms. On ‖a‖ ≤ B the loss on new samples exceeds
that on the n seen ones by no more than a Rademacher bound of order 1/√n. The source prints 1/t for
the step size: such steps soon are far too short, and the loss ends much higher.

Source: shi · one-step-freeze · Algorithm 4, Theorems 3.4, B.2, Lemma B.78.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    exponent_between,
    holds,
    identity,
    median_at_least,
    median_at_most,
    ordered,
    probability_at_least,
)
from theorylab.data.mixtures import SeparableLaw, separable_law
from theorylab.experiments.checks import refuse_nonpositive
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features.gradient import (
    FiniteLaw,
    ReluNetwork,
    descend_outputs,
    descent_bound,
    error_rate,
    forgetting_schedule,
    frozen_optimum,
    gap_bound,
    gradient_step,
    margin_loss,
    output_smoothness,
    risk,
    symmetric_network,
)
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"\hat L(a^{(t)}) - \hat L(a^*) \le \frac{L \|a^{(0)} - a^*\|^2}{2t}"

DESCENT = Source("shi", "one-step-freeze", "Theorem B.2, descent")
GAP = Source("shi", "one-step-freeze", "Lemma B.78")
LOSS = Source("shi", "gfl-net", "Assumption 3.1, Remark 3.2")
STEP = Source("shi", "one-step-freeze", "Theorem 3.4, the step size")

FIRST_RATE = 4.0  # η⁽¹⁾
RADII = (0.25, 0.5, 1.0, 2.0)  # norms of the comparisons a*, over that of the last step
TOO_LONG = (
    16.0  # the control's step size times L; 2 is what descent allows at the largest curvature
)


@dataclass(frozen=True)
class Config:
    """Separable data with bounded inputs, one step, then the output layer."""

    dimension: int = 20
    margin: float = 0.1  # β
    radius: float = 1.0  # of an input across the separating direction
    bias: float = 2.0  # over the standard deviation of ⟨w, x⟩
    width: int = 16  # m, a quarter of the neurons
    sample_sizes: tuple[int, ...] = (50, 100, 200, 400, 800)  # n, growing
    num_steps: int = 1000  # T, in the output layer
    num_tested: int = 5000
    num_seeds: int = 100  # runs, at least 72 to conclude about 95 %
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.dimension <= 10**5:
            raise ValueError(f"dimension must be from 2 to 10^5, got {self.dimension}.")
        refuse_nonpositive(self, "margin", "radius", "bias")
        sizes = self.sample_sizes
        if len(sizes) < 2 or list(sizes) != sorted(set(sizes)) or not 1 <= sizes[0] <= 10**7:
            raise ValueError(f"sample_sizes must be two or more, growing, got {sizes}.")
        for name in ("width", "num_tested", "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**7:
                raise ValueError(f"{name} must be from 1 to 10^7, got {getattr(self, name)}.")
        if not 10 <= self.num_steps <= 10**7:
            raise ValueError(f"num_steps must be from 10 to 10^7, got {self.num_steps}.")

    @property
    def steps(self) -> np.ndarray:
        """The recorded steps."""
        return np.unique(np.geomspace(1, self.num_steps, 20).round().astype(int))


PRESETS = {
    "smoke": Config(
        dimension=8, width=4, sample_sizes=(40, 160), num_steps=200, num_tested=1000, num_seeds=80
    ),
    "paper": Config(dimension=500, width=1024, sample_sizes=(1000, 10000, 100000)),
}


class Measured(NamedTuple):
    """What is measured about one run."""

    losses: Float[jax.Array, " t"]  # on the sample, at the recorded steps
    bounds: Float[jax.Array, " t"]  # the least over a* of its loss + L‖a⁽⁰⁾ − a*‖²/2t
    rises: Float[jax.Array, ""]  # the largest rise of the loss from one step to the next
    long_rises: Float[jax.Array, ""]  # the same with steps that are too long, labels by chance
    printed: Float[jax.Array, " t"]  # losses with step sizes 1/t
    smoothness: Float[jax.Array, ""]  # L
    gap: Float[jax.Array, ""]  # loss on new samples − loss on the sample, at the end
    gap_bound: Float[jax.Array, ""]
    error: Float[jax.Array, ""]  # test error at the end
    frozen: Float[jax.Array, ""]  # loss on the sample at the end, without the first step


class Result(NamedTuple):
    """What was measured: sample sizes (n), seeds (s), steps (t)."""

    at_zero: Float[np.ndarray, " 2"]  # ln(1 + e⁻ᶻ) at z = 0, and divided by ln 2
    sample_sizes: Int[np.ndarray, " n"]
    steps: Int[np.ndarray, " t"]
    losses: Float[np.ndarray, "n s t"]
    bounds: Float[np.ndarray, "n s t"]
    rises: Float[np.ndarray, "n s"]
    long_rises: Float[np.ndarray, "n s"]
    printed: Float[np.ndarray, "n s t"]
    smoothness: Float[np.ndarray, "n s"]
    gap: Float[np.ndarray, "n s"]
    gap_bound: Float[np.ndarray, "n s"]
    error: Float[np.ndarray, "n s"]
    frozen: Float[np.ndarray, "n s"]


def memory(config: Config) -> int:
    """Bytes of the hidden layer on samples and on test samples."""
    return 8 * 2 * 4 * 4 * config.width * (max(config.sample_sizes) + config.num_tested)


def run(config: Config) -> Result:
    """One step, then descent in the output layer, for every sample size."""
    law = separable_law(jnp.ones(config.dimension), config.margin, 1.0, config.radius)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    levels = []
    for place, size in enumerate(config.sample_sizes):
        report(f"{size} samples", place / len(config.sample_sizes))
        levels.append(ensemble(partial(_measured, law=law, size=size, config=config), keys))
    stacked = {
        name: np.stack([np.asarray(getattr(level, name)) for level in levels])
        for name in Measured._fields
    }
    zero = np.array([np.logaddexp(0.0, 0.0), float(margin_loss(jnp.zeros(1), "logistic")[0])])
    return Result(zero, np.array(config.sample_sizes), config.steps, **stacked)


def _measured(key: RandomKey, law: SeparableLaw, size: int, config: Config) -> Measured:
    """One run of Algorithm 4, and its bounds."""
    start_key, sample_key, test_key, chance_key = jax.random.split(key, 4)
    scale = 1 / (config.bias * law.mean_square**0.5)
    start = symmetric_network(start_key, config.width, config.dimension, 1.0, scale)
    drawn, test = law.sample(sample_key, size), law.sample(test_key, config.num_tested)
    seen = FiniteLaw(drawn.x, drawn.y[:, 0], jnp.full(size, 1 / size))
    unseen = FiniteLaw(test.x, test.y[:, 0], jnp.full(config.num_tested, 1 / config.num_tested))
    moved = gradient_step(start, seen, forgetting_schedule(FIRST_RATE, 1.0, 1), 0, "logistic")
    smoothness = output_smoothness(moved.hidden(seen.x)).exact
    every, steps = np.arange(config.num_steps + 1), config.steps
    rates = jnp.full(config.num_steps, 1 / smoothness)
    run = descend_outputs(moved, seen, every, rates)
    printed = descend_outputs(moved, seen, steps, 1 / jnp.arange(1.0, config.num_steps + 1))
    bounds = _bounds(moved, seen, jnp.linalg.norm(run.params), smoothness, steps)
    # Labels by chance are not separable: where the loss has a minimum, long steps jump over it.
    chance = seen._replace(y=jax.random.rademacher(chance_key, (size,)).astype(seen.y.dtype))
    long = descend_outputs(moved, chance, np.arange(51), TOO_LONG * rates[:50])
    last = moved._replace(outputs=run.params)
    norm = jnp.linalg.norm(run.params)
    still = start._replace(outputs=0 * start.outputs)
    slow = jnp.full(config.num_steps, 1 / output_smoothness(start.hidden(seen.x)).exact)
    return Measured(
        losses=run.records[steps],
        bounds=bounds,
        rises=jnp.diff(run.records).max(),
        long_rises=jnp.diff(long.records).max(),
        printed=printed.records,
        smoothness=smoothness,
        gap=risk(last, unseen, "logistic") - risk(last, seen, "logistic"),
        gap_bound=gap_bound(moved, norm, law.largest_norm, size),
        error=error_rate(last, test),
        frozen=descend_outputs(still, seen, [config.num_steps], slow).records[-1],
    )


def _bounds(
    moved: ReluNetwork, seen: FiniteLaw, norm: Array, smoothness: Array, steps: np.ndarray
) -> Float[Array, " t"]:
    """The least bound of several comparisons: the best output layers of several norms."""
    hidden, times = moved.hidden(seen.x), jnp.asarray(steps, float)

    def compared(radius: Array) -> Float[Array, " t"]:
        best = frozen_optimum(hidden, seen, radius * norm, loss="logistic", num_steps=300)
        distance = jnp.linalg.norm(best.outputs - moved.outputs)
        return best.loss + descent_bound(distance, smoothness, times)

    return jax.lax.map(compared, jnp.array(RADII)).min(axis=0)


def _grouped(gaps: np.ndarray, groups: int = 6) -> np.ndarray:
    """Mean gaps of groups of seeds, (groups, n): one gap alone may be negative."""
    size = gaps.shape[1] // groups
    return gaps[:, : groups * size].reshape(len(gaps), groups, size).mean(axis=2).T


def _late(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """The recorded steps of the last decade, and the losses there with the most samples."""
    late = result.steps >= result.steps[-1] / 10
    return result.steps[late], result.losses[-1][:, late]


CLAIMS = (
    Claim(
        "The logistic loss is 1 at 0, as losses are assumed to be.",
        judge=lambda r, c: identity(r.at_zero[:1], np.ones(1), 1e-12),
        source=LOSS,
        kind="printed",
        formula=r"\ell(z) = \ln(1 + e^{-z})",
    ),
    Claim(
        "Divided by ln 2 it is.",
        judge=lambda r, c: identity(r.at_zero[1:], np.ones(1), 1e-12),
        source=LOSS,
        kind="corrected",
        formula=r"\ell(z) = \ln(1 + e^{-z}) / \ln 2",
    ),
    Claim(
        "With step size 1/L the loss exceeds a comparison's by at most the bound, at every step.",
        judge=lambda r, c: holds(r.bounds - r.losses, rounding=1e-9),
        source=STEP,
        kind="corrected",
        formula=r"\hat L(a^{(t)}) - \hat L(a^*) \le L \|a^{(0)} - a^*\|^2 / 2t",
    ),
    Claim(
        "The loss on new samples exceeds that on seen ones by less than its bound, in 95 %.",
        judge=lambda r, c: probability_at_least(
            int((r.gap <= r.gap_bound).all(axis=0).sum()), r.gap.shape[1], 0.95
        ),
        source=GAP,
    ),
    Claim(
        "Step sizes 1/t end within 10 % of the loss that step size 1/L reaches.",
        judge=lambda r, c: median_at_most(r.printed[-1, :, -1] / r.losses[-1, :, -1], 1.1),
        source=STEP,
        kind="printed",
    ),
    Claim(
        "With step size 1/L the loss never rises.",
        judge=lambda r, c: holds(-r.rises, rounding=1e-9),
        source=DESCENT,
    ),
    Claim(
        "Late in training the loss falls, but slower than 1/t: the best a* moves away.",
        judge=lambda r, c: exponent_between(*_late(r), -1.0, 0.0),
        source=DESCENT,
    ),
    Claim(
        "With step size 16/L the loss rises at some step, if labels are by chance.",
        judge=lambda r, c: median_at_least(r.long_rises[-1], 1e-6),
        source=DESCENT,
        kind="control",
    ),
    Claim(
        "The gap to new samples falls with n at least as fast as 1/√n, in means over seeds.",
        judge=lambda r, c: exponent_between(r.sample_sizes, _grouped(r.gap), -np.inf, -0.5),
        source=GAP,
    ),
    Claim(
        "With the most samples, runs err less on new ones than with the fewest.",
        judge=lambda r, c: ordered(r.error[-1], r.error[0]),
        source=GAP,
    ),
    Claim(
        "Without the first step, the same descent on the features of the start ends higher.",
        judge=lambda r, c: ordered(r.losses[-1, :, -1], r.frozen[-1]),
        source=DESCENT,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Losses and their bound over steps, and gaps over sample sizes."""
    figure, axes = panels("descent in the output layer", "new samples")
    axes[0].loglog(result.steps, result.losses[-1].T, color="#0072B2", alpha=0.15)
    axes[0].loglog(result.steps, np.median(result.bounds[-1], axis=0), label="bound", **THEORY)
    axes[0].set(xlabel="step", ylabel="loss on the sample")
    axes[1].loglog(result.sample_sizes, np.abs(result.gap).mean(axis=1), "o-", label="gap")
    axes[1].loglog(result.sample_sizes, result.gap_bound.mean(axis=1), label="bound", **THEORY)
    axes[1].set(xlabel="samples", ylabel="loss on new − on seen samples")
    for axis in axes:
        axis.legend(fontsize=7)
    return figure
