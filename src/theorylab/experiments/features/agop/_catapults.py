"""Gradient descent on a polynomial with a given number of catapults, to one training loss.

    DescentConfig     how many samples, which network, when training ends
    CatapultConfig    the same, and how often the learning rate is raised
    pose              draws samples of a polynomial and a network
    catapulted        raises η to c·η_crit(t) so many times, whenever the loss is back
    listed            raises η instead to given rates at given steps, a list of the source's
    descend_each      one run for every seed and every number of raises

Networks are compared at one training loss, and a raise of η counts as a catapult only if the loss
then spikes: if it exceeds 1.5 times what it was at the raise, before the next one.

Source: zhu · agop-gd · Fig. 4.8; zhu · multi-catapult · §4.3; zhu · full-rank-control · Fig. C.17;
zhu · synthetic-tasks · C.6.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Bool, Float, Int
from matplotlib.axes import Axes

from theorylab.data import Dataset, low_rank_polynomial, polynomial_agop
from theorylab.data.polynomials import Rank
from theorylab.dynamics import critical_learning_rate
from theorylab.experiments.drawing import curves, label_axes
from theorylab.features.agop import agop, agop_alignment
from theorylab.fields import Increasing, Plural, Positive, Seeded, Whole
from theorylab.training import catapults, descend_until, ensemble, squared, stepwise
from theorylab.training.schedules import scheduled
from theorylab.typing import Apply, Measured, Params, RandomKey, Scalar

from ._polynomials import CORNER, Convention, network_in

LOSS = squared("mean")
PATIENCE = 40  # the fewest steps from one raise to the next, and from the last to the end
_SPIKE = 1.5  # a spike is a rise of the loss by this factor


@dataclass(frozen=True)
class DescentConfig(Seeded):
    """Gradient descent on a polynomial, to one training loss."""

    num_seeds: Plural = 6  # data and networks, at least 6 to conclude
    dimension: Plural = 20  # of the inputs, d
    num_train: Plural = 200  # training samples, n
    num_test: Plural = 1000  # test samples
    width: Plural = 256  # of the hidden layer
    factor: Positive = 1.2  # η/η_crit at a raise of the learning rate
    target: Positive = 0.01  # the training loss to reach
    max_steps: Plural = 4000  # of gradient descent

    def __post_init__(self) -> None:
        super().__post_init__()
        require_catapults(self.factor)


@dataclass(frozen=True)
class CatapultConfig(DescentConfig):
    """Gradient descent on a polynomial with several numbers of catapults."""

    raises: Increasing[Whole] = (0, 1, 2, 4)  # how often the learning rate is raised, k

    def __post_init__(self) -> None:
        super().__post_init__()
        require_catapults(self.factor, self.raises)


def require_catapults(factor: float, raises: Sequence[int] = (0,)) -> None:
    """Raise unless a raise of the learning rate catapults, and runs without one come first."""
    if factor <= 1:
        raise ValueError(f"factor must be above 1 to catapult, got {factor}.")
    if raises[0] != 0:
        raise ValueError(f"raises must begin with 0, got {raises}.")


class Problem(NamedTuple):
    """A network before training, and what it is to learn."""

    apply: Apply
    params: Params
    train: Dataset
    test: Dataset
    reference: Float[Array, "d d"]  # G*


class Measurement(NamedTuple):
    """What a network has learned, at one training loss."""

    test: Float[Array, ""]  # loss, at the end
    best_test: Float[Array, ""]  # the least on the way, or that of the end if it was not followed
    alignment: Float[Array, ""]  # cos(G, G*) at the end, with the AGOP G on the training inputs
    corner: Float[Array, "c c"]  # of G, up to 10 inputs
    losses: Float[Array, " t"]  # as in `training.DescentRun`, like what follows
    rates: Float[Array, " t"]
    num_steps: Int[Array, ""]
    reached: Bool[Array, ""]


def bytes_of(config: DescentConfig, num_kept: int, copies: int = 6, depth: int = 2) -> int:
    """Bytes of two runs at once, with so many copies of activations and data, G and the kernel.

    The losses and learning rates of `num_kept` runs come on top.
    """
    samples = config.num_train + config.num_test
    neurons = config.dimension + (depth - 1) * config.width
    weights = config.width * (config.dimension + (depth - 2) * config.width)
    matrices = 4 * config.num_train**2 + 8 * config.dimension**2 + 6 * weights
    return 4 * (2 * (copies * samples * neurons + matrices) + 4 * num_kept * config.max_steps)


def pose(
    key: RandomKey, config: DescentConfig, rank: Rank = 2, convention: Convention = "ntk"
) -> Problem:
    """Draw samples of a polynomial with noise of 0.1, and a network with one hidden layer."""
    data_key, init_key = jax.random.split(key)
    total = config.num_train + config.num_test
    data = low_rank_polynomial(data_key, total, config.dimension, rank)
    train, test = data.split(config.num_train)
    model = network_in(convention, [config.width], config.dimension)
    reference = polynomial_agop(rank, config.dimension)
    return Problem(model.apply, model.init(init_key), train, test, reference=reference)


def measured_descent(
    problem: Problem,
    optimizer: optax.GradientTransformation,
    config: DescentConfig,
    first_end: int | Int[Array, ""] = 0,
    watch_test: bool = False,
) -> Measurement:
    """Descend to a mean squared error, and measure test loss and features there.

    The state of the optimiser must have the rate of the last step as `learning_rate`. Before
    `first_end` steps the run does not end; `watch_test` follows the test loss on the way.
    """

    def loss_on(data: Dataset) -> Callable[[Params], Float[Array, ""]]:
        return lambda w: LOSS(problem.apply(w, data.x), data.y)

    run = descend_until(
        loss_on(problem.train),
        problem.params,
        optimizer,
        lambda state: state.learning_rate,
        config.target,
        config.max_steps,
        first_end,
        watch=loss_on(problem.test) if watch_test else None,
    )
    features = agop(problem.apply, run.params, problem.train.x)
    last = loss_on(problem.test)(run.params)
    return Measurement(
        test=last,
        best_test=jnp.minimum(run.best, last),
        alignment=agop_alignment(features, problem.reference.astype(features.dtype)),
        corner=features[:CORNER, :CORNER],
        losses=run.losses,
        rates=run.rates,
        num_steps=run.num_steps,
        reached=run.reached,
    )


def critical_rate(problem: Problem, params: Params) -> Float[Array, ""]:
    """η_crit of all training samples, by the tangent kernel."""
    return critical_learning_rate(problem.apply, params, problem.train, LOSS)


def catapulted(
    problem: Problem,
    num_raises: int | Int[Array, ""],
    config: DescentConfig,
    watch_test: bool = False,
) -> Measurement:
    """Descend from η_crit/2 with so many raises to c·η_crit(t), to a training loss, and measure."""

    def critical(w: Params) -> Float[Array, ""]:
        return critical_rate(problem, w)

    optimizer = catapults(critical, config.factor, PATIENCE, num_raises, start=0.5)
    first_end = PATIENCE * (num_raises + 1)
    return measured_descent(problem, optimizer, config, first_end, watch_test)


class Schedule(NamedTuple):
    """A list of the source's: the first rate and that after every raise, and the steps of raises.

    Rates are in units of η_crit(0).
    """

    rates: tuple[float, ...]
    boundaries: tuple[int, ...]

    def require(self, raises: Sequence[int]) -> None:
        """Raise if it has fewer raises than are asked for."""
        if raises[-1] > len(self.boundaries):
            raise ValueError(f"the source has {len(self.boundaries)} raises, got {raises[-1]}.")


def listed(
    unit: Scalar, schedule: Schedule, num_raises: Int[Array, ""]
) -> tuple[optax.GradientTransformation, Int[Array, ""]]:
    """Give descent by the first raises of a list, and the step before which it must not end.

    Example:
        >>> schedule = Schedule((0.5, 1.5, 3.0), (10, 20))  # in units of η_crit(0), here 2
        >>> optimizer, first_end = listed(2.0, schedule, jnp.array(1))
        >>> int(first_end)  # 40 steps after the first raise
        50
    """
    rate_at = stepwise(*schedule)
    taken = jnp.asarray((0, *schedule.boundaries))[num_raises]

    def rate(step: Array) -> Array:
        """Time stands still after the last raise that is taken."""
        return unit * jnp.asarray(rate_at(jnp.minimum(step, taken)))

    return scheduled(rate), taken + PATIENCE


def listed_descent(
    problem: Problem,
    num_raises: Int[Array, ""],
    config: DescentConfig,
    schedule: Schedule,
    watch_test: bool = False,
) -> Measurement:
    """Descend with the first raises of a list, to a training loss, and measure."""
    optimizer, first_end = listed(critical_rate(problem, problem.params), schedule, num_raises)
    return measured_descent(problem, optimizer, config, first_end, watch_test)


class Descents(NamedTuple):
    """Runs to one training loss: axes seeds and numbers of raises in front."""

    test: Float[Measured, "*s k"]  # test loss where training ended
    best_test: Float[Measured, "*s k"]  # the least on the way, if it was followed
    alignment: Float[Measured, "*s k"]  # cos(G, G*) where training ended
    spikes: Int[Measured, "*s k"]  # raises that the loss answered with a spike
    reached: Bool[Measured, "*s k"]  # whether the training loss was reached
    corner: Float[Measured, "k c c"]  # of G, first seed
    losses: Float[Measured, "k t"]  # training loss over time, first seed


def descend_each(
    descent: Callable[..., Measurement], given: Any, raises: Sequence[int], *axes: int
) -> Descents:
    """Run descent(*given, number of raises) for every entry of `given` and every number of raises.

    The arrays of `given` have the seeds as leading axis; `axes` are the lengths of several axes
    that results are to have instead.
    """
    repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, len(raises), axis=0), given)
    num_seeds = len(jax.tree.leaves(given)[0])
    numbers = jnp.tile(jnp.asarray(raises), num_seeds)
    found = ensemble(lambda one: descent(*one), (*repeated, numbers))
    shape = (*(axes or (num_seeds,)), len(raises))
    runs = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(*shape, *leaf.shape[1:]), found)
    first = (0,) * (len(shape) - 1)
    return Descents(
        test=runs.test,
        best_test=runs.best_test,
        alignment=runs.alignment,
        spikes=spikes_of(runs.losses, runs.rates),
        reached=runs.reached,
        corner=runs.corner[first],
        losses=runs.losses[first],
    )


def num_spikes(losses: Float[np.ndarray, " t"], rates: Float[np.ndarray, " t"]) -> int:
    """How many raises of the learning rate the loss answered with a spike.

    Example:
        >>> num_spikes(np.array([1.0, 0.9, 3.0, 0.5, 0.4, 0.3]), np.array([1.0, 2, 2, 2, 4, 4]))
        1
    """
    known = np.isfinite(rates)
    losses, rates = losses[known], rates[known]
    raises = np.flatnonzero(np.diff(rates) > 0) + 1
    ends = np.append(raises[1:], len(losses))[: len(raises)]
    return sum(
        bool(np.nanmax(losses[begin:end]) > _SPIKE * losses[begin])
        for begin, end in zip(raises, ends, strict=True)
    )


def spikes_of(
    losses: Float[ArrayLike, "*r t"], rates: Float[ArrayLike, "*r t"]
) -> Int[np.ndarray, "*r"]:
    """The number of spikes of every run."""
    given = np.asarray(losses)
    flat = (np.asarray(part).reshape(-1, given.shape[-1]) for part in (losses, rates))
    counts = [num_spikes(*run) for run in zip(*flat, strict=True)]
    return np.array(counts, int).reshape(given.shape[:-1])


def training_losses(axis: Axes, losses: Float[np.ndarray, "k t"], labels: Sequence[str]) -> None:
    """Draw the training losses of some runs over time."""
    for label, values in zip(labels, losses, strict=True):
        axis.plot(values, label=label)
    label_axes(axis, "step", logarithmic="y")
    axis.legend(fontsize=7)


def over_raises(
    axis: Axes, raises: Sequence[int], named: Mapping[str, Float[np.ndarray, "s k"]]
) -> None:
    """Draw measures over the number of raises of the learning rate."""
    curves(axis, raises, named, "o-")
    label_axes(axis, "raises of the learning rate")
