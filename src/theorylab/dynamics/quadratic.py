"""The quadratic model on one example: a map of the plane with three regimes.

The output g and the curvature λ = ‖∇g‖² move by themselves, exactly at every width:

    g' − y = (1 − ηλ + cη²(g − y)g) (g − y)
    λ'     = λ + cη²(g − y)²λ − 4cη(g − y)g

under gradient descent on ½(g − y)² with step size η; c = ‖x‖²/(md) for width m and d inputs.
In u = cη²(g − y)², v = ηλ and w = cη²(g − y)y it reads

    u' = (1 − v + u + w)² u,    v' = v − u(4 − v) − 4w.

By the ratio ηλ₀ there are three regimes, up to a band of width O(log m / √m):

    ηλ₀ < 2        subcritical: the loss falls monotonically, λ hardly moves
    2 < ηλ₀ < 4    catapult: with δ = ηλ₀ − 2 the loss rises to order mδ², and falls again,
                   because λ falls until ηλ < 2
    4 < ηλ₀        divergent

Source: zhu · nqm-2d-map · Eqs 3.11–3.14, Thms 3.3.1, 3.3.4, B.3.1, B.7.1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theorylab.typing import Scalar

SUBCRITICAL, CATAPULT, DIVERGENT = 0, 1, 2  # the regimes, in the order of the learning rate


class State(NamedTuple):
    """Where the model is."""

    output: Scalar  # g
    curvature: Scalar  # λ


class Reduced(NamedTuple):
    """The same in units of the learning rate and the width."""

    loss: Scalar  # u = cη²(g − y)², twice the loss in units of 1/(cη²)
    curvature: Scalar  # v = ηλ
    pull: Scalar  # w = cη²(g − y)y, with the sign of the error


class Problem(NamedTuple):
    """One example and a learning rate."""

    target: Scalar  # y
    learning_rate: Scalar  # η
    coupling: Scalar  # c = ‖x‖²/(md)


class Course(NamedTuple):
    """What a run went through, without the run itself."""

    last: State
    highest_loss: Float[Array, ""]
    drift: Float[Array, ""]  # sup |λ(t) − λ₀|
    largest_rise: Float[Array, ""]  # the largest loss(t + 1)/loss(t); at most 1 if monotone


def coupling(x: Float[Array, " d"], width: int) -> Float[Array, ""]:
    """Compute c = ‖x‖²/(md)."""
    if width < 1:
        raise ValueError(f"width must be at least 1, got {width}.")
    return x @ x / (width * x.size)


def loss(state: State, problem: Problem) -> Scalar:
    """Compute ½(g − y)²."""
    return (state.output - problem.target) ** 2 / 2


def step(state: State, problem: Problem) -> State:
    """Take one step of gradient descent.

    Example:
        >>> step(State(output=2.0, curvature=3.0), Problem(0.0, learning_rate=1.0, coupling=0.25))
        State(output=-2.0, curvature=2.0)
    """
    (g, lam), (y, eta, c) = state, problem
    r = g - y
    return State(
        output=y + (1 - eta * lam + c * eta**2 * r * g) * r,
        curvature=lam + c * eta**2 * r**2 * lam - 4 * c * eta * r * g,
    )


def reduce(state: State, problem: Problem) -> Reduced:
    """Change to the reduced coordinates (u, v, w)."""
    (g, lam), (y, eta, c) = state, problem
    r = g - y
    return Reduced(c * eta**2 * r**2, eta * lam, c * eta**2 * r * y)


def reduced_step(state: Reduced) -> Reduced:
    """Take one step in reduced coordinates; w carries the sign of the error, which (u, v) lose."""
    u, v, w = state
    factor = 1 - v + u + w
    return Reduced(factor**2 * u, v - u * (4 - v) - 4 * w, factor * w)


def trajectory(initial: State, problem: Problem, num_steps: int) -> State:
    """Run the map; every field gets a leading axis of num_steps + 1 times, the first is `initial`."""
    return _scan(lambda state: step(state, problem), initial, num_steps)


def reduced_trajectory(initial: Reduced, num_steps: int) -> Reduced:
    """Run the reduced map; every field gets a leading axis of num_steps + 1 times."""
    return _scan(reduced_step, initial, num_steps)


def course(initial: State, problem: Problem, num_steps: int) -> Course:
    """Run the map and keep its extremes only, so that many runs need little memory."""
    initial = State(*(jnp.asarray(value, dtype=float) for value in initial))
    loss_0 = jnp.asarray(loss(initial, problem))
    zero = jnp.zeros_like(loss_0)

    def advance(_, past: Course) -> Course:
        state = step(past.last, problem)
        before, after = loss(past.last, problem), loss(state, problem)
        # 0/0 at the equilibrium is no rise.
        rise = jnp.where(after > 0, after / before, 0.0)
        return Course(
            last=state,
            highest_loss=jnp.maximum(past.highest_loss, after),
            drift=jnp.maximum(past.drift, jnp.abs(state.curvature - initial.curvature)),
            largest_rise=jnp.maximum(past.largest_rise, rise),
        )

    return jax.lax.fori_loop(0, num_steps, advance, Course(initial, loss_0, zero, zero))


def regime(ratio: Float[Array, "*shape"]) -> Int[Array, "*shape"]:
    """Predict the regime from ηλ₀: 0 below 2, 1 between 2 and 4, 2 beyond 4.

    Example:
        >>> regime(jnp.array([1.0, 3.0, 5.0])).tolist()
        [0, 1, 2]
    """
    return jnp.where(ratio > 4, DIVERGENT, jnp.where(ratio > 2, CATAPULT, SUBCRITICAL))


def observed_regime(
    initial_loss: Float[Array, "*shape"], past: Course
) -> Int[Array, "*shape"]:
    """Name the regime that a run showed: did the loss explode, rise above its start, or neither?"""
    exploded = ~jnp.isfinite(past.highest_loss)
    rose = past.highest_loss > initial_loss
    return jnp.where(exploded, DIVERGENT, jnp.where(rose, CATAPULT, SUBCRITICAL))


def band(width: Scalar) -> Float[Array, ""]:
    """Give 2 log m / √m, within which of ηλ₀ = 2 and 4 the theorems say nothing."""
    return 2 * jnp.log(width) / jnp.sqrt(width)


def equilibrium_multipliers(ratio: Scalar) -> tuple[Scalar, Scalar]:
    """Give the eigenvalues (1 − ηλ)² and 1 of the map (u, v) at its equilibrium g = y."""
    return (1 - ratio) ** 2, 1.0


def is_stable(ratio: Scalar) -> Bool[Array, ""] | bool:
    """Say whether the equilibrium g = y with this ηλ attracts: 0 < ηλ < 2."""
    return (ratio > 0) & (ratio < 2)


def catapult_peak(problem: Problem, ratio: Scalar) -> Scalar:
    """Give the peak loss δ²/(4cη²) of a catapult, δ = ηλ₀ − 2.

    The limit of wide networks and small δ, in which δ² + 2u is conserved while v falls from
    2 + δ to 2 − δ; so the final curvature is 4/η − λ₀.
    """
    return (ratio - 2) ** 2 / (4 * problem.coupling * problem.learning_rate**2)


def _scan(advance, initial, num_steps):
    """Iterate, and put the first state before the later ones."""
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
    initial = type(initial)(*(jnp.asarray(value, dtype=float) for value in initial))

    def body(state, _):
        state = advance(state)
        return state, state

    _, later = jax.lax.scan(body, initial, length=num_steps)
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), initial, later)
