"""The optimiser decides which solution of a linear system is found.

With more unknowns than equations Xw = y, every gradient of the squared loss lies in the row space
of X. Gradient descent, SGD and momentum only add gradients up: they stay in w₀ + row space, and end
at the solution nearest to w₀. AdaGrad and Adam rescale each coordinate by what they saw of it: they
fit as well, but leave the row space, and end elsewhere.

How far elsewhere shows where the signs of Xᵀy solve the equations up to a factor, X sign(Xᵀy) = cy:
the adaptive methods then end at sign(Xᵀy)/c, with weights of one size for all features, common or
rare. In linear regression momentum has no bias of its own; for deep networks the source reports
one.

Source: arora · implicit-l2 · Prop. 8.1.1; arora · minnorm-regression · §3.1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab import bias
from theorylab.claims import Source, at_most, median_at_least, median_at_most, ordered
from theorylab.data import Dataset
from theorylab.dynamics import linear
from theorylab.experiments.drawing import COLOURS, label_axes, medians, panels
from theorylab.fields import Count, Odd, within
from theorylab.progress import report
from theorylab.training import (
    Batches,
    descend,
    empirical_risk,
    gradient_descent,
    heavy_ball,
    logarithmic,
    nesterov,
    sgd,
    squared,
)
from theorylab.typing import Measured, RandomKey

from ._equations import Overparametrized

PRECISION = "float64"
FORMULA = r"w_t - w_0 \in \mathrm{span}(x_1, \dots, x_n) \Rightarrow w_\infty = w_0 + X^+(y - Xw_0)"

LIMIT = Source("arora", "minnorm-regression", "Proposition 8.1.1")
ADAPTIVE = Source("arora", "implicit-l2", "§8.1, after Proposition 8.1.1")

Objective = Callable[[Float[Array, " d"]], Float[Array, ""]]
LOSS = squared("half_sum")
METHODS = ("descent", "SGD", "heavy ball", "Nesterov", "AdaGrad", "Adam")
NUM_PLAIN = 2  # of them have no momentum
NUM_LINEAR = 4  # of them add gradients up
NUM_RECORDS = 24  # about how many steps are recorded


@dataclass(frozen=True)
class Config(Overparametrized):
    """Random linear equations with more unknowns than equations, solved by six optimisers."""

    num_labels: Annotated[Odd, within(3)] = 15  # equations of the problem that signs solve
    num_steps: Count = 4000  # steps of every optimiser


PRESETS = {
    "smoke": Config(num_samples=5, dimension=20, num_labels=7, num_steps=3000, num_seeds=8),
    "paper": Config(num_samples=50, dimension=200, num_labels=101, num_steps=40000, num_seeds=100),
}


class Result(NamedTuple):
    """Axes: s seeds, m methods, t recorded steps. Lengths in units of the least ‖w − w₀‖."""

    distance: Float[Measured, "s m t"]  # from the solution nearest to w₀
    outside: Float[Measured, "s m t"]  # ‖(I − X⁺X)(w − w₀)‖
    residual: Float[Measured, "s m"]  # ‖Xw − y‖/‖y‖ at the end
    length: Float[Measured, "s m"]  # ‖w − w₀‖ at the end
    sign_cosine: Float[Measured, "s 3"]  # of descent's, AdaGrad's, Adam's end with sign(Xᵀy)


class Problem(NamedTuple):
    """Equations Xw = y, where the methods begin, and the labels of the other problem."""

    x: Float[Array, "*s n d"]
    y: Float[Array, "*s n"]
    start: Float[Array, "*s d"]
    labels: Float[Array, "*s l"]


def run(config: Config) -> Result:
    """Solve every set of equations by every method."""
    report("taking the steps of six methods", 0.0)
    keys = jax.random.split(jax.random.key(config.seed), (2, config.num_seeds))
    problems = _problems(keys[0], config)
    found = _methods(problems, keys[1], config.num_steps)
    report("equations that signs solve", 0.7)
    found["sign_cosine"] = _sign_cosines(problems.labels, config.num_steps)
    return Result(**found)


@partial(jax.jit, static_argnames="config")
def _problems(keys: Key[Array, " s"], config: Config) -> Problem:
    """Gaussian equations whose rows have length about 1, and labels whose sum is positive."""
    n, d = config.num_samples, config.dimension
    shapes = ((n, d), (n,), (d,), (config.num_labels,))
    sizes = [math.prod(shape) for shape in shapes]

    def each(key: RandomKey) -> Problem:
        # One draw for all: to compile a draw takes longer than to train.
        numbers = jnp.split(jax.random.normal(key, (sum(sizes),)), np.cumsum(sizes)[:-1])
        x, y, start, labels = map(jnp.reshape, numbers, shapes)
        signs = jnp.sign(labels)
        signs = signs * jnp.sign(signs.sum())  # an odd number of them: never 0
        return Problem(x / jnp.sqrt(d), y, start / jnp.sqrt(d), signs)

    return jax.vmap(each)(keys)


@partial(jax.jit, static_argnames="num_steps")
def _methods(problems: Problem, keys: Key[Array, " s"], num_steps: int) -> dict[str, Array]:
    """Where all methods are on their way, as seen from the solution nearest to w₀."""

    def each(problem: Problem, key: RandomKey) -> dict[str, Array]:
        x, y, start, _ = problem
        nearest = bias.nearest_interpolant(x, y, start)
        least = jnp.linalg.norm(nearest - start)
        paths = _paths(problem, key, num_steps)
        outside = jax.vmap(partial(bias.outside_row_space, x))(paths - start[None, None])
        ends = paths[:, -1]
        return {
            "distance": jnp.linalg.norm(paths - nearest[None, None], axis=-1) / least,
            "outside": jnp.linalg.norm(outside, axis=-1) / least,
            "residual": jnp.linalg.norm(ends @ x.T - y[None], axis=1) / jnp.linalg.norm(y),
            "length": jnp.linalg.norm(ends - start[None], axis=1) / least,
        }

    return jax.vmap(each)(problems, keys)


def _paths(problem: Problem, key: RandomKey, num_steps: int) -> Float[Array, "m t d"]:
    """The weights at the recorded steps, for each of the methods."""
    x, y, start, _ = problem
    steps = logarithmic(num_steps, NUM_RECORDS)
    rate = linear.largest_regression_rate(x) / 2
    momentum = (heavy_ball(rate, 0.8), nesterov(rate, 0.8))

    def path(optimizer: optax.GradientTransformation) -> Float[Array, "t d"]:
        return descend(_objective(x, y), start, optimizer, steps, lambda w: w).records

    # The top eigenvalue of two rows is at most the sum of their squared lengths.
    batch_optimizer = gradient_descent(0.5 / jnp.max(jnp.sum(x**2, axis=1)))
    risk = empirical_risk(LOSS, lambda w, rows: rows @ w[:, None])
    data = Dataset(x, y[:, None], law="Gaussian rows", source="made here")
    by_batches = sgd(risk, start, data, batch_optimizer, Batches(2), steps, lambda w: w, key)
    others = [path(optimizer) for optimizer in (*momentum, *_adaptive(num_steps))]
    return jnp.stack([path(gradient_descent(rate)), by_batches.records, *others])


def _objective(x: Float[Array, "n d"], y: Float[Array, " n"]) -> Objective:
    return lambda w: LOSS(x @ w[:, None], y[:, None])


def _adaptive(num_steps: int) -> tuple[optax.GradientTransformation, optax.GradientTransformation]:
    """AdaGrad and Adam; Adam's rate falls, because at a constant one it does not come to rest."""
    falling = optax.exponential_decay(0.05, num_steps, 1e-6)
    adagrad = optax.adagrad(0.1, initial_accumulator_value=0.0, eps=1e-12)
    return adagrad, optax.adam(falling, eps=1e-12)


