"""The quadratic model on one example: an exact map of the plane.

The output g and the curvature λ = ‖∇g‖² move by themselves, exactly at every width:

    g' − y = (1 − ηλ + cη²(g − y)g) (g − y)
    λ'     = λ + cη²(g − y)²λ − 4cη(g − y)g

under gradient descent on ½(g − y)² with step size η; c = ‖x‖²/(md) for width m and d inputs.
In u = cη²(g − y)², v = ηλ and w = cη²(g − y)y it reads

    u' = (1 − v + u + w)² u,    v' = v − u(4 − v) − 4w.

It rests where g = y; that equilibrium attracts if and only if 0 < ηλ < 2. By the ratio ηλ₀ at the
start the loss falls, is catapulted, or diverges: see `phases`.

Source: zhu · nqm-2d-map · Eqs 3.11–3.14, Thm 3.3.4.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from theorylab.training.losses import check_positive
from theorylab.typing import Scalar

Numbers = Scalar | Float[Array, "..."]  # one number, or one for every step or setting


class PlaneState(NamedTuple):
    """Where the model is."""

    output: Numbers  # g
    curvature: Numbers  # λ


class ReducedState(NamedTuple):
    """The same in units of the learning rate and the width."""

    loss: Numbers  # u = cη²(g − y)², twice the loss in units of 1/(cη²)
    curvature: Numbers  # v = ηλ
    pull: Numbers  # w = cη²(g − y)y, with the sign of the error


class PlaneProblem(NamedTuple):
    """One example and a learning rate."""

    target: Numbers  # y
    learning_rate: Numbers  # η
    coupling: Numbers  # c = ‖x‖²/(md)


def coupling(x: Float[Array, " d"], width: int) -> Float[Array, ""]:
    """Compute c = ‖x‖²/(md).

    Example:
        >>> float(coupling(jnp.ones(4), width=128))  # 1/m, as ‖x‖² = d
        0.0078125
    """
    if width < 1:
        raise ValueError(f"width must be at least 1, got {width}.")
    return x @ x / (width * x.size)


def loss(state: PlaneState, problem: PlaneProblem) -> Numbers:
    """Compute ½(g − y)².

    Example:
        >>> loss(PlaneState(output=3.0, curvature=1.0), PlaneProblem(1.0, 0.1, 0.01))
        2.0
    """
    return (state.output - problem.target) ** 2 / 2


def step(state: PlaneState, problem: PlaneProblem) -> PlaneState:
    """Take one step of gradient descent.

    Example:
        >>> problem = PlaneProblem(0.0, learning_rate=1.0, coupling=0.25)
        >>> step(PlaneState(output=2.0, curvature=3.0), problem)
        PlaneState(output=-2.0, curvature=2.0)
    """
    (g, lam), (y, eta, c) = state, problem
    r = g - y
    return PlaneState(
        output=y + (1 - eta * lam + c * eta**2 * r * g) * r,
        curvature=lam + c * eta**2 * r**2 * lam - 4 * c * eta * r * g,
    )


def reduce(state: PlaneState, problem: PlaneProblem) -> ReducedState:
    """Change to the reduced coordinates (u, v, w).

    Example:
        >>> problem = PlaneProblem(target=1.0, learning_rate=2.0, coupling=0.25)
        >>> reduce(PlaneState(output=3.0, curvature=0.5), problem)
        ReducedState(loss=4.0, curvature=1.0, pull=2.0)
    """
    (g, lam), (y, eta, c) = state, problem
    r = g - y
    return ReducedState(c * eta**2 * r**2, eta * lam, c * eta**2 * r * y)


def reduced_step(state: ReducedState) -> ReducedState:
    """Take one step in reduced coordinates; w carries the sign of the error, which (u, v) lose.

    Example:
        >>> problem = PlaneProblem(target=1.0, learning_rate=2.0, coupling=0.25)
        >>> start = PlaneState(output=3.0, curvature=0.5)
        >>> reduced_step(reduce(start, problem)) == reduce(step(start, problem), problem)
        True
    """
    u, v, w = state
    factor = 1 - v + u + w
    return ReducedState(factor**2 * u, v - u * (4 - v) - 4 * w, factor * w)


def trajectory(initial: PlaneState, problem: PlaneProblem, num_steps: int) -> PlaneState:
    """Run the map; every field gets a leading axis of num_steps + 1 times, from `initial` on.

    Example:
        >>> problem = PlaneProblem(0.0, learning_rate=1.0, coupling=0.25)
        >>> trajectory(PlaneState(output=2.0, curvature=3.0), problem, num_steps=1).output.tolist()
        [2.0, -2.0]
    """
    check_positive("learning_rate", problem.learning_rate)
    return iterated(lambda state: step(state, problem), initial, num_steps)


def reduced_trajectory(initial: ReducedState, num_steps: int) -> ReducedState:
    """Run the reduced map; every field gets a leading axis of num_steps + 1 times.

    Example:
        >>> path = reduced_trajectory(ReducedState(loss=1.0, curvature=3.0, pull=0.0), num_steps=2)
        >>> path.loss.tolist(), path.curvature.tolist()
        ([1.0, 1.0, 0.0], [3.0, 2.0, 0.0])
    """
    return iterated(reduced_step, initial, num_steps)


def equilibrium_multipliers(ratio: Scalar) -> tuple[Scalar, Scalar]:
    """Give the eigenvalues (1 − ηλ)² and 1 of the map (u, v) at its equilibrium g = y.

    Example:
        >>> equilibrium_multipliers(0.5), equilibrium_multipliers(3.0)
        ((0.25, 1.0), (4.0, 1.0))
    """
    return (1 - ratio) ** 2, 1.0


def is_stable(ratio: Scalar) -> Bool[Array, ""] | bool:
    """Say whether the equilibrium g = y with this ηλ attracts: 0 < ηλ < 2.

    Example:
        >>> is_stable(1.5), is_stable(2.5)
        (True, False)
    """
    return (ratio > 0) & (ratio < 2)


def catapult_peak(problem: PlaneProblem, ratio: Scalar) -> Numbers:
    """Give the peak loss δ²/(4cη²) of a catapult, δ = ηλ₀ − 2.

    The limit of wide networks and small δ, in which δ² + 2u is conserved while v falls from
    2 + δ to 2 − δ; so the final curvature is 4/η − λ₀.

    Example:
        >>> catapult_peak(PlaneProblem(0.0, learning_rate=1.0, coupling=1e-4), ratio=2.5)  # δ²m/4
        625.0
    """
    return (ratio - 2) ** 2 / (4 * problem.coupling * problem.learning_rate**2)


def iterated(advance: Callable[[Any], Any], initial: Any, num_steps: int) -> Any:
    """Run a map of any state; every field gets a leading axis of num_steps + 1 times.

    Args:
        advance: One step: state ─► state.
        initial: The first state, a NamedTuple of numbers or arrays.
        num_steps: The number of steps.

    Example:
        >>> halve = lambda state: PlaneState(state.output / 2, state.curvature + 1)
        >>> iterated(halve, PlaneState(output=8.0, curvature=0.0), num_steps=3).output.tolist()
        [8.0, 4.0, 2.0, 1.0]
    """
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
    initial = type(initial)(*(jnp.asarray(value, dtype=float) for value in initial))

    def body(state, _):
        state = advance(state)
        return state, state

    _, later = jax.lax.scan(body, initial, length=num_steps)
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), initial, later)
