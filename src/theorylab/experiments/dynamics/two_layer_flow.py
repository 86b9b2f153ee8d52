"""Gradient flow conserves the imbalance WWᵀ − vvᵀ between the layers of a linear network.

Along the gradient flow of f(x) = vᵀWx on the squared loss, the matrix WWᵀ − vvᵀ does not change:
how much more one layer weighs than the other is fixed by the start. With an activation between the
layers the velocities are as explicit, but the matrix moves. An activation that is homogeneous of
degree k keeps ‖wᵢ‖² − kvᵢ², neuron by neuron, and tanh not even that. Gradient descent changes it
by η² times something in every step, so that after a given time the drift is proportional to the
step size.

The flow is integrated by an adaptive method, from the velocities as they are written out; automatic
differentiation of the loss gives the same.

Source: golikov · two-layer-flows · Eqs 1.4–1.5.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_most,
    exponent_between,
    identity,
    median_at_least,
    median_at_most,
)
from theorylab.dynamics import two_layer_flow
from theorylab.dynamics.two_layer_flow import TwoLayers
from theorylab.experiments.drawing import curves, label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Seeded, within
from theorylab.progress import report
from theorylab.training import Solver, flow
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = r"\frac{d}{dt}\left(WW^\top - vv^\top\right) = 0"

LINEAR = Source("golikov", "two-layer-flows", "Eq. 1.4")
NONLINEAR = Source("golikov", "two-layer-flows", "Eq. 1.5")

# The square of ReLU, of degree 2, has a flow without kinks, which ReLU, of degree 1, has not.
ACTIVATIONS = ("linear", "squared ReLU", "tanh")
DEGREES = (1.0, 2.0, 1.0)
TIMES = np.linspace(0.0, 4.0, 9)


@dataclass(frozen=True)
class Config(Seeded):
    """Networks of two layers on random data, with and without an activation between them."""

    width: Count = 12  # neurons m
    dimension: Count = 5  # inputs d
    num_samples: Count = 20  # samples n
    learning_rates: Increasing[Annotated[float, within(1e-6, 0.1)]] = (0.005, 0.01, 0.02, 0.04)
    num_seeds: Count = 12  # random data and networks


PRESETS = {
    "smoke": Config(width=6, dimension=3, num_samples=8, num_seeds=8),
    "paper": Config(width=200, dimension=50, num_samples=200, num_seeds=50),
}


class Result(NamedTuple):
    """Axes: s seeds, a activations, t times, e step sizes. Drifts relative to |WWᵀ − kvvᵀ|."""

    written: Float[Measured, "s a p"]  # the velocities of all weights as they are written out
    differentiated: Float[Measured, "s a p"]  # minus the gradient of the loss
    drift: Float[Measured, "s a t"]  # the largest change of an entry of WWᵀ − kvvᵀ along the flow
    diagonal_drift: Float[Measured, "s a t"]  # and of one on the diagonal
    losses: Float[Measured, "s a t"]
    step_drift: Float[Measured, "s e"]  # of descent of the linear network, after the same time


class Problem(NamedTuple):
    """Data and where the network begins."""

    x: Float[Array, "*s n d"]
    y: Float[Array, "*s n"]
    start: TwoLayers


def memory(config: Config) -> int:
    """The stages of a step of the flow, for all networks at once; in bytes."""
    weights = config.width * (config.dimension + config.num_samples + config.width)
    return 8 * config.num_seeds * len(ACTIVATIONS) * 20 * weights


def run(config: Config) -> Result:
    """Follow the flow with each activation, and descend in steps beside it."""
    report("following the flows", 0.0)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    problems = _problems(keys, config)
    found = _flows(problems)
    report("taking discrete steps", 0.6)
    return Result(**found, step_drift=_step_drifts(problems, jnp.asarray(config.learning_rates)))


@partial(jax.jit, static_argnames="config")
def _problems(keys: Key[Array, " s"], config: Config) -> Problem:
    """Gaussian inputs, scaled so that the data's top eigenvalue is 1, and noisy linear targets."""

    def each(key: RandomKey) -> Problem:
        for_data, for_weights = jax.random.split(key)
        numbers = jax.random.normal(for_data, (config.num_samples, config.dimension + 1))
        x, noise = numbers[:, :-1], numbers[:, -1]
        y = x.sum(axis=1) + 0.1 * noise
        start = two_layer_flow.init(for_weights, config.width, config.dimension)
        return Problem(x / jnp.linalg.norm(x, 2), y / jnp.linalg.norm(y), start)

    return jax.vmap(each)(keys)