@partial(jax.jit, static_argnames="num_steps")
def _sign_cosines(every_labels: Float[Array, "s l"], num_steps: int) -> Float[Array, "s 3"]:
    """Cosines with sign(Xᵀy) of where descent, AdaGrad and Adam end, from 0."""

    def each(labels: Float[Array, " l"]) -> Float[Array, " 3"]:
        x = bias.sign_consistent(labels)
        signs, start = jnp.sign(x.T @ labels), jnp.zeros(x.shape[1])
        descent = gradient_descent(linear.largest_regression_rate(x) / 2)

        def cosine(optimizer: optax.GradientTransformation) -> Float[Array, ""]:
            end = descend(_objective(x, labels), start, optimizer, [num_steps], lambda w: w).params
            return end @ signs / (jnp.linalg.norm(end) * jnp.linalg.norm(signs))

        return jnp.stack([cosine(method) for method in (descent, *_adaptive(num_steps))])

    return jax.vmap(each)(every_labels)


CLAIMS = (
    LIMIT.claim(
        "Descent and SGD end at the solution nearest to w₀.",
        lambda r, c: at_most(r.distance[:, :NUM_PLAIN, -1].max(), 1e-8),
        formula=r"w_\infty = \arg\min_{Xw=y} \|w - w_0\|",
        quote="also hold when instancewise stochastic gradients are used",
    ),
    LIMIT.claim(
        "On their way they stay in the row space, to rounding.",
        lambda r, c: at_most(r.outside[:, :NUM_PLAIN].max(), 1e-12),
        formula=r"(I - X^+X)(w_t - w_0) = 0",
        quote="are again constrained to the",
    ),
    LIMIT.found(
        "Heavy ball and Nesterov's method end there too, and stay in the row space.",
        lambda r, c: at_most(
            max(
                r.distance[:, NUM_PLAIN:NUM_LINEAR, -1].max(),
                1e4 * r.outside[:, NUM_PLAIN:NUM_LINEAR].max(),
            ),
            1e-8,
        ),
        demand="derived: they add gradients up; 1e-12 for the part outside the row space",
    ),
    ADAPTIVE.claim(
        "AdaGrad and Adam end elsewhere: they leave the row space.",
        lambda r, c: median_at_least(r.outside[:, NUM_LINEAR:, -1].min(axis=1), 1e-2),
        quote="changing the algorithm, or changing associated hyperparameter … can change the "
        "implicit bias",
        demand="lab: 0.56 in the median over 40 other seeds",
    ),
    ADAPTIVE.check(
        "AdaGrad and Adam fit as well as the others.",
        lambda r, c: median_at_most(r.residual[:, NUM_LINEAR:].max(axis=1), 1e-6),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    ADAPTIVE.found(
        "They end farther from w₀ than descent does.",
        lambda r, c: ordered(r.length[:, 0], r.length[:, NUM_LINEAR:].min(axis=1)),
    ),
    ADAPTIVE.found(
        "Where the signs of Xᵀy solve the equations up to a factor, AdaGrad and Adam find them.",
        lambda r, c: median_at_least(r.sign_cosine[:, 1:].min(axis=1), 0.999),
        formula=r"X\,\mathrm{sign}(X^\top y) = cy \Rightarrow w_\infty = \mathrm{sign}(X^\top y)/c",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    ADAPTIVE.control(
        "Descent does not find those signs.",
        lambda r, c: median_at_most(r.sign_cosine[:, 0], 0.95),
        demand="lab: 0.56 in the median over 40 other seeds, 0.79 at most",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw who approaches the nearest solution, who leaves the row space, and who finds signs."""
    figure, (distance, outside, signs) = panels(
        "distance from the solution nearest to w₀",
        "part outside the row space",
        "cosine with the signs",
    )
    steps = logarithmic(config.num_steps, NUM_RECORDS)[1:]
    for axis, values in ((distance, result.distance), (outside, result.outside)):
        paths = np.maximum(values[:, :, 1:], 1e-17).swapaxes(0, 1)
        medians(axis, steps, dict(zip(METHODS[:NUM_LINEAR], paths, strict=False)))
        medians(axis, steps, dict(zip(METHODS[NUM_LINEAR:], paths[NUM_LINEAR:], strict=True)), ":")
        label_axes(axis, "step", logarithmic="xy")
    for number, cosines in enumerate(result.sign_cosine.T):
        signs.plot(np.full(len(cosines), number), cosines, "o", color=COLOURS[number], ms=4)
    signs.set_xticks(range(3), ["descent", "AdaGrad", "Adam"])
    return figure
