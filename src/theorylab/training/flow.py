"""Gradient flow, dw/dt = -∇f(w), and any other flow dw/dt = v(w), by adaptive Runge–Kutta methods.

The local error is held below rtol |w| + atol by a PID controller (diffrax); a recorded time is
always the end of a step, so that no interpolation enters a record.

Source: golikov · two-layer-flows · §1.4; golikov · lin-gd · §1.2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Real

from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.typing import Params

from .trajectory import Measure, Trajectory, all_finite, first_failure

Times = Sequence[float | int] | Real[np.ndarray, " t"] | Real[Array, " t"]
_METHODS = {"tsit5": diffrax.Tsit5, "dopri8": diffrax.Dopri8, "kvaerno5": diffrax.Kvaerno5}


@dataclass(frozen=True)
class Solver:
    """How a flow is integrated.

    Args:
        method: Explicit of order 5 (tsit5) or 8 (dopri8, for tight tolerances); or implicit of
            order 5 (kvaerno5, for stiff flows; solves p × p systems, so for few parameters).
        rtol: The relative tolerance of a step; by default as the precision allows.
        atol: The absolute tolerance of a step; by default a hundredth of the relative one.
        max_steps: The most steps between two recorded times; the flow has failed beyond.

    Example:
        >>> Solver("dopri8", rtol=1e-8).method
        'dopri8'
    """

    method: Literal["tsit5", "dopri8", "kvaerno5"] = "tsit5"
    rtol: float | None = None
    atol: float | None = None
    max_steps: int = 100_000

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise ValueError(f"method must be one of {', '.join(_METHODS)}, got {self.method!r}.")
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, got {value}.")
        if self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {self.max_steps}.")


class _State(NamedTuple):
    time: Float[Array, ""]
    params: Params
    steady: Bool[Array, ""]
    failed: Bool[Array, ""]


def gradient_flow(
    objective: Callable[[Params], Float[Array, ""]],
    params: Params,
    times: Times,
    measure: Measure,
    solver: Solver | None = None,
    until: float | None = None,
) -> Trajectory:
    """Follow dw/dt = -∇f(w) from time 0, measuring at the chosen times.

    Arguments and result are those of `flow`, with an objective f for the velocity -∇f.

    Example:
        >>> run = gradient_flow(lambda w: w @ w / 2, jnp.ones(2), [0, 1], lambda w: w[0])
        >>> [round(float(w), 5) for w in run.records]
        [1.0, 0.36788]
    """

    def velocity(params: Params) -> Params:
        return jax.tree.map(jnp.negative, jax.grad(objective)(params))

    return flow(velocity, params, times, measure, solver, until)


def flow(
    velocity: Callable[[Params], Params],
    params: Params,
    times: Times,
    measure: Measure,
    solver: Solver | None = None,
    until: float | None = None,
) -> Trajectory:
    """Follow dw/dt = v(w) from time 0, measuring at the chosen times.

    A flow that fails (blows up, or needs too many steps) raises nothing: from then on every record
    and the parameters are NaN, and the trajectory is `diverged`.

    Args:
        velocity: v(w), with the shapes of w.
        params: w(0), any pytree of floating-point arrays.
        times: The increasing times at which to measure; the last ends the run.
        measure: What to record: params ─► any pytree of arrays.
        solver: Method and tolerances.
        until: Stop as soon as |v(w)| is below it; later records are those of the resting point.

    Example:
        >>> run = flow(lambda w: -2 * w, jnp.array(1.0), [0, 1], lambda w: w)
        >>> round(float(run.records[1]), 3)  # e⁻²
        0.135
    """
    solver = Solver() if solver is None else solver
    if until is not None and not until > 0:
        raise ValueError(f"until must be positive, got {until}.")
    params = jax.tree.map(jnp.asarray, params)
    dtype = jnp.result_type(*jax.tree.leaves(params))
    ends = jnp.asarray(_checked_times(times), dtype)

    def stretch(state: _State, end: Float[Array, ""]) -> tuple[_State, Any]:
        state = _advance(velocity, state, end, solver, until)
        measured = _nan_if(state.failed, measure(state.params))
        return state, (measured, all_finite(measured) & ~state.failed)

    start = _State(jnp.zeros((), dtype), params, jnp.array(False), jnp.array(False))
    run = fast_convolutions(partial(jax.lax.scan, stretch))
    state, (records, finite) = run(start, ends)
    final = _nan_if(state.failed, state.params)
    return Trajectory(ends, records, final, ~finite.all(), first_failure(ends, finite))


def _advance(
    velocity: Callable[[Params], Params],
    state: _State,
    end: Float[Array, ""],
    solver: Solver,
    until: float | None,
) -> _State:
    """Integrate up to the end of a stretch, or to the resting point, or to failure."""
    rtol = solver.rtol or (1e-5 if end.dtype == jnp.float32 else 1e-9)
    # A list of arrays, because diffrax would take a layer without parameters, (), for an array.
    leaves, structure = jax.tree.flatten(state.params)

    def leaf_velocity(leaves: list[Array]) -> list[Array]:
        return jax.tree.leaves(velocity(jax.tree.unflatten(structure, leaves)))

    event = None
    if until is not None:
        resting = diffrax.steady_state_event(rtol=0, atol=until, norm=optax.tree.norm)
        event = diffrax.Event(resting)
    until_time = jnp.where(state.steady | state.failed, state.time, end)  # at rest: nothing to do
    until_time = jax.lax.optimization_barrier(until_time)  # else XLA's simplifier runs in circles
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda time, leaves, args: leaf_velocity(leaves)),
        _METHODS[solver.method](),
        t0=state.time,
        t1=until_time,
        dt0=None,
        y0=leaves,
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=solver.atol or rtol / 100),
        event=event,
        max_steps=solver.max_steps,
        throw=False,
    )
    params = jax.tree.unflatten(structure, [leaf[0] for leaf in jax.tree.leaves(solution.ys)])
    steady = state.steady | (solution.result == diffrax.RESULTS.event_occurred)
    succeeded = (solution.result == diffrax.RESULTS.successful) | steady
    failed = state.failed | ~succeeded | ~all_finite(params)
    return _State(end, params, steady, failed)


def _nan_if(condition: Bool[Array, ""], tree: Any) -> Any:
    def replace(leaf: Array) -> Array:
        return (
            jnp.where(condition, jnp.nan, leaf)
            if jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)
            else leaf
        )

    return jax.tree.map(replace, tree)


def _checked_times(times: Times) -> Real[np.ndarray, " t"]:
    if isinstance(times, Tracer):
        raise ValueError(
            "times must be known when the run is compiled: use NumPy, not a traced array."
        )
    array = np.asarray(times)
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise ValueError(f"times must be a non-empty list of finite numbers, got {times!r}.")
    if array[0] < 0 or np.any(np.diff(array) <= 0):
        raise ValueError(f"times must be increasing and not negative, got {array.tolist()}.")
    return array
