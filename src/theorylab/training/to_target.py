"""Gradient descent until the training loss falls below a target.

    w ← w − η(t) ∇L(w)    until L(w) < target and a given number of steps has passed

Networks can so be compared at one training loss, whatever their learning rates did on the way.

Source: zhu · agop-gd · Fig. 4.8.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from theorylab.answers import Answer
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.typing import Axes, Params, Scalar

from .descent import updated


class DescentRun(Answer, axes=("step",)):
    """A run that has ended.

    Args:
        params: Where it ended.
        losses: The training loss before every step; NaN after the end.
        rates: The learning rate of every step; NaN after the end.
        num_steps: How many steps were taken.
        best: The least of what was watched on the way.
        reached: Whether the training loss fell below the target.

    Example:
        >>> square = lambda w: w**2 / 2
        >>> args = (square, jnp.array(1.0), optax.sgd(0.5), lambda state: 0.5)
        >>> run = descend_until(*args, target=0.2, max_steps=3)
        >>> run.losses[:1].tolist(), bool(run.reached)
        ([0.5], True)
    """

    params: Params
    losses: Float[Array, " t"]
    rates: Float[Array, " t"]
    num_steps: Int[Array, ""]
    best: Float[Array, ""]
    reached: Bool[Array, ""]

    def draw(self, axes: Axes) -> None:
        """The training loss before every step."""
        from theorylab.answers.figure import curve

        curve(axes, jnp.arange(self.losses.shape[-1]), self.losses.T)
        axes.set_xlabel("step")
        axes.set_ylabel("training loss L")
        axes.set_yscale("log")


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
) -> DescentRun:
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

    advance = _advance(objective, optimizer, rate_of, watch, every)
    best = jnp.array(jnp.inf, dtype)
    learner = (params, optimizer.init(params))
    begun = _State(learner, never, never, jnp.array(0), objective(params), best)
    run = fast_convolutions(partial(jax.lax.while_loop, unfinished, advance))
    end: _State = run(begun)
    if watch is not None:
        best = jnp.minimum(end.best, watch(end.learner[0]))
    reached = end.loss < target
    return DescentRun(end.learner[0], end.losses, end.rates, end.step, best, reached)


class _State(NamedTuple):
    learner: Any  # parameters and the optimiser's state
    losses: Array
    rates: Array
    step: Array
    loss: Array
    best: Array


def _advance(
    objective: Callable[[Params], Float[Array, ""]],
    optimizer: optax.GradientTransformation,
    rate_of: Callable[[Any], Scalar],
    watch: Callable[[Params], Float[Array, ""]] | None,
    every: int,
) -> Callable[[_State], _State]:
    """One step, written down, and watched where it is due."""

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

    return advance
