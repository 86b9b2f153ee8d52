"""One step of everything, then only the output layer: a convex problem with bounds that hold.

After one gradient step the hidden layer is frozen, and descent in the output layer is descent on a
convex and smooth loss (the logistic one, divided by ln 2). With step size 1/L the loss is within
L‖a⁽⁰⁾ − a*‖²/2t of that of any a*, at every step t; the best of several a* makes this bound sharp,
and these are the best output layers of several norms. On ‖a‖ ≤ B the loss on new samples exceeds
that on the n seen ones by no more than a Rademacher bound of order 1/√n.

The source prints 1/t for the step size in Theorem 3.4, and 1/L in its restatement, Theorem B.2.
Steps of size 1/t soon are far too short, and the loss ends above the bound. It also counts the
logistic loss among those that bound the error; that holds only if it is divided by ln 2.

`paper` has 4096 neurons on 10⁵ samples, which are held once: 17 GB, and about two hours of a core
for each of 100 seeds, which are blocks (reckoned from 3 GB that every step reads twice).

Source: shi · one-step-freeze · Algorithm 4, Theorems 3.4, B.2, Lemma B.78; shi · gfl-net ·
Assumption 3.1, Remark 3.2, (3.13).
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    exponent_between,
    holds,
    median_at_least,
    ordered,
    probability_at_least,
)
from theorylab.data.mixtures import SeparableLaw, separable_law
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels, scaling
from theorylab.features import gradient
from theorylab.fields import Count, Increasing, Plural, Positive, Seeded, within
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = r"\hat L(a^{(t)}) - \hat L(a^*) \le \frac{L \|a^{(0)} - a^*\|^2}{2t}"

DESCENT = Source("shi", "one-step-freeze", "Theorem B.2, (B.12)")
GAP = Source("shi", "one-step-freeze", "Lemma B.78")
LOSS = Source("shi", "gfl-net", "Remark 3.2, (3.13)")
STEP = Source("shi", "one-step-freeze", "Theorem 3.4, the step size")

RADIUS = 1.0  # of an input across the separating direction
BIAS = 2.0  # over the standard deviation of ⟨w, x⟩
FIRST_RATE = 4.0  # η⁽¹⁾
RADII = (0.25, 0.5, 1.0, 2.0)  # norms of the comparisons a*, over that of the last step
SMALL = 1e-3  # outputs of a network that is wrong almost everywhere, over those of the trained one
TOO_LONG = 16.0  # the control's step size times L; at the largest curvature descent allows 2


@dataclass(frozen=True)
class Config(Seeded):
    """Separable data with bounded inputs, one step, then the output layer."""

    dimension: Plural = 20
    margin: Positive = 0.1  # β
    width: Count = 16  # m, a quarter of the neurons
    sample_sizes: Increasing[Count] = (50, 100, 200, 400, 800)  # n
    num_steps: Annotated[int, within(10)] = 3000  # T, in the output layer
    num_test: Count = 5000
    num_seeds: Count = 100  # at least 72 to conclude about 95 %

    @property
    def steps(self) -> np.ndarray:
        """The recorded steps."""
        return np.unique(np.geomspace(1, self.num_steps, 20).round().astype(int))


PRESETS = {
    "smoke": Config(
        dimension=8, width=4, sample_sizes=(40, 160), num_steps=1000, num_test=1000, num_seeds=80
    ),
    "paper": Config(dimension=500, width=1024, sample_sizes=(1000, 10000, 100000)),
}


class Result(NamedTuple):
    """What was measured: sample sizes (n), seeds (s), steps (t)."""

    losses: Float[Measured, "n s t"]  # on the sample, at the recorded steps
    bounds: Float[Measured, "n s t"]  # the least over a* of its loss + L‖a⁽⁰⁾ − a*‖²/2t
    rises: Float[Measured, "n s"]  # the largest rise of the loss from one step to the next
    long_rises: Float[Measured, "n s"]  # the same with steps that are too long, random labels
    printed: Float[Measured, "n s t"]  # losses with step sizes 1/t
    gap: Float[Measured, "n s"]  # loss on new samples − loss on the sample, at the end
    gap_bound: Float[Measured, "n s"]
    error: Float[Measured, "n s"]  # test error at the end
    frozen: Float[Measured, "n s"]  # loss on the sample at the end, without the first step
    opposed: Float[Measured, "n s"]  # test error of a small multiple of minus the trained network
    opposed_loss: Float[Measured, "n s"]  # its test loss, divided by ln 2


def run(config: Config) -> Result:
    """One step, then descent in the output layer, for every sample size."""
    law = separable_law(jnp.ones(config.dimension), config.margin, 1.0, RADIUS)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    levels = []
    for place, size in enumerate(config.sample_sizes):
        report(f"{size} samples", place / len(config.sample_sizes))
        levels.append(ensemble(partial(_measured, law=law, size=size, config=config), keys))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *levels)


def _measured(key: RandomKey, law: SeparableLaw, size: int, config: Config) -> Result:
    """One run of Algorithm 4 and its bounds, for one seed."""
    start_key, sample_key, test_key, chance_key = jax.random.split(key, 4)
    scale = 1 / (BIAS * law.mean_square**0.5)
    start = gradient.symmetric_network(start_key, config.width, config.dimension, 1.0, scale)
    test = law.sample(test_key, config.num_test)
    seen, unseen = map(gradient.empirical_law, (law.sample(sample_key, size), test))
    once = gradient.forgetting_schedule(FIRST_RATE, 1.0, 1)
    moved = gradient.gradient_step(start, seen, once, 0, "logistic")
    smoothness = gradient.output_smoothness(moved.hidden(seen.x)).exact
    every, steps = np.arange(config.num_steps + 1), config.steps
    rates = jnp.full(config.num_steps, 1 / smoothness)
    run = gradient.descend_outputs(moved, seen, every, rates)
    shrinking = 1 / jnp.arange(1.0, config.num_steps + 1)
    # Labels by chance are not separable: where the loss has a minimum, long steps jump over it.
    chance = seen._replace(y=jax.random.rademacher(chance_key, (size,)).astype(seen.y.dtype))
    long = gradient.descend_outputs(moved, chance, np.arange(51), TOO_LONG * rates[:50])
    last, norm = moved._replace(outputs=run.params), jnp.linalg.norm(run.params)
    loss = partial(gradient.risk, last, loss="logistic")
    still = start._replace(outputs=0 * start.outputs)
    slow = 1 / gradient.output_smoothness(start.hidden(seen.x)).exact
    unmoved = gradient.descend_outputs(
        still, seen, [config.num_steps], jnp.full(config.num_steps, slow)
    )
    opposed = last._replace(outputs=-SMALL * last.outputs)
    return Result(
        losses=run.records[steps],
        bounds=_bounds(moved, seen, norm, smoothness, steps),
        rises=jnp.diff(run.records).max(),
        long_rises=jnp.diff(long.records).max(),
        printed=gradient.descend_outputs(moved, seen, steps, shrinking).records,
        gap=loss(unseen) - loss(seen),
        gap_bound=gradient.gap_bound(moved, norm, law.largest_norm, size),
        error=gradient.error_rate(last, test),
        frozen=unmoved.records[-1],
        opposed=gradient.error_rate(opposed, test),
        opposed_loss=gradient.risk(opposed, unseen, loss="logistic"),
    )


def _bounds(
    moved: gradient.ReluNetwork,
    seen: gradient.FiniteLaw,
    norm: Array,
    smoothness: Array,
    steps: np.ndarray,
) -> Float[Array, " t"]:
    """The least bound of several comparisons: the best output layers of several norms."""
    hidden, times = moved.hidden(seen.x), jnp.asarray(steps, float)

    def compared(radius: Array) -> Float[Array, " t"]:
        best = gradient.frozen_optimum(hidden, seen, radius * norm, loss="logistic", num_steps=300)
        distance = jnp.linalg.norm(best.outputs - moved.outputs)
        return best.loss + gradient.descent_bound(distance, smoothness, times)

    return jax.lax.map(compared, jnp.array(RADII)).min(axis=0)


def _grouped(gaps: np.ndarray, groups: int = 6) -> np.ndarray:
    """Mean gaps of groups of seeds, (groups, n): one gap alone may be negative."""
    size = gaps.shape[1] // groups
    return gaps[:, : groups * size].reshape(len(gaps), groups, size).mean(axis=2).T


def _late(result: Result, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """The recorded steps of the last decade, and the losses there with the most samples."""
    late = config.steps >= config.steps[-1] / 10
    return config.steps[late], result.losses[-1][:, late]


CLAIMS = (
    *LOSS.erratum(
        printed=(
            "No network errs more often than its logistic loss says.",
            lambda r, c: holds(math.log(2) * r.opposed_loss - r.opposed),
            r"\Pr[\operatorname{sign} g(x) \ne y] \le \mathbb{E} \ln(1 + e^{-y g(x)})",
        ),
        corrected=(
            "No network errs more often than its logistic loss, divided by ln 2, says.",
            lambda r, c: holds(r.opposed_loss - r.opposed),
            r"\Pr[\operatorname{sign} g(x) \ne y] \le \mathbb{E} \log_2(1 + e^{-y g(x)})",
        ),
        quote="the most popular loss functions satisfy the assumption, e.g., the hinge loss and"
        " logistic loss",
    ),
    *STEP.erratum(
        printed=(
            "With step sizes 1/t the loss exceeds a comparison's by at most the bound, at step T.",
            lambda r, c: holds((r.bounds - r.printed)[..., -1]),
        ),
        corrected=(
            "With step size 1/L the loss exceeds a comparison's by at most the bound, always.",
            lambda r, c: holds(r.bounds - r.losses, rounding=1e-9),
        ),
        formula=r"\hat L(a^{(t)}) - \hat L(a^*) \le L \|a^{(0)} - a^*\|^2 / 2t",
        quote="Training by Algorithm 1 with no updates for the first layer after the first"
        " gradient step",
        regime="num_steps >= 3000 or (num_steps >= 1000 and dimension <= 8)",
    ),
    DESCENT.control(
        "A bound 100 times smaller is exceeded, with the best of several a*.",
        lambda r, c: median_at_least(r.losses[-1, :, -1] / r.bounds[-1, :, -1], 1 / 100),
        demand="lab: with seed 0 the bound is 6.5 times the loss at smoke, 25 times by default",
    ),
    DESCENT.check(
        "With step size 1/L the loss never rises.",
        lambda r, c: holds(-r.rises, rounding=1e-9),
    ),
    DESCENT.control(
        "With step size 16/L the loss rises at some step, if labels are random.",
        lambda r, c: median_at_least(r.long_rises[-1], 1e-6),
    ),
    DESCENT.found(
        "Late in training the loss falls, but slower than 1/t: the best a* moves away.",
        lambda r, c: exponent_between(*_late(r, c), -1.0, -0.2),
        demand="lab: below −0.2, so that it falls at all; smoke and default have about −0.6",
    ),
    DESCENT.control(
        "Without the first step, the same descent on the features of the start ends higher.",
        lambda r, c: ordered(r.losses[-1, :, -1], r.frozen[-1]),
    ),
    GAP.claim(
        "The loss on new samples exceeds that on seen ones by less than its bound, in 95 %.",
        lambda r, c: probability_at_least(
            int((r.gap <= r.gap_bound).all(axis=0).sum()), c.num_seeds, 0.95
        ),
        formula=r"2 B_{a2} \sqrt{(\|W\|_F^2 B_x^2 + \|b\|^2)/n} + R \sqrt{\log(1/\delta)/2n}",
        demand="derived: the usual bound by (B.595) and McDiarmid, at δ = 0.05",
    ),
    GAP.found(
        "This bound is loose: more than 100 times the gap, at every number of samples.",
        lambda r, c: median_at_least((r.gap_bound / np.abs(r.gap)).min(axis=0), 100.0),
    ),
    GAP.found(
        "The gap to new samples falls with n at least as fast as 1/√n, in means over seeds.",
        lambda r, c: exponent_between(np.array(c.sample_sizes), _grouped(r.gap), -np.inf, -0.5),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Losses and their bound over steps, and gaps over sample sizes."""
    figure, axes = panels("descent in the output layer", "new samples")
    curves(axes[0], config.steps, {"loss": result.losses[-1]})
    axes[0].plot(config.steps, np.median(result.bounds[-1], axis=0), label="bound", **THEORY)
    axes[0].legend(fontsize=7)
    label_axes(axes[0], "step", "loss on the sample", "xy")
    gaps = {"gap": np.abs(result.gap).T, "bound": result.gap_bound.T}
    scaling(axes[1], config.sample_sizes, gaps, exponent=-0.5)
    label_axes(axes[1], "samples", "loss on new − on seen samples")
    return figure
