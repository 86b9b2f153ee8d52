"""Gradient descent on a polynomial of low rank, with as many catapults as are asked for.

    drawn           samples of the polynomial, for training and for tests
    catapulted      raises η to c·η_crit(t) so many times, whenever the loss is back
    listed          raises it instead to given rates at given steps, a list of the source's
    descend_each    one run for every seed and every number of raises

Source: zhu · agop-gd · Fig. 4.8; zhu · full-rank-control · Fig. C.17; zhu · synthetic-tasks · C.6.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from theorylab.data import Dataset, low_rank_polynomial
from theorylab.data.polynomials import Rank
from theorylab.dynamics import critical_learning_rate
from theorylab.experiments.features.agop._catapult_descent import (
    LOSS,
    Measurement,
    measured_descent,
)
from theorylab.training import catapults, ensemble, stepwise
from theorylab.training.schedules import scheduled
from theorylab.typing import Apply, Params, RandomKey, Scalar

PATIENCE = 40  # the fewest steps from one raise to the next, and from the last to the end


def drawn(
    key: RandomKey,
    dimension: int,
    num_train: int,
    num_test: int,
    rank: Rank = 2,
    noise: float = 0.1,
) -> tuple[Dataset, Dataset]:
    """Draw samples of a polynomial, for training and for tests.

    Args:
        key: The randomness of inputs and noise.
        dimension: Of the inputs.
        num_train: Training samples.
        num_test: Test samples.
        rank: Which polynomial.
        noise: The standard deviation of the noise of all targets.
    """
    return low_rank_polynomial(key, num_train + num_test, dimension, rank, noise).split(num_train)


def catapulted(
    apply: Apply,
    params: Params,
    train: Dataset,
    test: Dataset,
    reference: Float[Array, "d d"],
    num_raises: int | Int[Array, ""],
    target: Scalar,
    max_steps: int,
    factor: float = 1.2,
    watch_test: bool = False,
) -> Measurement:
    """Descend from η_crit/2 with so many raises to c·η_crit(t), to a training loss, and measure.

    Args:
        apply: The network, or an expansion of it.
        params: w₀.
        train: The training samples.
        test: The test samples.
        reference: G*.
        num_raises: How often η is raised.
        target: The training loss to reach.
        max_steps: The number of steps after which it ends anyway.
        factor: c.
        watch_test: Whether the test loss is followed on the way.
    """

    def critical(w: Params) -> Float[Array, ""]:
        return critical_learning_rate(apply, w, train, LOSS)

    optimizer = catapults(critical, factor, PATIENCE, num_raises, start=0.5)
    first_end = PATIENCE * (num_raises + 1)
    return measured_descent(
        apply, params, train, test, reference, optimizer, target, max_steps, first_end, watch_test
    )


def listed(
    unit: Scalar,
    rates: Sequence[float],
    boundaries: Sequence[int],
    num_raises: Int[Array, ""],
) -> tuple[optax.GradientTransformation, Int[Array, ""]]:
    """Give descent by the first raises of a list, and the step before which it must not end.

    Args:
        unit: η_crit(0), in which the rates are given.
        rates: The first rate, and that after every raise.
        boundaries: The steps of the raises.
        num_raises: How many of them are taken.

    Example:
        >>> optimizer, first_end = listed(2.0, (0.5, 1.5, 3.0), (10, 20), jnp.array(1))
        >>> int(first_end)  # 40 steps after the first raise
        50
    """
    schedule, taken = stepwise(rates, boundaries), jnp.asarray((0, *boundaries))[num_raises]

    def rate(step: Array) -> Array:
        """Time stands still after the last raise that is taken."""
        return unit * jnp.asarray(schedule(jnp.minimum(step, taken)))

    return scheduled(rate), taken + PATIENCE


def descend_each(
    descent: Callable[[RandomKey, Int[Array, ""]], Measurement],
    keys: Key[Array, " s"],
    numbers: Sequence[int],
) -> Any:
    """One run for every key and number of raises: a `Measurement` of arrays, axes s, k in front.

    Args:
        descent: A run with a number of raises.
        keys: Of the seeds.
        numbers: Of raises.
    """
    pairs = (jnp.repeat(keys, len(numbers)), jnp.tile(jnp.asarray(numbers), len(keys)))
    found = ensemble(lambda pair: descent(*pair), pairs)
    shape = (len(keys), len(numbers))
    return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(*shape, *leaf.shape[1:]), found)
