"""With one input, the quadratic model is two independent models of one example.

The tangent kernel of the quadratic model of a two-layer ReLU network on examples with one input has
rank two: positive and negative examples are two eigendirections q that never turn, and what is
orthogonal to them is never learned. Along each, residual r and eigenvalue λ obey exactly the map of
one example with the coupling s/m, where s is the sum of squares of its inputs and m the width. The
source's reduction with p = x±, not of length 1, has the right u = η²⟨g − y, p⟩²/m, but its w lacks
the factor ‖p‖² = s. Two of its inequalities are misprinted: ‖I − ηK‖ < 2 for < 1, and η above for
below the threshold after a catapult.
`quadratic/several_examples` shows the catapults.

Source: zhu · nqm-multi · B.11, B.12; zhu · nqm-relu2 · Prop. B.11.2.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, holds
from theorylab.dynamics.quadratic import several_examples
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Count, Plural, Seeded
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._two_signs import BEYOND, learning_rates, regime, start, trained

PRECISION = "float64"
FORMULA = (
    r"r' = (1 - \eta\lambda + \tfrac{\eta^2 s}{m} r (r + \bar y))\, r, \quad \lambda' = \lambda"
    r" + \tfrac{\eta^2 s}{m} r^2 \lambda - \tfrac{4 \eta s}{m} r (r + \bar y)"
)

KERNEL = Source("zhu", "nqm-multi", "Prop. B.11.1")
SCALE = Source("zhu", "nqm-relu2", "Prop. B.11.2")
ORTHOGONAL = Source("zhu", "nqm-multi", "Prop. B.11.3")
MONOTONE = Source("zhu", "nqm-multi", "B.11, monotonic convergence")
AFTER = Source("zhu", "nqm-multi", "B.11, end of the catapult")
REDUCTION = Source("zhu", "nqm-multi", "Eqs B.9–B.12")


@dataclass(frozen=True)
class Config(Seeded):
    """Draws of examples and networks, at learning rates of every regime."""

    num_samples: Plural = 128  # examples n
    width: Count = 5000  # width m
    num_rates: Plural = 3  # learning rates in each of three regimes
    num_steps: Count = 300  # steps of gradient descent
    num_seeds: Count = 12  # independent draws


PRESETS = {
    "smoke": Config(num_samples=32, width=3000, num_rates=2, num_seeds=8),
    "paper": Config(num_rates=5, num_steps=2000, num_seeds=100),
}


class Result(NamedTuple):
    """Axes: s draws, e learning rates, t steps; 2 directions, that of λ₁ first; 3: and the rest."""

    ratios: Float[Measured, "*s e 2"]  # η over both thresholds n/λ
    losses: Float[Measured, "*s e t 3"]  # of the quadratic model, by direction
    changes: Float[Measured, "*s e 2"]  # λ₁, λ₂ at the end, over the first ones
    map_error: Float[Measured, "*s e"]  # of (r, λ), relative to the running maximum
    reduced_error: Float[Measured, "*s e"]  # of a step of (u, v), over the largest of the run
    printed_error: Float[Measured, "*s e"]  # the same with w as printed
    rank_error: Float[Measured, "*s e"]  # of K = Σ λqqᵀ at the end, relative
    scale: Float[Measured, "*s"]  # λ₁ initially over max(s₊, s₋)


def run(config: Config) -> Result:
    """Draw, train in the weights, and run the map beside."""
    report("quadratic models beside the map", 0.0)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    return ensemble(partial(_draw, config), keys)


def _draw(config: Config, key: RandomKey) -> Result:
    """All learning rates of one draw of examples and weights."""
    begin = start(config.num_samples, config.width, key)
    rates = learning_rates(begin.thresholds, config.num_rates)
    found = jax.vmap(partial(trained, begin, config.num_steps))(rates)
    return Result(
        ratios=rates[:, None] / begin.thresholds[None],
        losses=found.losses,
        changes=found.last / begin.first[None],
        map_error=found.map_error,
        reduced_error=found.reduced_error,
        printed_error=found.printed_error,
        rank_error=found.rank_error,
        scale=begin.first[0] / several_examples.directions(begin.x).squares.max(),
    )


def _rises_within(result: Result, norm: float) -> np.ndarray:
    """Highest over first loss along both directions, wherever ‖I − ηK‖ is below this at first."""
    losses = result.losses[..., :2]
    rises = (losses.max(axis=2) / losses[:, :, 0]).max(axis=-1)
    return rises[np.abs(1 - 2 * result.ratios).max(axis=-1) < norm]


def _ended(result: Result) -> np.ndarray:
    """η over the threshold of the last λ₁, of runs beyond both thresholds that catapult."""
    ended = regime(result.ratios * result.changes, BEYOND)[..., 0]
    return ended[regime(result.ratios, BEYOND)[..., 0] < 1.95]


EXACT = 1e-9  # an equality, to rounding of some hundred steps

CLAIMS = (
    *REDUCTION.erratum(
        printed=(
            "A step of (B.9)–(B.10) gives the next u and v, with w = η²⟨(g − y) ⊙ m₊, y ⊙ m₊⟩/m.",
            lambda r, c: at_most(r.printed_error.max(), EXACT),
            r"w_1 = \tfrac{\eta^2}{m} \langle (g - y) \odot m_+, y \odot m_+ \rangle",
        ),
        corrected=(
            "It does with w = η²⟨g − y, p₁⟩⟨p₁, y⟩/m.",
            lambda r, c: at_most(r.reduced_error.max(), EXACT),
            r"w_1 = \tfrac{\eta^2}{m} \langle g - y, p_1 \rangle \langle p_1, y \rangle",
        ),
        quote="Then the dynamic equations can be written as",
    ),
    REDUCTION.claim(
        "Along each direction residual and curvature obey the map of one example, with coupling s/m"
        " for the sum s of squares of its examples.",
        lambda r, c: at_most(r.map_error.max(), EXACT),
        formula=FORMULA,
        quote="each eigen direction is almost independent on the other hence can be reduced to the"
        " same training dynamics",
    ),
    KERNEL.claim(
        "The kernel has rank two, with the same directions at the end of training.",
        lambda r, c: at_most(r.rank_error.max(), 1e-10),
        formula=r"K = \lambda_1 q_1 q_1^T + \lambda_2 q_2 q_2^T",
    ),
    ORTHOGONAL.claim(
        "What is orthogonal to both directions is never learned.",
        lambda r, c: at_most(np.abs(r.losses[..., 2] / r.losses[:, :, :1, 2] - 1).max(), 1e-10),
        formula=r"\Pi_i L(t) = \Pi_i L(0), \quad i \ge 3",
    ),
    SCALE.claim(
        "Initially λ_max is between half and three halves of the larger sum of squares.",
        lambda r, c: holds(0.5 - np.abs(r.scale - 1)),
        formula=r"M/2 \le \lambda_{\max}(K) \le 3M/2",
        demand="source",
    ),
    SCALE.found(
        "At this width a range three times narrower would do.",
        lambda r, c: holds(1 / 6 - np.abs(r.scale - 1)),
        regime="width >= 3000",
        demand="derived: √(2/m) is the deviation, a sixth is six of them at m = 3000",
    ),
    SCALE.control(
        "A range a hundred times narrower would not.",
        lambda r, c: at_least(np.abs(r.scale - 1).max(), 0.005),
        regime="width <= 10000 and num_seeds >= 8",
        demand="derived: √(2/m) is three times as much at m = 10000",
    ),
    *MONOTONE.erratum(
        printed=(
            "Where ‖I − ηK‖ < 2 at first, the loss does not rise along either direction.",
            lambda r, c: at_most(_rises_within(r, 2.0).max(), 1.0 + 1e-9),
        ),
        corrected=(
            "Where ‖I − ηK‖ < 1 along both, it does not rise.",
            lambda r, c: at_most(_rises_within(r, 1.0).max(), 1.0 + 1e-9),
        ),
        quote=r"\|I - \eta K(t)\| < 2$, hence $\|\mathbf{g}(t) - \mathbf{y}\|$ decreases",
    ),
    *AFTER.erratum(
        printed=(
            "After its catapult η is larger than the threshold of the new λ₁.",
            lambda r, c: at_least(_ended(r).min(), 1.0),
        ),
        corrected=(
            "After its catapult η is smaller than the threshold of the new λ₁, so that it"
            " converges.",
            lambda r, c: at_most(_ended(r).max(), 1.0),
        ),
        quote=r"we generally have $\eta > 2/\lambda_1$ and $\eta > 2/\lambda_2$",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the errors of both reductions, and η over the threshold after training."""
    figure, (error, after) = panels("error of a step", "ηλ₁/n at the end")
    ratios = result.ratios[..., 0].ravel()
    for values, name in ((result.printed_error, "as printed"), (result.reduced_error, "corrected")):
        error.plot(ratios, values.ravel(), "o", markersize=3, label=name)
    error.legend(fontsize=7)
    after.plot(ratios, ratios * result.changes[..., 0].ravel(), "o", markersize=3)
    after.axhline(1.0, **THEORY)
    label_axes(error, "ηλ₁/n", "relative", logarithmic="y")
    label_axes(after, "ηλ₁/n at first")
    return figure
