"""One example, three models: the ReLU network, its quadratic and its linear model, in the weights.

Each descends on ½(f − y)² with step size η = ratio/λ₀, from the same weights; λ = ‖∇f‖² is the
curvature, λ₀ its first value. What is measured here is what `plane` and `linear` predict.

Source: zhu · nqm-relu2 · Eqs 3.9–3.10; zhu · nqm-2d-map · Eqs 3.11–3.14.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from theorylab.models import linearize
from theorylab.training import descend, gradient_descent
from theorylab.typing import Scalar

from ..thresholds import threshold
from . import gated, plane
from .gated import GatedWeights
from .plane import PlaneProblem, PlaneState


class MapComparison(NamedTuple):
    """The models' losses in time beside the map's, and the largest errors of the map."""

    loss: Float[Array, "*t"]  # of the quadratic model
    map_loss: Float[Array, "*t"]  # as the map predicts it
    linear_loss: Float[Array, "*t"]
    map_error: Float[Array, "..."]  # of (g, λ), relative to the running maximum
    reduced_error: Float[Array, "..."]  # of (u, v, w), likewise


class Travel(NamedTuple):
    """How far a run went in its weights, and what it left."""

    distance: Float[Array, "..."]  # ‖w_T − w₀‖
    length: Float[Array, "..."]  # of the path, Σ ‖w' − w‖
    curvature: Float[Array, "..."]  # last λ over first
    loss: Float[Array, "..."]  # last loss over first


def compare(
    weights: GatedWeights, x: Float[Array, " d"], target: Scalar, ratio: Scalar, num_steps: int
) -> MapComparison:
    """Train the quadratic and the linear model, and follow the map beside them.

    Args:
        weights: The initial weights, around which both models expand the network.
        x: The example's input.
        target: Its target y.
        ratio: The learning rate in units of 1/λ₀.
        num_steps: The number of steps.

    Example:
        >>> weights = gated.init(jax.random.key(0), width=20, dimension=2)
        >>> found = compare(weights, jnp.ones(2), target=0.0, ratio=3.0, num_steps=10)
        >>> bool(found.map_error < 1e-3)  # the map is exact
        True
        >>> bool(found.linear_loss[-1] > 100 * found.linear_loss[0])  # it diverges beyond 2
        True
    """
    learning_rate = ratio / initial_curvature(weights, x)
    quadratic_model = gated.quadratic_model(weights)
    linear_model = linearize(gated.network, weights)

    def output(w: GatedWeights) -> Float[Array, ""]:
        return quadratic_model(w, x[None])[0, 0]

    def linear_output(w: GatedWeights) -> Float[Array, ""]:
        return linear_model(w, x[None])[0, 0]

    def state(w: GatedWeights) -> PlaneState:
        value, slope = jax.value_and_grad(output)(w)
        return PlaneState(value, sum(jnp.vdot(leaf, leaf) for leaf in slope))

    path = _descend(output, weights, target, learning_rate, num_steps, state)
    line = _descend(linear_output, weights, target, learning_rate, num_steps, linear_output)
    problem = PlaneProblem(target, learning_rate, plane.coupling(x, len(weights.second)))
    start = PlaneState(path.output[0], path.curvature[0])
    predicted = plane.trajectory(start, problem, num_steps)
    reduced = plane.reduced_trajectory(plane.reduce(start, problem), num_steps)
    return MapComparison(
        loss=_loss(path.output, target),
        map_loss=_loss(predicted.output, target),
        linear_loss=_loss(line, target),
        map_error=_error(path, predicted),
        reduced_error=_error(plane.reduce(path, problem), reduced),
    )


def highest_loss(
    weights: GatedWeights,
    x: Float[Array, " d"],
    target: Scalar,
    ratio: Scalar,
    num_steps: int,
    frozen: bool | Bool[Array, ""],
) -> Float[Array, ""]:
    """Train the network, or with frozen gates its quadratic model, and give max η²·loss.

    Args:
        weights: The initial weights.
        x: The example's input.
        target: Its target y.
        ratio: The learning rate in units of 1/λ₀.
        num_steps: The number of steps.
        frozen: Whether gates stay as the initial weights open them; may be traced, so that one
            program trains both.

    Example:
        >>> weights = GatedWeights(jnp.array([[1.0]]), jnp.array([1.0]))  # f = uv, λ₀ = 2
        >>> run = {"target": 0.0, "ratio": 1.0, "num_steps": 3, "frozen": True}
        >>> float(highest_loss(weights, jnp.ones(1), **run))  # the first: η²f₀²/2 with η = ½
        0.125
    """
    learning_rate = ratio / initial_curvature(weights, x)
    output = _chosen(weights, x, frozen)
    outputs = _descend(output, weights, target, learning_rate, num_steps, output)
    return learning_rate**2 * _loss(outputs, target).max()


def travel(
    weights: GatedWeights,
    x: Float[Array, " d"],
    target: Scalar,
    ratio: Scalar,
    num_steps: int,
    frozen: bool | Bool[Array, ""],
) -> Travel:
    """Train the network or its quadratic model, and say how far the weights went.

    Arguments are those of `highest_loss`. The step from w has the length η|g − y|‖∇g‖.

    Example:
        >>> weights = GatedWeights(jnp.array([[1.0]]), jnp.array([1.0]))  # f = uv, λ₀ = 2
        >>> found = travel(weights, jnp.ones(1), target=0.0, ratio=1.0, num_steps=1, frozen=True)
        >>> round(float(found.distance), 3)  # from (1, 1) to (½, ½)
        0.707
        >>> float(found.curvature), float(found.loss)  # u² + v² is a quarter, (uv)² a sixteenth
        (0.25, 0.0625)
    """
    learning_rate = ratio / initial_curvature(weights, x)
    output = _chosen(weights, x, frozen)

    def measure(w: GatedWeights) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
        value, slope = jax.value_and_grad(output)(w)
        change = jax.tree.map(jnp.subtract, w, weights)
        square, distance = (sum(jnp.vdot(leaf, leaf) for leaf in tree) for tree in (slope, change))
        return value, jnp.asarray(square), jnp.sqrt(distance)

    found = _descend(output, weights, target, learning_rate, num_steps, measure)
    values, curvature, distance = found
    steps = learning_rate * jnp.abs(values - target) * jnp.sqrt(curvature)
    loss = _loss(values, target)
    return Travel(
        distance=distance[-1],
        length=steps[:-1].sum(),
        curvature=curvature[-1] / curvature[0],
        loss=loss[-1] / loss[0],
    )


def largest_ratio(
    weights: GatedWeights,
    x: Float[Array, " d"],
    target: Scalar,
    num_steps: int,
    frozen: bool | Bool[Array, ""],
    highest: Scalar,
    num_halvings: int = 10,
) -> Float[Array, ""]:
    """Bisect for the largest ηλ₀, from 2 to `highest`, with which the loss is at least halved.

    Args:
        weights: The initial weights.
        x: The example's input.
        target: Its target y.
        num_steps: The number of steps after which the loss is compared.
        frozen: Whether gates stay as the initial weights open them.
        highest: A ratio at which the loss is not halved; a network that dies is not, usually.
        num_halvings: How often the interval is halved.

    Example:
        >>> weights = gated.init(jax.random.key(0), width=200, dimension=1)
        >>> run = {"target": 0.0, "num_steps": 100, "frozen": True, "highest": 6.0}
        >>> abs(float(largest_ratio(weights, jnp.ones(1), **run)) - 4) < 0.1  # catapults end near 4
        True
    """

    def converges(ratio: Scalar) -> Bool[Array, ""]:
        return travel(weights, x, target, ratio, num_steps, frozen).loss < 0.5

    return threshold(converges, 2.0, highest, num_halvings)


def initial_curvature(weights: GatedWeights, x: Float[Array, " d"]) -> Float[Array, ""]:
    """Give λ₀ = 1/(md) Σᵢ Mᵢ [(uᵢᵀx)² + vᵢ²‖x‖²], the same for all three models.

    Example:
        >>> weights = GatedWeights(jnp.array([[2.0]]), jnp.array([3.0]))
        >>> float(initial_curvature(weights, jnp.ones(1)))  # u² + v²
        13.0
    """
    return gated.tangent_kernel(weights, gated.gates(weights, x[None]), x[None])[0, 0]


def _chosen(
    weights: GatedWeights, x: Float[Array, " d"], frozen: bool | Bool[Array, ""]
) -> Callable[[GatedWeights], Float[Array, ""]]:
    """The output of the network, or with frozen gates of its quadratic model."""
    initial_gates = gated.gates(weights, x[None])

    def output(w: GatedWeights) -> Float[Array, ""]:
        open_gates = jnp.where(frozen, initial_gates, gated.gates(w, x[None]))
        return gated.gated(w, open_gates, x[None])[0, 0]

    return output


def _loss(output: Scalar | Float[Array, "*t"], target: Scalar) -> Float[Array, "*t"]:
    return jnp.asarray((output - target) ** 2 / 2)


def _descend(
    output: Callable[[GatedWeights], Float[Array, ""]],
    weights: GatedWeights,
    target: Scalar,
    learning_rate: Scalar,
    num_steps: int,
    measure: Callable[[GatedWeights], Any],
) -> Any:
    """Descend on ½(output − y)² and measure at every step."""
    optimizer, steps = gradient_descent(learning_rate), np.arange(num_steps + 1)
    return descend(lambda w: _loss(output(w), target), weights, optimizer, steps, measure).records


def _error(measured: tuple, predicted: tuple) -> Float[Array, ""]:
    """Largest difference over time and coordinates, relative to the running maximum."""
    errors = [
        jnp.max(jnp.abs(a - b) / jax.lax.cummax(jnp.abs(b)))
        for a, b in zip(measured, predicted, strict=True)
    ]
    return jnp.stack(errors).max()
