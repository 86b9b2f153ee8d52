"""Signs and constants of the quadratic model's map, as printed and as they should read.

The quadratic model of a two-layer ReLU network on one example, with output g, target y, step size η
and curvature λ, is a map in u = cη²(g − y)², v = ηλ and w = cη²(g − y)y:

    u' = (1 − v + u + w)² u,    v' = v − u(4 − v) − 4w,    |w| = C √(u/m),

for width m. What the source says about it on the way to its theorems has some slips, and here each
is run in both readings: the sign of the curvature's change in a catapult and in divergence; the
loss beyond which v falls for certain, 16C²/(m(4 − v)²); the order 1/m of the first w; and points
with v = 2 + u + w, where |g − y| stays for one step, which are no equilibria because w changes its
sign. With several examples each eigendirection is such a model: a factor and an index of that proof
are tested too.

Source: zhu · nqm-2d-map · 3.3.3, B.5–B.8; zhu · nqm-multi · B.11, B.12.
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
from theorylab.dynamics.quadratic.plane import PlaneProblem, PlaneState, ReducedState
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Checked, Count, Seed
from theorylab.numerics import power_law
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey, Scalar

PRECISION = "float64"
FORMULA = r"v' = v - u (4 - v) - 4 w, \quad |w| = C \sqrt{u / m}"

FALLING = Source("zhu", "nqm-2d-map", "Lemmas 3.3.3, B.8.1")
DIVERGENCE = Source("zhu", "nqm-2d-map", "divergence, after Thm B.7.1")
CERTAIN = Source("zhu", "nqm-2d-map", "B.5.2")
START = Source("zhu", "nqm-2d-map", "B.5")
REST = Source("zhu", "nqm-2d-map", "B.6")
FACTOR = Source("zhu", "nqm-multi", "B.11, (λ₁ − 4η)")
NEXT = Source("zhu", "nqm-multi", "B.12, first display")

TARGET, FIRST_OUTPUT = 1.0, 0.7
CATAPULTS, BEYOND = (2.2, 2.6, 3.0, 3.4), (4.3, 4.6, 5.0)  # ηλ₀
WIDTHS = (1e4, 1e5, 1e6, 1e7, 1e8)


@dataclass(frozen=True)
class Config(Checked):
    """Runs of the map, and points drawn at random."""

    num_points: Count = 2000  # random points (u, v, w) at which v must fall
    num_steps: Count = 300  # of the map
    seed: Seed = 0  # of all randomness


PRESETS = {"smoke": Config(num_points=500), "paper": Config(num_points=100000)}


class Result(NamedTuple):
    """Axes: q points, e ratios, t steps, m widths; 3: u, v, w."""

    path: Float[Measured, "e t 3"]  # along catapults
    changes: Float[Measured, " f"]  # λ₀ − λ when u first exceeds 1, of divergent runs
    printed_falls: Float[Measured, " q"]  # v − v' just beyond the printed threshold of u
    corrected_falls: Float[Measured, " q"]  # and beyond the corrected one
    lower_falls: Float[Measured, " q"]  # and just below it
    first_pulls: Float[Measured, " m"]  # |w(0)|
    rest: Float[Measured, "m 3"]  # a point with v = 2 + u + w and v' = v
    after_two: Float[Measured, "m 3"]  # and two steps later
    jacobians: Float[Measured, "m 2 2"]  # of (u, v) there, with w = −√(u/m)


def run(config: Config) -> Result:
    """Run the map, try the points."""
    report("the map", 0.0)
    _, point_key = jax.random.split(jax.random.key(config.seed))
    return _map(config.num_points, config.num_steps, point_key)


@partial(jax.jit, static_argnums=(0, 1))
def _map(num_points: int, num_steps: int, key: RandomKey) -> Result:
    """All that the map shows by itself."""

    def start(ratio: Scalar, width: Scalar) -> ReducedState:
        problem = PlaneProblem(TARGET, ratio, 1 / width)
        return plane.reduce(PlaneState(jnp.asarray(FIRST_OUTPUT), jnp.asarray(1.0)), problem)

    def path(ratio: Scalar) -> Float[Array, "t 3"]:
        return jnp.stack([*plane.reduced_trajectory(start(ratio, 1e6), num_steps)], axis=1)

    def change(ratio: Scalar) -> Float[Array, ""]:
        path = plane.reduced_trajectory(start(ratio, 1e6), num_steps)
        curvature = jnp.asarray(path.curvature)
        return (curvature[0] - curvature[jnp.argmax(jnp.asarray(path.loss) > 1)]) / ratio

    draws = jax.random.uniform(key, (3, num_points))
    v, m, strength = 4 * draws[0] * 0.95, 10 ** (2 + 6 * draws[1]), 0.5 + 2.5 * draws[2]

    def falls(loss: Float[Array, " q"]) -> Float[Array, " q"]:
        point = ReducedState(1.001 * loss, v, -strength * jnp.sqrt(1.001 * loss / m))
        return v - plane.reduced_step(point).curvature

    widths = jnp.asarray(WIDTHS)
    rest = jax.vmap(_rest)(widths)
    after = plane.reduced_step(plane.reduced_step(rest))
    return Result(
        path=jax.vmap(path)(jnp.asarray(CATAPULTS)),
        changes=jax.vmap(change)(jnp.asarray(BEYOND)),
        printed_falls=falls(4 * strength / (m * (4 - v) ** 2)),
        corrected_falls=falls(16 * strength**2 / (m * (4 - v) ** 2)),
        lower_falls=falls(0.99 * 16 * strength**2 / (m * (4 - v) ** 2)),
        first_pulls=jnp.abs(jax.vmap(lambda m: start(3.0, m).pull)(widths)),
        rest=jnp.stack([*rest], axis=1),
        after_two=jnp.stack([*after], axis=1),
        jacobians=jax.vmap(_jacobian)(rest, widths),
    )


def _rest(width: Scalar) -> ReducedState:
    """Solve v = 2 + u + w, u(4 − v) + 4w = 0 and w = −C √(u/m) with C = 1, by iteration."""
    a = 1 / jnp.sqrt(width)

    def improve(_, root: Float[Array, ""]) -> Float[Array, ""]:
        return 4 * a / (2 - root**2 + a * root)  # √u, from √u (4 − v) = 4a

    root = jax.lax.fori_loop(0, 60, improve, 2 * a)
    w = -a * root
    return ReducedState(root**2, 2 + root**2 + w, w)


def _jacobian(point: ReducedState, width: Scalar) -> Float[Array, "2 2"]:
    """The derivative of (u', v') in (u, v), with w = −√(u/m) as the source takes it."""

    def advance(uv: Float[Array, " 2"]) -> Float[Array, " 2"]:
        after = plane.reduced_step(ReducedState(uv[0], uv[1], -jnp.sqrt(uv[0] / width)))
        return jnp.stack([jnp.asarray(after.loss), jnp.asarray(after.curvature)])

    return jax.jacfwd(advance)(jnp.stack([jnp.asarray(point.loss), jnp.asarray(point.curvature)]))


def _pulls(result: Result) -> Float[np.ndarray, "e t"]:
    """u(4 − v) along catapults."""
    return result.path[..., 0] * (4 - result.path[..., 1])


def _printed_factor(result: Result) -> Float[np.ndarray, "e t"]:
    """λ − 4η along them, with inputs of the length at which λ₀ = 100."""
    ratios = np.array(CATAPULTS)[:, None]
    return 100 * result.path[..., 1] / ratios - 4 * ratios / 100


def _multiplied(result: Result) -> Float[np.ndarray, "e t"]:
    """(1 − v + u + w)² u at all steps but the last."""
    u, v, w = np.moveaxis(result.path[:, :-1], 2, 0)
    return (1 - v + u + w) ** 2 * u


def _excess(result: Result, power: int) -> tuple[np.ndarray, np.ndarray]:
    """|λ_J|ᵖ − 1 and det J − 1, for the pair of complex eigenvalues of the Jacobian."""
    modulus = np.abs(np.linalg.eigvals(result.jacobians)).max(axis=1)
    return modulus**power - 1, np.linalg.det(result.jacobians) - 1


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
    ),
    *FACTOR.erratum(
        printed=(
            "In a catapult λ₁ − 4η is negative: with inputs for which λ₁ begins at 100.",
            lambda r, c: at_most(_printed_factor(r).max(), 0.0),
        ),
        corrected=(
            "It is ηλ₁ − 4 that is negative, whatever the inputs.",
            lambda r, c: at_most(r.path[..., 1].max() - 4, 0.0),
        ),
    ),
    *NEXT.erratum(
        printed=(
            "The loss along a direction, times its factor, is the loss of the same step: Π₁𝓛(t).",
            lambda r, c: identity(r.path[:, :-1, 0], _multiplied(r), 1e-12),
        ),
        corrected=(
            "It is that of the next: Π₁𝓛(t + 1).",
            lambda r, c: identity(r.path[:, 1:, 0], _multiplied(r), 1e-12),
        ),
    ),
    *DIVERGENCE.erratum(
        printed=(
            "In divergence R_λ = λ − λ′ is positive.",
            lambda r, c: at_least(r.changes.min(), 0.0),
        ),
        corrected=(
            "In divergence R_λ = λ − λ′ is negative, so that the curvature rises.",
            lambda r, c: at_most(r.changes.max(), 0.0),
        ),
    ),
    *CERTAIN.erratum(
        printed=(
            "Beyond u = 4C/(m(4 − v)²) the curvature falls for certain.",
            lambda r, c: holds(r.printed_falls),
        ),
        corrected=("Beyond u = 16C²/(m(4 − v)²) it does.", lambda r, c: holds(r.corrected_falls)),
    ),
    CERTAIN.control(
        "Just below it, and with w < 0, the curvature rises: the threshold is sharp.",
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
    ),
    *REST.erratum(
        printed=(
            "Where v = 2 + u + w and v′ = v, the map rests.",
            lambda r, c: identity(r.after_two[:, 1] - 2, r.rest[:, 1] - 2, 1e-6),
        ),
        corrected=(
            "There w changes its sign, and the second step moves v by 8w.",
            lambda r, c: identity(r.after_two[:, 1] - r.rest[:, 1], 8 * r.rest[:, 2], 1e-6),
        ),
    ),
    *REST.erratum(
        printed=(
            "The u of such a point is between 4/3 and 2 times C/√m.",
            lambda r, c: holds(1 / 3 - np.abs(r.rest[:, 0] * np.sqrt(WIDTHS) - 5 / 3)),
        ),
        corrected=(
            "It is its root that is so small: √u = 2C/√m, to one in a thousand.",
            lambda r, c: identity(np.sqrt(r.rest[:, 0] * WIDTHS), np.full(len(WIDTHS), 2.0), 1e-3),
        ),
    ),
    *REST.erratum(
        printed=(
            "The eigenvalues of the Jacobian there have the modulus det J.",
            lambda r, c: identity(*_excess(r, 1), 1e-3),
        ),
        corrected=(
            "They have the modulus √det J, above 1: |λ_J|² = det J.",
            lambda r, c: identity(*_excess(r, 2), 1e-3),
        ),
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
