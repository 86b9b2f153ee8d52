"""Signs and constants of the quadratic model's map, as printed and as they should read.

The quadratic model of a two-layer ReLU network on one example, with output g, target y, step size η
and curvature λ, is a map in u = cη²(g − y)², v = ηλ and w = cη²(g − y)y:

    u' = (1 − v + u + w)² u,    v' = v − u(4 − v) − 4w,    |w| = C √(u/m),

for width m. What the source says about it on the way to its theorems has some slips, and here each
is run in both readings: the sign of the curvature's change in a catapult and in divergence; the
loss beyond which v falls for certain, 16C²/(m(4 − v)²); the order 1/m of the first w.
`quadratic/equilibria` has those about points of rest.

Source: zhu · nqm-2d-map · 3.3, B.3–B.5, B.8; zhu · nqm-multi · B.11.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, between, holds, identity
from theorylab.dynamics.quadratic import plane
from theorylab.dynamics.quadratic.plane import ReducedState
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Checked, Count, Seed
from theorylab.numerics import power_law
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey, Scalar

from ._start import reduced_start

PRECISION = "float64"
FORMULA = r"v' = v - u (4 - v) - 4 w, \quad |w| = C \sqrt{u / m}"

FALLING = Source("zhu", "nqm-2d-map", "B.5, proof of Lemma 3.3.3")
DIVERGENCE = Source("zhu", "nqm-2d-map", "3.3, divergence")
CERTAIN = Source("zhu", "nqm-2d-map", "Prop. B.5.2")
START = Source("zhu", "nqm-2d-map", "B.3, B.4")
FACTOR = Source("zhu", "nqm-multi", "B.11, divergence")

CATAPULTS, BEYOND = (2.2, 2.6, 3.0, 3.4), (4.3, 4.6, 5.0)  # ηλ₀
WIDTH = 1e6  # of these runs
WIDTHS = (1e4, 1e5, 1e6, 1e7, 1e8)


@dataclass(frozen=True)
class Config(Checked):
    """Runs of the map, and points drawn at random."""

    num_points: Count = 2000  # random points (u, v, w) at which v must fall
    num_steps: Count = 300  # of the map
    seed: Seed = 0  # of all randomness


PRESETS = {"smoke": Config(num_points=500), "paper": Config(num_points=100000)}


class Result(NamedTuple):
    """Axes: q points, e ratios of catapults, f of divergence, t steps, m widths; 3: u, v, w."""

    path: Float[Measured, "e t 3"]  # along catapults
    divergent: Float[Measured, "f 2 3"]  # when u first exceeds 1, and a step later
    printed_falls: Float[Measured, " q"]  # v − v' just beyond the printed threshold of u
    corrected_falls: Float[Measured, " q"]  # and beyond the corrected one
    lower_falls: Float[Measured, " q"]  # and just below it
    first_pulls: Float[Measured, " m"]  # |w(0)|


def run(config: Config) -> Result:
    """Run the map, try the points."""
    report("the map", 0.0)
    _, point_key = jax.random.split(jax.random.key(config.seed))
    return _map(config.num_points, config.num_steps, point_key)


@partial(jax.jit, static_argnums=(0, 1))
def _map(num_points: int, num_steps: int, key: RandomKey) -> Result:
    """All that the map shows by itself."""

    def path(ratio: Scalar) -> Float[Array, "t 3"]:
        run = plane.reduced_trajectory(reduced_start(ratio, WIDTH), num_steps)
        return jnp.stack([*run], axis=1)

    def divergent(ratio: Scalar) -> Float[Array, "2 3"]:
        states = path(ratio)
        return jax.lax.dynamic_slice_in_dim(states, jnp.argmax(states[:, 0] > 1), 2)

    draws = jax.random.uniform(key, (3, num_points))
    v, m, strength = 4 * draws[0] * 0.95, 10 ** (2 + 6 * draws[1]), 0.5 + 2.5 * draws[2]

    def falls(loss: Float[Array, " q"]) -> Float[Array, " q"]:
        point = ReducedState(1.001 * loss, v, -strength * jnp.sqrt(1.001 * loss / m))
        return v - plane.reduced_step(point).curvature

    return Result(
        path=jax.vmap(path)(jnp.asarray(CATAPULTS)),
        divergent=jax.vmap(divergent)(jnp.asarray(BEYOND)),
        printed_falls=falls(4 * strength / (m * (4 - v) ** 2)),
        corrected_falls=falls(16 * strength**2 / (m * (4 - v) ** 2)),
        lower_falls=falls(0.99 * 16 * strength**2 / (m * (4 - v) ** 2)),
        first_pulls=jnp.abs(jax.vmap(lambda m: reduced_start(3.0, m).pull)(jnp.asarray(WIDTHS))),
    )


def _pulls(result: Result) -> Float[np.ndarray, "e t"]:
    """u(4 − v) along catapults."""
    return result.path[..., 0] * (4 - result.path[..., 1])


def _lost(result: Result) -> Float[np.ndarray, " f"]:
    """R_λ = λ − λ′ over λ₀, summed up to when u first exceeds 1 in divergence."""
    return 1 - result.divergent[:, 0, 1] / np.array(BEYOND)


def _changes(result: Result) -> Float[np.ndarray, " f"]:
    """v′ − v over u in the step after that: ηpᵀR_Kp over u."""
    return np.diff(result.divergent[..., 1], axis=1)[:, 0] / result.divergent[:, 0, 0]


def _first_order(result: Result) -> float:
    """The exponent of the first |w| in the width."""
    return power_law(np.asarray(WIDTHS), result.first_pulls).exponent


CLAIMS = (
    *FALLING.erratum(
        printed=(
            "While a catapult falls, u(4 − v) is negative.",
            lambda r, c: at_most(_pulls(r).max(), 0.0),
        ),
        corrected=(
            "u(4 − v) is positive throughout, and lowers the curvature.",
            lambda r, c: holds(_pulls(r)),
        ),
        quote="in Eq. (3.14) and u(t)(4 - v(t)) < 0",
    ),
    *FACTOR.erratum(
        printed=(
            "In divergence the curvature changes by the factor λ₁ − 4η, which is positive.",
            lambda r, c: holds(r.divergent[:, 0, 1] / BEYOND - 4 * np.array(BEYOND)),
        ),
        corrected=(
            "It changes by the factor ηλ₁ − 4, to a tenth once the loss is large.",
            lambda r, c: identity(_changes(r), r.divergent[:, 0, 1] - 4, 0.1),
        ),
        formula=r"p_1^T R_K p_1 \approx \tfrac{\|g\|^2 \|p_1\|^2}{m} \eta (\eta\lambda_1 - 4) > 0",
        quote="will be aligned with … hence with simple calculation, we approximately have",
    ),
    *DIVERGENCE.erratum(
        printed=(
            "In divergence R_λ = λ − λ′ is positive.",
            lambda r, c: at_least(_lost(r).min(), 0.0),
        ),
        corrected=(
            "In divergence R_λ = λ − λ′ is negative, so that the curvature rises.",
            lambda r, c: at_most(_lost(r).max(), 0.0),
        ),
        quote=r"However, note that $R_\lambda(t) > 0$ since",
    ),
    *CERTAIN.erratum(
        printed=(
            "Beyond u = 4C/(m(4 − v)²) the curvature falls for certain.",
            lambda r, c: holds(r.printed_falls),
        ),
        corrected=("Beyond u = 16C²/(m(4 − v)²) it does.", lambda r, c: holds(r.corrected_falls)),
        quote=r"such that $v(t) < 4$, if $u(t) > \frac{4C}{m(4-v(t))^2}$, then",
    ),
    CERTAIN.control(
        "One in a hundred below it, and with w < 0, the curvature rises: the threshold is sharp.",
        lambda r, c: at_most(r.lower_falls.max(), 0.0),
    ),
    *START.erratum(
        printed=(
            "The first |w| is of order m^(−3/2).",
            lambda r, c: between(_first_order(r), -1.51, -1.49),
        ),
        corrected=(
            "The first |w| is of order 1/m.",
            lambda r, c: between(_first_order(r), -1.01, -0.99),
        ),
        quote=r"we have $|w(0)| \leq C_u C/m^{3/2}$",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw u(4 − v) along catapults, and falls of v beyond both thresholds."""
    figure, (pull, fall) = panels("u(4 − v) in catapults", "v − v′")
    for ratio, values in zip(CATAPULTS, _pulls(result), strict=True):
        pull.semilogy(values[:60] + 1e-30, label=f"ηλ₀ = {ratio:g}")
    pull.set(xlabel="step", ylim=(1e-12, 10))
    for values, name in ((result.printed_falls, "printed"), (result.corrected_falls, "corrected")):
        fall.plot(np.sort(values), label=name)
    fall.axhline(0.0, **THEORY)
    label_axes(fall, "points, sorted")
    fall.set_yscale("symlog", linthresh=1e-8)
    for axis in (pull, fall):
        axis.legend(fontsize=7)
    return figure
