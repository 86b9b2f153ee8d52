"""Learning rates that change on the way: fixed lists, cycles, and those that follow η_crit.

    stepwise          η(t) = rates[i] from step boundaries[i] on
    triangular        η(t) up from low to high and down again, with a period
    follow_critical   η(t) = c η_crit(t)
    catapults         η is raised to c η_crit(t), c > 1, whenever the loss is back from a raise

The critical rate η_crit(w) is that of `theorylab.dynamics.critical_learning_rate`, or any function
of the parameters. Above it the loss must rise; a moderate c throws the network to a flatter place,
where η_crit is larger, and the loss comes back: a catapult. With c = 1.2 this ended well in every
pilot run; with c = 1.6 half of them diverged.

The first two are optax schedules. The last two depend on the weights, which no optax schedule sees,
so they are optax transformations; their state shows the rate, `state.learning_rate`. They end the
chain, as `optax.scale_by_learning_rate` does: `optax.chain(optax.clip(1.0), follow_critical(...))`.

Source: zhu · multi-catapult · §4.3, Fig. 4.4; zhu · cyclic-lr · Remark 4.3.3; zhu · ext-* · Ch. 5.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from theorylab.typing import Params, Scalar

from .losses import check_positive

Critical = Callable[..., Scalar]  # params, or params and a batch ─► η_crit


def stepwise(rates: Sequence[float], boundaries: Sequence[int]) -> optax.Schedule:
    """η(t) = rates[i] for boundaries[i-1] ≤ t < boundaries[i].

    Args:
        rates: The learning rates, one more than there are boundaries.
        boundaries: The increasing steps from which the next rate holds.

    Example:
        >>> schedule = stepwise([6.0, 10.0, 15.0], [15, 60])
        >>> [float(schedule(step)) for step in (0, 14, 15, 60)]
        [6.0, 6.0, 10.0, 15.0]
    """
    if len(rates) != len(boundaries) + 1:
        raise ValueError(
            f"rates must be one more than boundaries, got {len(rates)} and {len(boundaries)}."
        )
    if any(late <= early for early, late in zip((0, *boundaries), boundaries, strict=False)):
        raise ValueError(f"boundaries must be positive and increasing, got {list(boundaries)}.")
    for rate in rates:
        check_positive("a rate", rate)
    # In the default precision, as every other number, whatever x64 says when it is called.
    return lambda step: jnp.asarray(rates, float)[
        jnp.searchsorted(jnp.asarray(boundaries), step, side="right")
    ]


def triangular(low: Scalar, high: Scalar, period: int) -> optax.Schedule:
    """η(t) = high − (high − low)|2t/period − 1| in the first period, and so on.

    Args:
        low: The rate where a period begins and ends.
        high: The rate in its middle.
        period: The steps of a period, an even number.

    Example:
        >>> schedule = triangular(1.0, 3.0, period=4)
        >>> [float(schedule(step)) for step in range(6)]
        [1.0, 2.0, 3.0, 2.0, 1.0, 2.0]
    """
    check_positive("low", low)
    check_positive("high", high)
    if period < 2 or period % 2:
        raise ValueError(f"period must be an even number of at least 2, got {period}.")

    def schedule(step: Any) -> Array:
        phase = jnp.asarray(step % period, float)
        return high - (high - low) * jnp.abs(2 * phase / period - 1)

    return schedule


class FollowState(NamedTuple):
    """The learning rate of the last step, and the number of steps."""

    learning_rate: Float[Array, ""]
    count: Int[Array, ""]


def follow_critical(
    critical: Critical, factor: Scalar = 1.0, every: int = 1
) -> optax.GradientTransformationExtraArgs:
    """Descend with η(t) = c η_crit(t): w ← w − c η_crit(w) ∇f(w).

    Args:
        critical: η_crit as a function of the parameters. If `update` is given a `batch`, it gets
            that too: critical(params, batch).
        factor: c; below 1 for safe training that is as fast as possible, above for catapults.
        every: After how many steps η_crit is measured again.

    Example:
        >>> curvature = 4.0
        >>> optimizer = follow_critical(lambda w: 2 / curvature, factor=0.5)
        >>> w = jnp.array(1.0)
        >>> update, state = optimizer.update(curvature * w, optimizer.init(w), w)
        >>> float(update), float(state.learning_rate)
        (-1.0, 0.25)
    """
    check_positive("factor", factor)
    if every < 1:
        raise ValueError(f"every must be at least 1, got {every}.")

    def init(params: Params) -> FollowState:
        return FollowState(jnp.zeros((), _dtype(params)), jnp.array(0))

    def update(updates, state, params=None, *, batch=None, **extra):
        params = _given("params", params)

        def measure() -> Array:
            rate = critical(params) if batch is None else critical(params, batch)
            return jnp.asarray(factor * rate, state.learning_rate.dtype)

        rate = jax.lax.cond(state.count % every == 0, measure, lambda: state.learning_rate)
        return _descend(updates, rate), FollowState(rate, state.count + 1)

    return optax.GradientTransformationExtraArgs(init, update)


def scheduled(schedule: Callable[[Array], Array]) -> optax.GradientTransformation:
    """Gradient descent with a schedule whose rate can be read from the state.

    Args:
        schedule: The number of the step ─► η.

    Example:
        >>> optimizer = scheduled(lambda step: 0.5 + step)
        >>> update, state = optimizer.update(jnp.array(2.0), optimizer.init(jnp.array(1.0)))
        >>> float(update), float(state.learning_rate)
        (-1.0, 0.5)
    """

    def init(params: Params) -> FollowState:
        dtype = jnp.result_type(*jax.tree.leaves(params))
        return FollowState(jnp.zeros((), dtype), jnp.array(0))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, FollowState]:
        rate = jnp.asarray(schedule(state.count), state.learning_rate.dtype)
        descended = jax.tree.map(
            lambda gradient: (-rate * gradient).astype(gradient.dtype), updates
        )
        return descended, FollowState(rate, state.count + 1)

    return optax.GradientTransformation(init, update)


class CatapultState(NamedTuple):
    """Where the schedule stands.

    Args:
        learning_rate: η, of the last step.
        level: The loss when η was last raised: the catapult is over once the loss is back there.
        age: The steps since η was last raised.
        num_raises: How often it was raised.
        count: The number of steps.
    """

    learning_rate: Float[Array, ""]
    level: Float[Array, ""]
    age: Int[Array, ""]
    num_raises: Int[Array, ""]
    count: Int[Array, ""]


def catapults(
    critical: Critical,
    factor: Scalar = 1.2,
    patience: int = 40,
    max_raises: int | Int[Array, ""] | None = None,
    start: Scalar | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Gradient descent that raises η to c η_crit(t) again and again, to induce several catapults.

    It is raised at the first step, and then whenever the loss is at most what it was at the last
    raise and enough steps have passed. `update` must be told the loss: `update(gradient, state,
    params, value=loss)`; `descend` does so. η_crit is measured only where η is raised.

    Args:
        critical: η_crit as a function of the parameters.
        factor: c, the ratio of η and η_crit right after a raise.
        patience: The fewest steps between two raises.
        max_raises: The most raises, of which the first is at the first step; None: no limit. It may
            be traced, so that runs with different numbers of catapults share one program.
        start: Begin at start · η_crit(0) instead, and raise after `patience` steps first.

    Example:
        >>> from theorylab.training import descend
        >>> loss = lambda w: (w[0] * w[1] - 1) ** 2 / 2
        >>> optimizer = catapults(lambda w: 2 / (w @ w), factor=1.1, max_raises=1)
        >>> run = descend(loss, jnp.array([0.1, 2.0]), optimizer, [0, 200], lambda w: 2 / (w @ w))
        >>> bool(run.records[1] > 1.1 * run.records[0])  # flatter than at the start
        True
    """
    _check_catapults(factor, start, patience, max_raises)

    def init(params: Params) -> CatapultState:
        zero, never = jnp.zeros((), _dtype(params)), jnp.array(0)
        # Where η begins below c η_crit, the patience before the first raise begins now.
        age = jnp.array(patience if start is None else 0)
        return CatapultState(zero, jnp.full_like(zero, jnp.inf), age, never, never)

    def update(updates, state, params=None, *, value=None, **extra):
        params, value = _given("params", params), _given("value", value)
        allowed = True if max_raises is None else state.num_raises < max_raises
        due = (value <= state.level) & (state.age >= patience) & allowed
        first = state.count == 0

        def measure() -> Array:
            multiple = factor if start is None else jnp.where(due, factor, start)
            return jnp.asarray(multiple * critical(params), state.learning_rate.dtype)

        rate = jax.lax.cond(due | first, measure, lambda: state.learning_rate)
        new = CatapultState(
            rate,
            jnp.where(due | first, value, state.level),
            jnp.where(due, 0, state.age) + 1,
            state.num_raises + due,
            state.count + 1,
        )
        return _descend(updates, rate), new

    return optax.GradientTransformationExtraArgs(init, update)


def _check_catapults(
    factor: Scalar,
    start: Scalar | None,
    patience: int,
    max_raises: int | Int[Array, ""] | None,
) -> None:
    check_positive("factor", factor)
    if start is not None:
        check_positive("start", start)
    if patience < 1:
        raise ValueError(f"patience must be at least 1, got {patience}.")
    least = 1 if start is None else 0  # without a start, the first step is a raise
    if isinstance(max_raises, int) and max_raises < least:
        raise ValueError(f"max_raises must be at least {least}, got {max_raises}.")


def _descend(updates: Params, rate: Float[Array, ""]) -> Params:
    return jax.tree.map(lambda update: (-rate * update).astype(update.dtype), updates)


def _dtype(params: Params) -> jnp.dtype:
    return jnp.result_type(*jax.tree.leaves(params))


def _given(name: str, value: Any) -> Any:
    if value is None:
        raise ValueError(f"the schedule must be given {name}: update(gradient, state, {name}=...).")
    return value
