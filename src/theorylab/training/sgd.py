"""Mini-batch SGD: w ← w - η ∇L̂(w; batch), the batch drawn with or without replacement.

With replacement the gradient's variance is γ²/B for batches of B, where γ² is that of one example;
the first batch of an epoch without replacement has γ²/B · (n - B)/(n - 1).

`sgd` measures the parameters at chosen steps. `probed_sgd` measures at every step, and what it
measures sees the batch as well: what the step is about to do, and to which examples.

Source: arora · sgd-minibatch · §2.2, Problem 2.5.3; zhu · sgd-match-rate · §4.3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.typing import Params, RandomKey

from .descent import updated
from .trajectory import Measure, Steps, Trajectory, all_finite, first_failure, run_and_record


@runtime_checkable
class Examples(Protocol):
    """Inputs x and targets y, sample by sample: a `Dataset`, for instance."""

    @property
    def x(self) -> Array:
        """Inputs (n ...)."""
        ...

    @property
    def y(self) -> Array:
        """Targets (n k)."""
        ...


@dataclass(frozen=True)
class Batches:
    """How batches are drawn.

    Without replacement the examples come as one stream of shuffled epochs, each with every example
    once, cut into batches of one size; if the size does not divide n, a batch may reach into the
    next epoch, and none is dropped.

    Args:
        size: The number of examples B in a batch.
        replace: Whether examples are drawn with replacement, independently.

    Example:
        >>> Batches(32, replace=True)
        Batches(size=32, replace=True)
    """

    size: int
    replace: bool = False

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"the batch size must be at least 1, got {self.size}.")

    def check(self, num_samples: int) -> None:
        """Raise if there are too few samples for a batch."""
        if num_samples < 1:
            raise ValueError("the dataset must have at least one sample, got none.")
        if not self.replace and self.size > num_samples:
            raise ValueError(
                "the batch size must be at most the number of samples "
                f"without replacement, got {self.size} > {num_samples}."
            )


def sgd(
    loss_of: Callable[[Params, Array, Array], Float[Array, ""]],
    params: Params,
    dataset: Examples,
    optimizer: optax.GradientTransformation,
    batch: Batches,
    steps: Steps,
    measure: Measure,
    key: RandomKey,
) -> Trajectory:
    """Minimise an empirical risk on batches, measuring at the chosen steps.

    Args:
        loss_of: L̂(w; x, y), the loss of a batch, such as `empirical_risk(loss, apply)`.
        params: w₀, any pytree.
        dataset: Inputs x (n ...) and targets y (n k).
        optimizer: An optax transformation, such as `gradient_descent(0.1)`.
        batch: The size of batches, and whether they are drawn with replacement.
        steps: The increasing numbers of steps after which to measure; the last ends the run.
        measure: What to record: params ─► any pytree of arrays.
        key: The randomness of the batches.

    Example:
        >>> from theorylab.data import Dataset
        >>> data = Dataset(jnp.ones((4, 1)), jnp.zeros((4, 1)), "y = 0", "made up")
        >>> loss = lambda w, x, y: jnp.mean((w * x - y) ** 2)
        >>> args = (loss, jnp.array(1.0), data, optax.sgd(0.25), Batches(2))
        >>> sgd(*args, steps=[0, 1, 2], measure=lambda w: w, key=jax.random.key(0)).records.tolist()
        [1.0, 0.5, 0.25]
    """
    _check_examples(dataset, batch)

    def advance(state: _State, step: Int[Array, ""]) -> _State:
        sampler, drawn = _draw_batch(batch, state.sampler, dataset)
        return _State(_learned(loss_of, state.learner, optimizer, drawn), sampler)

    state = _State((params, optimizer.init(params)), new_sampler(key, len(dataset.x)))
    return run_and_record(advance, state, steps, measure, params_of=lambda state: state.learner[0])


class Batch(NamedTuple):
    """The examples of one step, and which they are of the dataset."""

    x: Array
    y: Array
    indices: Int[Array, " b"]


Probe = Callable[[Params, Batch, Int[Array, ""]], Any]  # params, batch, step ─► a pytree of arrays


def probed_sgd(
    loss_of: Callable[[Params, Array, Array], Float[Array, ""]],
    params: Params,
    dataset: Examples,
    optimizer: optax.GradientTransformation,
    batch: Batches,
    num_steps: int,
    probe: Probe,
    key: RandomKey,
) -> Trajectory:
    """Minimise an empirical risk on batches, probing before every step, inside one compiled scan.

    Record t is made with the parameters before step t and the batch of step t; the optimiser may
    ask for the batch too, as `follow_critical` does. The batches are those of `sgd`.

    Args:
        loss_of: L̂(w; x, y), the loss of a batch, such as `empirical_risk(loss, apply)`.
        params: w₀, any pytree.
        dataset: Inputs x (n ...) and targets y (n k).
        optimizer: An optax transformation, such as `gradient_descent(0.1)`.
        batch: The size of batches, and whether they are drawn with replacement.
        num_steps: The number of steps, and of records.
        probe: What to record: (params, batch, step) ─► any pytree of arrays.
        key: The randomness of the batches.

    Example:
        >>> from theorylab.data import Dataset
        >>> data = Dataset(jnp.ones((4, 1)), jnp.zeros((4, 1)), "y = 0", "made up")
        >>> loss = lambda w, x, y: jnp.mean((w * x - y) ** 2)
        >>> args = (loss, jnp.array(1.0), data, optax.sgd(0.25), Batches(2))
        >>> run = probed_sgd(*args, 3, lambda w, batch, step: w, jax.random.key(0))
        >>> run.records.tolist(), float(run.params)
        ([1.0, 0.5, 0.25], 0.125)
    """
    _check_examples(dataset, batch)
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")

    def advance(state: _State, step: Int[Array, ""]) -> tuple[_State, Any]:
        sampler, drawn = _draw_batch(batch, state.sampler, dataset)
        measured = probe(state.learner[0], drawn, step)
        learner = _learned(loss_of, state.learner, optimizer, drawn)
        return _State(learner, sampler), (measured, all_finite(measured))

    steps = jnp.arange(num_steps)
    state = _State((params, optimizer.init(params)), new_sampler(key, len(dataset.x)))
    run = fast_convolutions(partial(jax.lax.scan, advance))
    (learner, _), (records, finite) = run(state, steps)
    finite = finite.at[-1].set(finite[-1] & all_finite(learner[0]))
    return Trajectory(steps, records, learner[0], ~finite.all(), first_failure(steps, finite))


def _check_examples(dataset: Examples, batch: Batches) -> None:
    x, y = dataset.x, dataset.y
    if len(x) != len(y):
        raise ValueError(f"x and y must have as many samples, got {len(x)} and {len(y)}.")
    batch.check(len(x))


def _draw_batch(batch: Batches, sampler: "Sampler", dataset: Examples) -> tuple["Sampler", Batch]:
    sampler, chosen = draw_indices(batch, sampler, len(dataset.x))
    return sampler, Batch(dataset.x[chosen], dataset.y[chosen], chosen)


def _learned(
    loss_of: Callable[[Params, Array, Array], Float[Array, ""]],
    learner: Any,
    optimizer: optax.GradientTransformation,
    batch: Batch,
) -> Any:
    """Parameters and optimiser state after a step on the batch."""
    return updated(
        lambda params: loss_of(params, batch.x, batch.y), learner, optimizer, batch=batch
    )


class Sampler(NamedTuple):
    """The stream of examples, and how much of it has been drawn."""

    key: RandomKey
    epoch: Int[Array, ""]  # how many orders (or batches, with replacement) the key has given
    order: Int[Array, " n"]  # of this epoch
    position: Int[Array, ""]  # in this order: what comes before it has been drawn


def new_sampler(
    key: RandomKey,
    num_samples: int,
) -> Sampler:
    """Make the sampler before the first batch; its first draw shuffles the first epoch.

    Example:
        >>> int(new_sampler(jax.random.key(0), num_samples=5).position)
        5
    """
    order = jnp.zeros(num_samples, int)
    return Sampler(key, jnp.array(0), order, position=jnp.array(num_samples))


def draw_indices(
    batch: Batches, sampler: Sampler, num_samples: int
) -> tuple[Sampler, Int[Array, " b"]]:
    """Draw the examples of the next batch.

    Args:
        batch: How batches are drawn.
        sampler: The state of the stream; `new_sampler` begins it.
        num_samples: The number of samples n.

    Example:
        >>> sampler = new_sampler(jax.random.key(0), num_samples=4)
        >>> sampler, first = draw_indices(Batches(2), sampler, 4)
        >>> _, second = draw_indices(Batches(2), sampler, 4)
        >>> sorted([*first.tolist(), *second.tolist()])  # one epoch: every example once
        [0, 1, 2, 3]
    """
    key, epoch, order, position = sampler
    n, size = num_samples, batch.size
    fresh = jax.random.fold_in(key, epoch)
    if batch.replace:
        chosen = jax.random.randint(fresh, (size,), 0, n)
        return sampler._replace(epoch=epoch + 1), chosen

    def stay() -> tuple[Sampler, Int[Array, " b"]]:
        chosen = jax.lax.dynamic_slice_in_dim(order, position, size)
        return sampler._replace(position=position + size), chosen

    def turn() -> tuple[Sampler, Int[Array, " b"]]:
        following = _shuffled(fresh, n)
        both = jnp.concatenate([order, following])
        chosen = jax.lax.dynamic_slice_in_dim(both, position, size)
        return Sampler(key, epoch + 1, following, position + size - n), chosen

    return jax.lax.cond(position + size <= n, stay, turn)


def _shuffled(key: RandomKey, num_samples: int) -> Int[Array, " n"]:
    """A random order: the samples sorted by 64 random bits each.

    What `jax.random.permutation` does by two sorts, of 32 bits, in twice the time to compile.
    """
    high, low = jax.random.bits(key, (2, num_samples), jnp.uint32)
    return jax.lax.sort((high, low, jnp.arange(num_samples)), num_keys=2)[2]


class _State(NamedTuple):
    learner: Any  # parameters and the optimiser's state
    sampler: Sampler
