"""What a network has learned at one training loss, and how many catapults led there.

Networks are compared at one training loss, and a raise of η counts as a catapult only if the loss
then spikes: if it exceeds 1.5 times what it was at the raise, before the next one.

Source: zhu · agop-gd · Fig. 4.8; zhu · multi-catapult · §4.3.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from theorylab.data import Dataset
from theorylab.features.agop import agop, agop_alignment
from theorylab.training import descend_until, squared
from theorylab.typing import Apply, Params, Scalar

LOSS = squared("mean")
CORNER = 10  # inputs of the corner of G that is kept
SPIKE = 1.5  # a spike is a rise of the loss by this factor


class Measurement(NamedTuple):
    """What a network has learned, at one training loss.

    Args:
        test: The test loss at the end.
        best_test: The least test loss on the way, or that of the end if it was not followed.
        alignment: cos(G, G*) at the end, with the AGOP G on the training inputs.
        corner: The first rows and columns of G, of up to 10 inputs.
        losses: As in `training.DescentRun`, like what follows.
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
) -> Measurement:
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
    return Measurement(
        test=last,
        best_test=jnp.minimum(run.best, last),
        alignment=agop_alignment(features, reference.astype(features.dtype)),
        corner=features[:CORNER, :CORNER],
        losses=run.losses,
        rates=run.rates,
        num_steps=run.num_steps,
        reached=run.reached,
    )


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
