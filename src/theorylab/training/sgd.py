"""Mini-batch SGD: w ← w - η ∇L̂(w; batch), the batch drawn with or without replacement.

With replacement the gradient's variance is γ²/B for batches of B, where γ² is that of one example;
the first batch of an epoch without replacement has γ²/B · (n - B)/(n - 1).

Source: arora · sgd-minibatch · §2.2, Problem 2.5.3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from theorylab.typing import Params, RandomKey

from .descent import updated
from .trajectory import Measure, Steps, Trajectory, record


class Examples(Protocol):
    """Inputs x and targets y, sample by sample: a `Dataset`, for instance."""

    @property
    def x(self) -> Array: ...

    @property
    def y(self) -> Array: ...


@dataclass(frozen=True)
class Batches:
    """How batches are drawn.

    Without replacement the examples come as one stream of shuffled epochs, each with every example
    once, cut into batches of one size; if the size does not divide n, a batch may reach into the
    next epoch, and none is dropped.

    Args:
        size: The number of examples B in a batch.
        replace: Whether examples are drawn with replacement, independently.
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
    key: RandomKey,
    steps: Steps,
    measure: Measure,
) -> Trajectory:
    """Minimise an empirical risk on batches, measuring at the chosen steps.

    Args:
        loss_of: L̂(w; x, y), the loss of a batch, such as `empirical_risk(loss, apply)`.
        params: w₀, any pytree.
        dataset: Inputs x (n ...) and targets y (n k).
        optimizer: An optax transformation, such as `gradient_descent(0.1)`.
        batch: The size of batches, and whether they are drawn with replacement.
        key: The randomness of the batches.
        steps: The increasing numbers of steps after which to measure; the last ends the run.
        measure: What to record: params ─► any pytree of arrays.
    """
    x, y = dataset.x, dataset.y
    if len(x) != len(y):
        raise ValueError(f"x and y must have as many samples, got {len(x)} and {len(y)}.")
    batch.check(len(x))

    def advance(state: Any, step: Int[Array, ""]) -> Any:
        learner, sampler = state
        sampler, chosen = draw(batch, sampler, step, len(x), key)
        inputs, targets = x[chosen], y[chosen]
        return updated(lambda params: loss_of(params, inputs, targets), learner, optimizer), sampler

    state = ((params, optimizer.init(params)), sampler_state(batch, len(x), key))
    return record(advance, state, steps, measure, params_of=lambda state: state[0][0])


def sampler_state(batch: Batches, num_samples: int, key: RandomKey) -> Int[Array, "epochs n"]:
    """What `draw` carries along: the orders of this epoch and of the next."""
    if batch.replace:
        return jnp.zeros((0, num_samples), int)
    return jnp.stack([_order(key, epoch, num_samples) for epoch in (0, 1)])


def draw(
    batch: Batches, orders: Int[Array, "epochs n"], step: Int[Array, ""], num_samples: int, key: RandomKey
) -> tuple[Int[Array, "epochs n"], Int[Array, " b"]]:
    """The examples of a step's batch, and the sampler's state after it.

    Args:
        batch: How batches are drawn.
        orders: The sampler's state; steps must be drawn one after another.
        step: The number of the step, from 0.
        num_samples: The number of samples n.
        key: The randomness of all batches.
    """
    n, size = num_samples, batch.size
    if batch.replace:
        return orders, jax.random.randint(jax.random.fold_in(key, step), (size,), 0, n)
    epoch, begin = jnp.divmod(step * size, n)
    turned = (begin < size) & (epoch > 0)  # the epoch before ended inside the last batch
    orders = jax.lax.cond(
        turned,
        lambda orders: jnp.stack([orders[1], _order(key, epoch + 1, n)]),
        lambda orders: orders,
        orders,
    )
    return orders, jax.lax.dynamic_slice_in_dim(orders.reshape(-1), begin, size)


def _order(key: RandomKey, epoch: Int[Array, ""] | int, num_samples: int) -> Int[Array, " n"]:
    return jax.random.permutation(jax.random.fold_in(key, epoch), num_samples)
