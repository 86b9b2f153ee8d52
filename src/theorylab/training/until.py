"""Training until the data are fitted: a loss to reach instead of a number of steps.

    begin ─► check ─► step … step ─► check ─► … ─► L_train < target ─► what was best

Networks are compared at one training loss, not after one number of steps or epochs. A check
computes the loss on all training samples, which may end the run, and on the validation samples: the
parameters with the least validation loss are kept. A run that diverges ends at the next check.
All of it is one compiled `jax.lax.while_loop`: jit it, vmap it, or give it to `ensemble`.

Source: zhu · agop-sgd · §4.4 (train to 10⁻³, report at the best validation loss).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from theorylab.answers import Answer
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.typing import Params, RandomKey

from .descent import updated
from .sgd import Batches, Examples, Sampler, draw_indices, new_sampler

BatchLoss = Callable[[Params, Array, Array], Float[Array, ""]]
Event = Callable[[Params, Array, Array], Bool[Array, ""]]


@dataclass(frozen=True)
class Until:
    """When training ends.

    Args:
        loss: The training loss to fall below.
        max_steps: The number of steps after which it ends anyway.
        check_every: The number of steps from one check to the next.

    Example:
        >>> Until(loss=1e-2, max_steps=1000).check_every
        50
    """

    loss: float = 1e-3
    max_steps: int = 20_000
    check_every: int = 50

    def __post_init__(self) -> None:
        if not self.loss > 0:
            raise ValueError(f"the loss to reach must be positive, got {self.loss}.")
        for name in ("max_steps", "check_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")


class StoppedRun(Answer):
    """A run that has ended; under `vmap` every field gets the axis of the seeds in front.

    Args:
        params: The parameters at the check with the least validation loss.
        validation: The validation loss there.
        step: The steps taken until there.
        num_events: The steps until there at which the event happened.
        loss: The training loss at the end.
        num_steps: The steps taken until the end.
        reached: Whether the training loss fell below what was to reach.
        diverged: Whether a loss stopped being finite.

    Example:
        >>> from theorylab.data import Dataset
        >>> line = Dataset(jnp.ones((4, 1)), jnp.ones((4, 1)), "y = 1", "made up")
        >>> risk = lambda w, x, y: jnp.mean((w * x - y) ** 2)
        >>> args = (risk, jnp.array(0.0), line, line, optax.sgd(0.5), Batches(4))
        >>> run = train_until(*args, Until(check_every=1), jax.random.key(0))
        >>> bool(run.reached), bool(run.diverged), int(run.num_steps)  # η = ½ is Newton's step
        (True, False, 1)
    """

    params: Params
    validation: Float[Array, ""]
    step: Int[Array, ""]
    num_events: Int[Array, ""]
    loss: Float[Array, ""]
    num_steps: Int[Array, ""]
    reached: Bool[Array, ""]
    diverged: Bool[Array, ""]


def train_until(
    loss_of: BatchLoss,
    params: Params,
    train: Examples,
    validation: Examples,
    optimizer: optax.GradientTransformation,
    batch: Batches,
    until: Until,
    key: RandomKey,
    event: Event | None = None,
) -> StoppedRun:
    """Minimise an empirical risk to a target, and keep the parameters with the best validation.

    Args:
        loss_of: L̂(w; x, y), the loss of samples, such as `empirical_risk(loss, apply)`.
        params: w₀, any pytree.
        train: Inputs x (n ...) and targets y (n k).
        validation: Samples that choose the best parameters.
        optimizer: An optax transformation, such as `gradient_descent(0.1)`.
        batch: The size of batches; that of the whole set is gradient descent.
        until: The loss to reach, the greatest number of steps, and how often to check.
        key: The randomness of the batches.
        event: What to count, asked before every step: (w, x, y of the batch) ─► did it happen?

    Example:
        >>> from theorylab.data import Dataset
        >>> line = Dataset(jnp.ones((4, 1)), jnp.ones((4, 1)), "y = 1", "made up")
        >>> risk = lambda w, x, y: jnp.mean((w * x - y) ** 2)
        >>> end, sizes = Until(1e-3, check_every=1), Batches(4)
        >>> fitted = train_until(
        ...     risk, jnp.array(0.0), line, line, optax.sgd(0.25), sizes, end, jax.random.key(0)
        ... )
        >>> int(fitted.num_steps), round(float(fitted.params), 4)
        (5, 0.9688)
    """
    _check(train, validation, batch)
    advance = _advance(loss_of, train, optimizer, batch, event)
    checked = _checked(loss_of, train, validation)

    def unfinished(state: _State) -> Bool[Array, ""]:
        unfitted = jnp.isfinite(state.loss) & (state.loss >= until.loss)
        return ~state.begun | (unfitted & (state.step < until.max_steps))

    def stretch(state: _State) -> _State:
        # The first stretch has no step, only its check: one is compiled, not two.
        length = jnp.where(state.begun, until.check_every, 0)
        end = jnp.minimum(state.step + length, until.max_steps)
        return checked(jax.lax.fori_loop(state.step, end, lambda _, state: advance(state), state))

    zero = jnp.array(0, jnp.int32)
    sampler = new_sampler(key, len(train.x))
    dtype = jax.eval_shape(loss_of, params, train.x, train.y).dtype
    infinite = jnp.array(jnp.inf, dtype)
    best = _Best(params, infinite, zero, zero)
    learner = (params, optimizer.init(params))
    first = _State(learner, sampler, zero, zero, best, infinite, begun=jnp.array(False))
    run = fast_convolutions(partial(jax.lax.while_loop, unfinished, stretch))
    end: _State = run(first)
    reached = end.loss < until.loss
    return StoppedRun(*end.best, end.loss, end.step, reached, ~jnp.isfinite(end.loss))


class _Best(NamedTuple):
    """The first fields of `StoppedRun`, so far."""

    params: Params
    validation: Float[Array, ""]
    step: Int[Array, ""]
    num_events: Int[Array, ""]


class _State(NamedTuple):
    learner: Any  # parameters and the optimiser's state
    sampler: Sampler
    step: Int[Array, ""]
    num_events: Int[Array, ""]
    best: _Best
    loss: Float[Array, ""]
    begun: Bool[Array, ""]  # whether there was a check


def _advance(
    loss_of: BatchLoss,
    train: Examples,
    optimizer: optax.GradientTransformation,
    batch: Batches,
    event: Event | None,
) -> Callable[[_State], _State]:
    """One step on one batch."""
    x, y = train.x, train.y
    whole = batch.size == len(x) and not batch.replace  # nothing to draw

    def advance(state: _State) -> _State:
        sampler, inputs, targets = state.sampler, x, y
        if not whole:
            sampler, chosen = draw_indices(batch, state.sampler, len(x))
            inputs, targets = x[chosen], y[chosen]
        count = state.num_events
        if event is not None:
            count = count + event(state.learner[0], inputs, targets).astype(count.dtype)
        learner = updated(lambda w: loss_of(w, inputs, targets), state.learner, optimizer)
        return state._replace(
            learner=learner, sampler=sampler, step=state.step + 1, num_events=count
        )

    return advance


def _checked(
    loss_of: BatchLoss, train: Examples, validation: Examples
) -> Callable[[_State], _State]:
    """A check: the loss on all training samples, and the parameters with the best validation."""

    def checked(state: _State) -> _State:
        best = _Best(
            state.learner[0],
            loss_of(state.learner[0], validation.x, validation.y),
            state.step,
            state.num_events,
        )
        better = best.validation < state.best.validation  # false for NaN
        kept = jax.tree.map(lambda new, old: jnp.where(better, new, old), best, state.best)
        loss = loss_of(state.learner[0], train.x, train.y)
        return state._replace(best=kept, loss=loss, begun=jnp.array(True))

    return checked


def _check(train: Examples, validation: Examples, batch: Batches) -> None:
    for name, part in (("train", train), ("validation", validation)):
        if len(part.x) != len(part.y) or len(part.x) < 1:
            raise ValueError(
                f"{name} needs at least one sample, and a target for each, "
                f"got {len(part.x)} and {len(part.y)}."
            )
    batch.check(len(train.x))
