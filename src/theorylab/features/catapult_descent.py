"""Gradient descent to a given training loss, with as many catapults as are asked for.

    w ← w − η(t) ∇L(w)    until L(w) < target and the last raise of η has happened

Networks are compared at one training loss, and a raise of η counts as a catapult only if the loss
then spikes: if it exceeds 1.5 times what it was at the raise, before the next one.

Source: zhu · agop-gd · Fig. 4.8; zhu · multi-catapult · §4.3.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from theorylab.data import Dataset
from theorylab.training import squared
from theorylab.training.descent import updated
from theorylab.training.schedules import FollowState
from theorylab.typing import Apply, Params, Scalar

from .agop import agop, agop_alignment

LOSS = squared("mean")
CORNER = 10  # inputs of the corner of G that is kept
SPIKE = 1.5  # a spike is a rise of the loss by this factor


class Descended(NamedTuple):
    """A run that has ended.

    Args:
        params: Where it ended.
        losses: The training loss before every step; NaN after the end.
        rates: The learning rate of every step; NaN after the end.
        num_steps: How many steps were taken.
        best: The least of what was watched on the way.
        reached: Whether the training loss fell below the target.
    """

    params: Params
    losses: Float[Array, " t"]
    rates: Float[Array, " t"]
    num_steps: Int[Array, ""]
    best: Float[Array, ""]
    reached: Bool[Array, ""]


def descend_until(
    objective: Callable[[Params], Float[Array, ""]],
    params: Params,
    optimizer: optax.GradientTransformation,
    rate_of: Callable[[Any], Scalar],
    target: Scalar,
    max_steps: int,
    first_end: int | Int[Array, ""] = 0,
    watch: Callable[[Params], Float[Array, ""]] | None = None,
    every: int = 20,
) -> Descended:
    """Descend until the objective is below a target, in one compiled loop.

    Args:
        objective: L(w).
        params: w₀.
        optimizer: An optax transformation that descends, such as `catapults(...)`.
        rate_of: The learning rate of the last step in the optimiser's state.
        target: The loss to reach.
        max_steps: The number of steps after which it ends anyway.
        first_end: The number of steps before which it does not end.
        watch: A number to follow, of which the least is kept, such as the test loss.
        every: After how many steps it is watched.

    Example:
        >>> half_square = lambda w: w**2 / 2
        >>> run = descend_until(
        ...     half_square, jnp.array(1.0), optax.sgd(0.5), lambda state: 0.5, 0.01, max_steps=10
        ... )
        >>> int(run.num_steps), float(run.params)
        (3, 0.125)
    """
    if max_steps < 1 or every < 1:
        raise ValueError(f"max_steps and every must be at least 1, got {max_steps} and {every}.")
    dtype = jax.eval_shape(objective, params).dtype
    never = jnp.full((max_steps,), jnp.nan, dtype)

    def unfinished(state: _State) -> Bool[Array, ""]:
        fitted = (state.loss < target) & (state.step >= first_end)
        return jnp.isfinite(state.loss) & ~fitted & (state.step < max_steps)

    def advance(state: _State) -> _State:
        learner = updated(objective, state.learner, optimizer)
        step = state.step + 1
        loss, best = objective(learner[0]), state.best
        if watch is not None:
            seen = jax.lax.cond(step % every == 0, watch, lambda _: best, learner[0])
            best = jnp.minimum(best, seen)
        return _State(
            learner,
            state.losses.at[state.step].set(state.loss),
            state.rates.at[state.step].set(rate_of(learner[1])),
            step,
            loss,
            best,
        )

    best = jnp.array(jnp.inf, dtype)
    learner = (params, optimizer.init(params))
    begun = _State(learner, never, never, jnp.array(0), objective(params), best)
    end = jax.lax.while_loop(unfinished, advance, begun)
    if watch is not None:
        best = jnp.minimum(end.best, watch(end.learner[0]))
    reached = end.loss < target
    return Descended(end.learner[0], end.losses, end.rates, end.step, best, reached)


class Measured(NamedTuple):
    """What a network has learned, at one training loss.

    Args:
        test: The test loss at the end.
        best_test: The least test loss on the way, or that of the end if it was not followed.
        alignment: cos(G, G*) at the end, with the AGOP G on the training inputs.
        corner: The first rows and columns of G, of up to 10 inputs.
        losses: As in `Descended`, like what follows.
        rates: The learning rates.
        num_steps: The number of steps.
        reached: Whether the training loss was reached.
    """

    test: Float[Array, ""]
    best_test: Float[Array, ""]
    alignment: Float[Array, ""]
    corner: Float[Array, "c c"]
    losses: Float[Array, " t"]
    rates: Float[Array, " t"]
    num_steps: Int[Array, ""]
    reached: Bool[Array, ""]


def measured_descent(
    apply: Apply,
    params: Params,
    train: Dataset,
    test: Dataset,
    reference: Float[Array, "d d"],
    optimizer: optax.GradientTransformation,
    target: Scalar,
    max_steps: int,
    first_end: int | Int[Array, ""] = 0,
    watch_test: bool = False,
) -> Measured:
    """Descend to a mean squared error, and measure test loss and features there.

    Args:
        apply: The network, or an expansion of it.
        params: w₀.
        train: The training samples.
        test: The test samples.
        reference: G*.
        optimizer: `catapults(...)`, `follow_critical(...)`, or any whose state has the rate of the
            last step as `learning_rate`.
        target: The training loss to reach.
        max_steps: The number of steps after which it ends anyway.
        first_end: The number of steps before which it does not end.
        watch_test: Whether the test loss is followed on the way.
    """

    def loss_on(data: Dataset) -> Callable[[Params], Float[Array, ""]]:
        return lambda w: LOSS(apply(w, data.x), data.y)

    run = descend_until(
        loss_on(train),
        params,
        optimizer,
        lambda state: state.learning_rate,
        target,
        max_steps,
        first_end,
        watch=loss_on(test) if watch_test else None,
    )
    features, last = agop(apply, run.params, train.x), loss_on(test)(run.params)
    return Measured(
        test=last,
        best_test=jnp.minimum(run.best, last),
        alignment=agop_alignment(features, reference.astype(features.dtype)),
        corner=features[:CORNER, :CORNER],
        losses=run.losses,
        rates=run.rates,
        num_steps=run.num_steps,
        reached=run.reached,
    )


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


def num_spikes(losses: Float[np.ndarray, " t"], rates: Float[np.ndarray, " t"]) -> int:
    """How many raises of the learning rate the loss answered with a spike.

    Args:
        losses: The loss before every step.
        rates: The learning rate of every step.

    Example:
        >>> num_spikes(np.array([1.0, 0.9, 3.0, 0.5, 0.4, 0.3]), np.array([1.0, 2, 2, 2, 4, 4]))
        1
    """
    losses, rates = np.asarray(losses), np.asarray(rates)
    known = np.isfinite(rates)
    losses, rates = losses[known], rates[known]
    raises = np.flatnonzero(np.diff(rates) > 0) + 1
    ends = np.append(raises[1:], len(losses))[: len(raises)]
    return sum(
        bool(np.nanmax(losses[begin:end]) > SPIKE * losses[begin])
        for begin, end in zip(raises, ends, strict=True)
    )


def spikes_of(
    losses: Float[ArrayLike, "*r t"], rates: Float[ArrayLike, "*r t"]
) -> Int[np.ndarray, "*r"]:
    """The number of spikes of every run.

    Args:
        losses: The loss before every step.
        rates: The learning rate of every step.
    """
    given = np.asarray(losses)
    flat = (np.asarray(part).reshape(-1, given.shape[-1]) for part in (losses, rates))
    counts = [num_spikes(*run) for run in zip(*flat, strict=True)]
    return np.array(counts, int).reshape(given.shape[:-1])


class _State(NamedTuple):
    learner: Any  # parameters and the optimiser's state
    losses: Array
    rates: Array
    step: Array
    loss: Array
    best: Array
