"""The quadratic model rests stably only where it fits: with g = y and 0 < ηλ < 2.

In u = cη²(g − y)², v = ηλ and w = cη²(g − y)y, with |w| = C √(u/m) at width m, the map is
u' = (1 − v + u + w)² u and v' = v − u(4 − v) − 4w. It rests at u = 0. The source looks at other
points too, where |1 − v + u + w| = 1 and u(4 − v) + 4w = 0, taking w for a function of u, and finds
them unstable. They are; but those with v = 2 + u + w are no equilibria: |g − y| stays for one step
while w changes its sign. The one with v = u + w is g = λ = 0, where all gradients vanish, and is an
unstable equilibrium. Two constants on the way are misprinted.

Source: zhu · nqm-2d-map · Thm 3.3.4, B.6.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, holds, identity
from theorylab.dynamics.quadratic import plane
from theorylab.dynamics.quadratic.plane import ReducedState
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Checked, Count
from theorylab.progress import report
from theorylab.typing import Measured, Scalar

from ._start import reduced_start

PRECISION = "float64"
FORMULA = r"g = y, \quad \eta\lambda \in [\varepsilon, 2 - \varepsilon]"

STABLE = Source("zhu", "nqm-2d-map", "Thm 3.3.4")
REST = Source("zhu", "nqm-2d-map", "B.6, scenario (2)")

INSIDE, OUTSIDE = (0.25, 0.5, 1.0, 1.5, 1.75), (2.25, 2.5, 3.0, 3.5)  # ηλ at which a run begins
WIDTHS = (1e4, 1e5, 1e6, 1e7, 1e8)  # m


@dataclass(frozen=True)
class Config(Checked):
    """Runs of the map that begin near its points of rest."""

    num_steps: Count = 1000


PRESETS = {"smoke": Config(), "paper": Config(num_steps=100000)}


class Result(NamedTuple):
    """Axes: a first ηλ, b those beyond 2, m widths; 3: u, v, w."""

    inside: Float[Measured, "a m 2"]  # last u over first, and the largest |v − v(0)|
    outside: Float[Measured, "b m 2"]  # the same beyond 2
    rest: Float[Measured, "m 3"]  # a point with v = 2 + u + w and v' = v
    after_two: Float[Measured, "m 3"]  # and two steps later
    jacobians: Float[Measured, "m 2 2"]  # of (u, v) there, with w = −√(u/m)
    idle: Float[Measured, "m 3"]  # a step after the point with v = u + w and v' = v
    idle_jacobians: Float[Measured, "m 2 2"]  # of (g, λ) there, where both are 0


def run(config: Config) -> Result:
    """Run the map from near its points of rest."""
    report("the map", 0.0)
    return _map(config.num_steps)


@partial(jax.jit, static_argnums=0)
def _map(num_steps: int) -> Result:
    """All that the map shows by itself."""
    widths = jnp.asarray(WIDTHS)

    def moves(ratio: Scalar, width: Scalar) -> Float[Array, " 2"]:
        path = plane.reduced_trajectory(reduced_start(ratio, width), num_steps)
        u, v = jnp.asarray(path.loss), jnp.asarray(path.curvature)
        return jnp.stack([u[-1] / u[0], jnp.abs(v - v[0]).max()])

    every = jax.vmap(jax.vmap(moves, in_axes=(None, 0)), in_axes=(0, None))
    rest = jax.vmap(_rest)(widths)
    after = plane.reduced_step(plane.reduced_step(rest))
    return Result(
        inside=every(jnp.asarray(INSIDE), widths),
        outside=every(jnp.asarray(OUTSIDE), widths),
        rest=jnp.stack([*rest], axis=1),
        after_two=jnp.stack([*after], axis=1),
        jacobians=jax.vmap(_jacobian)(rest, widths),
        idle=jnp.stack([*plane.reduced_step(_idle(widths))], axis=1),
        idle_jacobians=jax.vmap(_idle_jacobian)(widths),
    )


def _idle(widths: Float[Array, " m"]) -> ReducedState:
    """Solve v = u + w, u(4 − v) + 4w = 0 and w = −C √(u/m) with C = 1: u = 1/m and v = 0."""
    return ReducedState(1 / widths, 0 * widths, -1 / widths)


def _idle_jacobian(width: Scalar) -> Float[Array, "2 2"]:
    """The derivative of a step of (g, λ) at g = λ = 0, with C = ηy√(‖x‖²/d) = 1."""
    problem = plane.PlaneProblem(target=1.0, learning_rate=1.0, coupling=1 / width)

    def advance(state: Float[Array, " 2"]) -> Float[Array, " 2"]:
        after = plane.step(plane.PlaneState(state[0], state[1]), problem)
        return jnp.stack([jnp.asarray(after.output), jnp.asarray(after.curvature)])

    return jax.jacfwd(advance)(jnp.zeros(2))


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


def _bands(moved: Float[np.ndarray, "a m 2"]) -> Float[np.ndarray, "a m"]:
    """The largest |v − v(0)| in units of log m/√m."""
    return moved[..., 1] * np.sqrt(WIDTHS) / np.log(WIDTHS)


def _growth(result: Result) -> Float[np.ndarray, " m"]:
    """|λ_J| − 1, of the eigenvalues of the Jacobian."""
    return np.abs(np.linalg.eigvals(result.jacobians)).max(axis=1) - 1


def _idle_multipliers(result: Result) -> Float[np.ndarray, "m 2"]:
    """Eigenvalues of the Jacobian at g = λ = 0; real, the larger one last."""
    return np.sort(np.linalg.eigvals(result.idle_jacobians).real, axis=1)


def _idle_numbers(result: Result) -> Float[np.ndarray, "m 5"]:
    """U, v and w times m a step after g = λ = 0, and the eigenvalues of the Jacobian there."""
    return np.hstack([result.idle * np.array(WIDTHS)[:, None], _idle_multipliers(result)])


def _idle_expected() -> Float[np.ndarray, "m 5"]:
    """1, 0 and −1, and (1 ± 1/√m)²."""
    rest = np.tile([1.0, 0.0, -1.0], (len(WIDTHS), 1))
    return np.hstack([rest, (1 + np.outer(np.array(WIDTHS) ** -0.5, [-1, 1])) ** 2])


def _printed_growth(result: Result) -> Float[np.ndarray, " m"]:
    """5C √(u/m) − u with C = 1."""
    return 5 * np.sqrt(result.rest[:, 0] / WIDTHS) - result.rest[:, 0]


CLAIMS = (
    STABLE.claim(
        "With ηλ in (0, 2) the equilibrium g = y is stable: ηλ moves by less than log m/√m.",
        lambda r, c: at_most(_bands(r.inside).max(), 1.0),
        formula=FORMULA,
        quote="the stable steady-state equilibria satisfy",
        demand="lab: the constant 1 in the source's Θ(log m/√m); loose, as the drift is O(1/m)",
    ),
    STABLE.claim(
        "There the loss goes to 0.",
        lambda r, c: at_most(r.inside[..., 0].max(), 1e-6),
        regime="num_steps >= 1000",
        demand="derived: the slowest factor is (1 − ηλ)², and 0.75²⁰⁰⁰ is below 10⁻²⁴⁹",
    ),
    STABLE.control(
        "With ηλ beyond 2 it is not stable: ηλ moves further than log m/√m.",
        lambda r, c: at_least(_bands(r.outside).min(), 1.0),
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
        quote="we write w as a function of u for simplicity",
    ),
    *REST.erratum(
        printed=(
            "The u of such a point is between 4/3 and 2 times C²/m.",
            lambda r, c: holds(1 / 3 - np.abs(r.rest[:, 0] * np.array(WIDTHS) - 5 / 3)),
        ),
        corrected=(
            "It is 4C²/m, to one in a thousand: the root of u is between these times C/√m.",
            lambda r, c: identity(r.rest[:, 0] * np.array(WIDTHS), np.full(len(WIDTHS), 4.0), 1e-3),
        ),
        quote="into the second equality yields",
    ),
    *REST.erratum(
        printed=(
            "The eigenvalues of the Jacobian there have the modulus 1 + 5C √(u/m) − u.",
            lambda r, c: identity(_growth(r), _printed_growth(r), 1e-2),
        ),
        corrected=(
            "That is the square of their modulus, which exceeds 1 by half as much.",
            lambda r, c: identity(2 * _growth(r), _printed_growth(r), 1e-2),
        ),
        formula=r"|\lambda_J|^2 = \det J = 1 + 5 C \sqrt{u/m} - u + o(1/m)",
        quote="By computing the modulo of",
    ),
    REST.claim(
        "The modulus is above 1: such a point would be unstable.",
        lambda r, c: at_least(_growth(r).min(), 0.0),
        quote="which indicates (u^*, v^*) is unstable",
        demand="source",
    ),
    REST.claim(
        "So is the point with v = u + w: an eigenvalue there is above 1.",
        lambda r, c: at_least(_idle_multipliers(r)[:, 1].min() - 1, 0.0),
        quote="Therefore, for both (2.1) and (2.2) we have",
        demand="source",
    ),
    REST.found(
        "That point is g = λ = 0, where the map rests; the eigenvalues there are (1 ± C/√m)².",
        lambda r, c: identity(_idle_numbers(r), _idle_expected(), 1e-12),
        formula=r"u = C^2/m, \ v = 0, \quad \lambda_J = (1 \pm C/\sqrt m)^2",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw how far ηλ moves, and where the other points are."""
    figure, (moved, places) = panels("largest |ηλ − first| √m / log m", "m u* at v = 2 + u + w")
    for starts, found in ((INSIDE, result.inside), (OUTSIDE, result.outside)):
        moved.plot(starts, _bands(found), "o", markersize=4)
    moved.axhline(1.0, **THEORY)
    moved.axvline(2.0, **THEORY)
    label_axes(moved, "first ηλ", logarithmic="y")
    places.plot(WIDTHS, result.rest[:, 0] * np.array(WIDTHS), "o", label="measured, C = 1")
    for bound in (4 / 3, 2.0):
        places.axhline(bound, **THEORY)
    label_axes(places, "width m (dashed: as printed)", logarithmic="x")
    places.legend(fontsize=7)
    return figure
