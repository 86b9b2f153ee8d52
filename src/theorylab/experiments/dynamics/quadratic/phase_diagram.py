"""The learning rate decides between monotone convergence, a catapult and divergence.

The quadratic model of a two-layer ReLU network on one example, with output g, target y and
curvature λ, is a map of the plane (g, λ). Let ηλ₀ be the step size times the initial curvature, and
m the width. Below 2 the loss falls at every step, and λ drifts by O(1/m). Between 2 and 4 the loss
first grows to a height ∝ m and then converges, while λ falls below 2/η: a catapult. Beyond 4 it
diverges.

With δ = ηλ₀ − 2 and c = ‖x‖²/(md) for d inputs, u = cη²(g − y)² peaks near δ²/2, and ηλ ends near
2 − δ. Just above the threshold the loss does not decrease monotonically, as the source says.

Source: zhu · nqm-2d-map · Eqs 3.11–3.14, Thms 3.3.1, B.3.1, B.7.1.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, holds
from theorylab.dynamics.quadratic import phases, plane
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.experiments.drawing import phase_diagram as draw_phases
from theorylab.fields import Checked, Count, Plural, Seed
from theorylab.numerics import power_law_exponents
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey, Scalar

from ._start import FIRST_OUTPUT, TARGET, reduced_start

PRECISION = "float64"
BATCHED = ("seed",)
FORMULA = (
    r"\eta\lambda_0 < 2: \text{ converges}, \quad 2 < \eta\lambda_0 < 4: \text{ catapult},"
    r" \quad \eta\lambda_0 > 4: \text{ diverges}"
)

PHASES = Source("zhu", "nqm-2d-map", "Thms 3.3.1, B.3.1, B.7.1")
CATAPULT = Source("zhu", "nqm-2d-map", "Thm 3.3.1")
END = Source("zhu", "nqm-2d-map", "3.3, after Lemma 3.3.3")
SUBCRITICAL = Source("zhu", "nqm-2d-map", "Thm B.3.1")
AFTER_MAP = Source("zhu", "nqm-2d-map", "after Eq. 3.12")

MAP_STEPS = 5000  # nearest to ηλ₀ = 2 the peak comes after about 1000 steps
DIAGRAM_STEPS = 400  # to draw, the band that needs more is too thin to be seen
WIDTHS = (1e4, 1e5, 1e6, 1e7, 1e8)
WIDE = 2  # from this width on, 10⁶, all δ are outside the band
DELTAS = (0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 1.9)  # δ = ηλ₀ − 2
SMALL = 3  # the first δ, for which the catapult mirrors the curvature
SMOOTH = 4  # the first δ, for which it hardly matters that a peak is between two steps
BELOW = (0.5, 1.0, 1.5)  # ηλ₀ below the threshold
GAPS = np.minimum(BELOW, 2 - np.array(BELOW))  # δ there: min(ηλ₀, 2 − ηλ₀)
ERROR = abs(FIRST_OUTPUT - TARGET)  # |g − y| at first
PILOT = "lab: set on another run, from g = 0.7 and y = 1 at m = 10⁶"


@dataclass(frozen=True)
class Config(Checked):
    """The map at random widths and learning rates, and on a grid."""

    num_settings: Count = 300  # random (width, learning rate) whose phase is predicted
    resolution: Plural = 1000  # points along each axis of the phase diagram
    seed: Seed = 0  # of all randomness


PRESETS = {"smoke": Config(resolution=20), "paper": Config(num_settings=3000)}


class Result(NamedTuple):
    """Axes: q settings, k values of δ, b ratios below 2, w widths, h points of the diagram."""

    predicted_phase: Int[Measured, " q"]  # 0 subcritical, 1 catapult, 2 divergent
    observed_phase: Int[Measured, " q"]
    last_ratio: Float[Measured, " q"]  # final ηλ
    peak_height: Float[Measured, "k w"]  # highest u, in units of δ²
    peak_rise: Float[Measured, "k w"]  # highest loss over first loss
    mirror: Float[Measured, "k w"]  # final 2 − ηλ, in units of δ
    last_loss: Float[Measured, "k w"]  # last loss over first loss
    drift: Float[Measured, "b w"]  # sup |λ − λ₀|
    slowest: Float[Measured, "b w"]  # the largest |g' − y|/|g − y| of any step
    phase_ratios: Float[Measured, " h"]  # ηλ₀ and m of the phase diagram
    phase_widths: Float[Measured, " h"]
    phase_rise: Float[Measured, "h h"]  # highest loss over first loss; infinite or NaN beyond 4


def run(config: Config) -> Result:
    """Run the map."""
    report("the map at many widths", 0.0)
    _, _, key = jax.random.split(jax.random.key(config.seed), 3)
    return _maps(key, config.num_settings, config.resolution)


@partial(jax.jit, static_argnums=(1, 2))
def _maps(key: RandomKey, num_settings: int, resolution: int) -> Result:
    """All settings at once: one program, one loop."""
    ratio, width = phases.draw_settings(key, num_settings)
    deltas, widths = jnp.meshgrid(jnp.array(DELTAS), jnp.array(WIDTHS), indexing="ij")
    below = jnp.meshgrid(jnp.array(BELOW), jnp.array(WIDTHS), indexing="ij")
    settings = [(ratio, width), (2 + deltas, widths), tuple(below)]
    courses = partial(phases.courses, FIRST_OUTPUT, TARGET)
    random, catapults, calm = courses(settings, MAP_STEPS)
    diagram = phases.diagram(resolution)
    # Row by row, because a row stays in a core's cache.
    phase = jax.lax.map(lambda row: courses(settings=[row], num_steps=DIAGRAM_STEPS)[0], diagram)
    last = (catapults.last.output - TARGET) ** 2 / 2
    return Result(
        predicted_phase=phases.predicted_phase(ratio),
        observed_phase=phases.observed_phase(random),
        last_ratio=ratio * random.last.curvature,
        peak_height=2 * catapults.highest_loss * (2 + deltas) ** 2 / widths / deltas**2,
        peak_rise=catapults.highest_loss / catapults.first_loss,
        mirror=(2 - (2 + deltas) * catapults.last.curvature) / deltas,
        last_loss=last / catapults.first_loss,
        drift=calm.drift,
        slowest=jax.vmap(jax.vmap(_slowest))(*below),
        phase_ratios=diagram[0][0],
        phase_widths=diagram[1][:, 0],
        phase_rise=(phase.highest_loss / phase.first_loss).astype(jnp.float32),
    )


def _slowest(ratio: Scalar, width: Scalar) -> Float[Array, ""]:
    """The largest |1 − v + u + w| of a run, in reduced coordinates, which keep small errors."""

    def advance(_, both: tuple[plane.ReducedState, Float[Array, ""]]):
        (u, v, w), largest = both
        return plane.reduced_step(both[0]), jnp.maximum(largest, jnp.abs(1 - v + u + w))

    return jax.lax.fori_loop(0, MAP_STEPS, advance, (reduced_start(ratio, width), jnp.zeros(())))[1]


def _exponents(values: Float[np.ndarray, "k w"]) -> Float[np.ndarray, " k"]:
    """The exponents in the width."""
    return power_law_exponents(np.asarray(WIDTHS), values)


def _slowdowns(result: Result) -> Float[np.ndarray, "b w"]:
    """mδ(|g' − y|/|g − y| − (1 − δ)), over the constant that the source's proof gives.

    It bounds |v − v(0)| by Σ 4(u + |w|), where u(0) = (ηe)²/m and |w(0)| = η²e|y|/m for the first
    error e, and both fall by factors of at most 1 − δ/2: so 8 + δ times both, as ηλ₀ < 2.
    """
    excess = (result.slowest - (1 - GAPS)[:, None]) * GAPS[:, None] * np.array(WIDTHS)
    first = np.array(BELOW) ** 2 * ERROR * (ERROR + TARGET)
    return excess / ((8 + GAPS) * first)[:, None]


def _mirror_margins(result: Result) -> Float[np.ndarray, "k w"]:
    """How far (2 − ηλ)/δ is inside [1 − 0.01/δ, 1.3] at the end, for small δ."""
    mirror, delta = result.mirror[:SMALL], np.asarray(DELTAS)[:SMALL, None]
    return np.minimum(mirror - (1 - 0.01 / delta), 1.3 - mirror)


CLAIMS = (
    PHASES.claim(
        "ηλ₀ decides: the loss falls below 2, is catapulted from 2 to 4, diverges beyond 4; of"
        " random runs outside the bands, none is predicted wrongly.",
        lambda r, c: at_most(np.count_nonzero(r.observed_phase != r.predicted_phase), 0),
        formula=r"\eta\lambda_0 \lessgtr 2,\ 4",
        demand="lab: bands of 2 log m/√m, where the source has Θ(log m/√m)",
    ),
    CATAPULT.claim(
        "The loss increases to the order of mδ²/log m at least, for every δ.",
        lambda r, c: at_least(_exponents(r.peak_rise * np.log(WIDTHS) / WIDTHS).min(), 0.0),
        formula=r"\max_t L(t) = \Omega(m \delta^2 / \log m)",
        demand="source",
    ),
    CATAPULT.claim(
        "Then it decreases to O(1): at every δ and width it ends below its first value.",
        lambda r, c: at_most(r.last_loss[:, WIDE:].max(), 1.0),
        demand="source",
    ),
    END.claim(
        "Every catapult ends with η < 2/λ.",
        lambda r, c: holds(1 - np.abs(r.last_ratio[r.predicted_phase == phases.CATAPULT] - 1)),
        formula=r"0 < \eta\lambda_\infty < 2",
        quote="the catapult finishes and we in general have",
        demand="source",
    ),
    CATAPULT.found(
        "The peak loss of the map is proportional to the width, without a visible logarithm.",
        lambda r, c: at_most(np.abs(_exponents(r.peak_rise[:SMOOTH]) - 1).max(), 0.03),
        formula=r"\max_t L(t) \propto m",
        demand=PILOT,
    ),
    CATAPULT.found(
        "At its peak u is between 0.45 δ² and δ², for δ from 0.05 to 1.9.",
        lambda r, c: holds(0.275 - np.abs(r.peak_height - 0.725)),
        formula=r"0.45 \le \max_t u(t) / \delta^2 \le 1",
        demand=PILOT,
    ),
    CATAPULT.found(
        "A small catapult mirrors the curvature at the threshold: ηλ goes from 2 + δ to 2 − δ.",
        lambda r, c: holds(_mirror_margins(r)),
        formula=r"2 - 1.3\,\delta \le \eta\lambda_\infty \le 2 - \delta + 0.01",
        demand=PILOT,
    ),
    SUBCRITICAL.claim(
        "Below the threshold the loss falls at every step, by (1 − δ + O(1/mδ))² at least.",
        lambda r, c: at_most(_slowdowns(r).max(), 1.0),
        formula=r"L(t + 1) \le (1 - \delta + O(\tfrac{1}{m\delta}))^2 L(t)",
        demand="derived: with the constant of the source's proof",
    ),
    SUBCRITICAL.claim(
        "There the curvature drifts by O(1/mδ).",
        lambda r, c: at_most(_exponents(r.drift).max(), -0.99),
        formula=r"\sup_t |\lambda(t) - \lambda_0| = O(\tfrac{1}{m\delta})",
        demand="source",
    ),
    SUBCRITICAL.control(
        "A tenth of the constant in O(1/mδ) is not enough for the fall of the loss.",
        lambda r, c: at_least(_slowdowns(r).max(), 0.1),
    ),
    *AFTER_MAP.erratum(
        printed=(
            "Slightly above the critical learning rate the loss decreases monotonically.",
            lambda r, c: at_most(r.peak_rise[0, WIDE:].max(), 1.0),
        ),
        corrected=(
            "Slightly above the critical learning rate, by 2.5 %, the loss first rises tenfold.",
            lambda r, c: at_least(r.peak_rise[0, WIDE:].min(), 10.0),
        ),
        quote="resulting in both monotonic decrease of tangent kernel",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the phase diagram, and how high catapults rise and where they end."""
    figure, (phase, end) = panels("highest loss / first loss", "catapults at m = 10⁶")
    finite = np.where(np.isfinite(result.phase_rise), result.phase_rise, np.nan)
    draw_phases(phase, result.phase_ratios, result.phase_widths, np.log10(finite), "log₁₀")
    for ratio in (2, 4):
        phase.axvline(ratio, **THEORY)
    label_axes(phase, "ηλ₀ (grey: diverges)", "width m", logarithmic="y")
    end.plot(DELTAS, result.mirror[:, WIDE], "o", label="(2 − final ηλ) / δ")
    end.plot(DELTAS, result.peak_height[:, WIDE], "s", label="highest u / δ²")
    for limit in (1.0, 0.5):
        end.axhline(limit, **THEORY)
    end.set(xlabel="δ = ηλ₀ − 2", ylim=(0, 2.2))
    end.legend(fontsize=7)
    return figure