def _activation(number: Float[Array, ""], z: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """One of the three; all in one function, for all flows to be one program."""
    return jnp.select([number == 0, number == 1], [z, jax.nn.relu(z) ** 2], jnp.tanh(z))


@jax.jit
def _flows(problems: Problem) -> dict[str, Array]:
    """Velocities in two ways, and drifts along the flow."""

    def each(
        problem: Problem, number: Float[Array, ""], degree: Float[Array, ""]
    ) -> dict[str, Array]:
        x, y, start = problem
        activation = partial(_activation, number)
        velocity = lambda params: two_layer_flow.velocity(activation, params, x, y)  # noqa: E731
        objective = lambda params: two_layer_flow.loss(activation, params, x, y)  # noqa: E731
        before = two_layer_flow.imbalance(start, degree)

        def measure(params: TwoLayers) -> dict[str, Array]:
            change = jnp.abs(two_layer_flow.imbalance(params, degree) - before)
            change = change / jnp.abs(before).max()
            return {
                "drift": change.max(),
                "diagonal_drift": jnp.diagonal(change).max(),
                "losses": objective(params),
            }

        gradient = jax.grad(objective)(start)
        return flow(velocity, start, TIMES, measure, Solver(rtol=1e-8)).records | {
            "written": _flat(velocity(start)),
            "differentiated": -_flat(gradient),
        }

    at_all = jax.vmap(each, in_axes=(None, 0, 0))
    numbers = jnp.arange(len(ACTIVATIONS), dtype=float)
    return jax.vmap(at_all, in_axes=(0, None, None))(problems, numbers, jnp.array(DEGREES))


def _flat(params: TwoLayers) -> Float[Array, " p"]:
    return jnp.concatenate([params.inner.ravel(), params.outer])


@jax.jit
def _step_drifts(problems: Problem, step_sizes: Float[Array, " e"]) -> Float[Array, "s e"]:
    """The drift of the linear network's imbalance, after as much time in steps of descent."""

    def each(problem: Problem, size: Float[Array, ""]) -> Float[Array, ""]:
        x, y, start = problem

        def step(_: Int[Array, ""], params: TwoLayers) -> TwoLayers:
            speed = two_layer_flow.velocity(lambda z: z, params, x, y)
            return jax.tree.map(lambda here, slope: here + size * slope, params, speed)

        num_steps = jnp.round(TIMES[-1] / size).astype(int)
        end = jax.lax.fori_loop(0, num_steps, step, start)
        before = two_layer_flow.imbalance(start)
        return jnp.abs(two_layer_flow.imbalance(end) - before).max() / jnp.abs(before).max()

    at_all = jax.vmap(each, in_axes=(None, 0))
    return jax.vmap(at_all, in_axes=(0, None))(problems, step_sizes)


NOT_KEPT = "lab: chosen for this experiment; the runs it was set on were not kept"
CLAIMS = (
    LINEAR.claim(
        "The velocities of the linear network, as they are written out, are the loss's gradient.",
        lambda r, c: identity(r.written[:, 0], r.differentiated[:, 0], 1e-12),
        formula=r"\dot v = WX(y - X^\top W^\top v),\ \dot W = v(y - X^\top W^\top v)^\top X^\top",
    ),
    NONLINEAR.claim(
        "So are those of networks with an activation.",
        lambda r, c: identity(r.written[:, 1:], r.differentiated[:, 1:], 1e-12),
        formula=r"\dot W = [\phi'(WX) \odot v(y - \phi(X^\top W^\top)v)^\top] X^\top",
    ),
    LINEAR.found(
        "Along the flow of the linear network the imbalance of its layers is conserved.",
        lambda r, c: at_most(r.drift[:, 0].max(), 1e-6),
        formula=r"WW^\top - vv^\top = \mathrm{const}",
        demand="derived: some hundred steps of an integrator with a relative error of 10⁻⁸ each",
    ),
    LINEAR.found(
        "Meanwhile the network learns: the loss falls to less than half.",
        lambda r, c: median_at_most(r.losses[:, 0, -1] / r.losses[:, 0, 0], 0.5),
        demand=NOT_KEPT,
    ),
    NONLINEAR.control(
        "With an activation between the layers the imbalance moves.",
        lambda r, c: median_at_least(r.drift[:, 1:, -1].min(axis=1), 1e-3),
        demand=NOT_KEPT,
    ),
    NONLINEAR.found(
        "With the square of ReLU every neuron conserves an imbalance of its own.",
        lambda r, c: at_most(r.diagonal_drift[:, 1].max(), 1e-6),
        formula=r"\|w_i\|^2 - 2v_i^2 = \mathrm{const}",
        demand="derived: some hundred steps of an integrator with a relative error of 10⁻⁸ each",
    ),
    NONLINEAR.control(
        "With tanh no neuron's imbalance is conserved.",
        lambda r, c: median_at_least(r.diagonal_drift[:, 2, -1], 1e-3),
        demand=NOT_KEPT,
    ),
    LINEAR.found(
        "In discrete steps the imbalance of the linear network drifts in proportion to their size.",
        lambda r, c: exponent_between(np.array(c.learning_rates), r.step_drift, 0.9, 1.1),
        formula=r"\eta^2 \sum_t (\dot W\dot W^\top - \dot v\dot v^\top) = O(\eta)",
        demand="derived: the exponent is 1 as η → 0; a tenth of it is allowed at these η",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the drift along the flows, and that of discrete steps."""
    figure, (drift, steps) = panels("change of WWᵀ − kvvᵀ along the flow", "after discrete steps")
    for field, style, ending in (
        (result.drift, "-", ""),
        (result.diagonal_drift, ":", ", diagonal"),
    ):
        values = np.maximum(np.moveaxis(field, 1, 0)[..., 1:], 1e-17)
        names = [name + ending for name in ACTIVATIONS]
        curves(drift, TIMES[1:], dict(zip(names, values, strict=True)), style)
    label_axes(drift, "time", "relative change", logarithmic="y")
    scaling(steps, config.learning_rates, {"descent": result.step_drift}, exponent=1.0)
    label_axes(steps, "learning rate η")
    return figure
