"""Examples on a line with both signs: a quadratic model and a network trained beside the map."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.dynamics.quadratic import gated, plane, several_examples
from theorylab.dynamics.quadratic.gated import GatedWeights
from theorylab.training import convert_learning_rate, descend, gradient_descent, squared
from theorylab.typing import Apply, RandomKey, Scalar

MEAN, HALF_SUM = squared("mean"), squared("half_sum")
PLACES = 0.17, 0.83  # from where to where learning rates are between the ends of their regime
FARTHEST = 1.8  # λ₁/λ₂ up to which both directions can catapult; they diverge from 2n/λ₁ on
BELOW, BETWEEN, BEYOND = 0, 1, 2  # regimes: below both thresholds, between them, beyond both


class Start(NamedTuple):
    """Examples and weights, with their two directions in the order of their eigenvalues."""

    x: Float[Array, " n"]
    y: Float[Array, " n"]
    weights: GatedWeights
    order: Float[Array, " 2"]  # λ₁ first
    first: Float[Array, " 2"]  # λ₁, λ₂ initially
    thresholds: Float[Array, " 2"]  # n/λ₁, n/λ₂, for the mean squared error


class Trained(NamedTuple):
    """What one learning rate gives; axes: t steps, 2 directions, 3: and the rest."""

    losses: Float[Array, "*t 3"]  # of the quadratic model, by direction
    last: Float[Array, "*t 2"]  # λ₁, λ₂ at the end
    network_last: Float[Array, "*t 2"]  # of the ReLU network itself
    map_error: Float[Array, "*t"]  # of (r, λ), relative to the running maximum
    reduced_error: Float[Array, "*t"]  # of a step of (u, v), over the largest of the run
    printed_error: Float[Array, "*t"]  # the same with w as printed
    rank_error: Float[Array, "*t"]  # of K = Σ λqqᵀ at the end, relative


def start(num_samples: int, width: int, key: RandomKey) -> Start:
    """Draw examples and weights.

    Args:
        num_samples: The number of examples n.
        width: The width m.
        key: Of all randomness.
    """
    data_key, weights_key = jax.random.split(key)
    x, y = several_examples.two_gaussians(data_key, num_samples)
    weights = gated.init(weights_key, width, 1)
    state, _ = several_examples.state(weights, weights, x)
    order = jnp.argsort(-jnp.asarray(state.curvature))
    first = jnp.asarray(state.curvature)[order]
    thresholds = MEAN.critical_learning_rate(1.0, num_samples) / first
    return Start(x=x, y=y, weights=weights, order=order, first=first, thresholds=thresholds)


def learning_rates(thresholds: Float[Array, " 2"], num_rates: int) -> Float[Array, " e"]:
    """So many in each regime: below both thresholds, between them, beyond both and below 2n/λ₁.

    Where n/λ₂ is beyond 1.8 n/λ₁, that takes its place, so that no run diverges.

    Args:
        thresholds: n/λ₁ and n/λ₂.
        num_rates: How many in each regime.
    """
    low, high = thresholds[0], jnp.minimum(thresholds[1], FARTHEST * thresholds[0])
    begin, end = jnp.stack([0.5 * low, low, high]), jnp.stack([0.95 * low, high, 1.9 * low])
    places = jnp.linspace(*PLACES, num_rates)
    return (begin[:, None] + places[None, :] * (end - begin)[:, None]).reshape(-1)


def regime(values: np.ndarray, number: int) -> np.ndarray:
    """The learning rates, along the second axis, of one regime.

    Args:
        values: Axes: draws, learning rates, ....
        number: `BELOW`, `BETWEEN` or `BEYOND`.
    """
    return np.split(values, 3, axis=1)[number]


def trained(begin: Start, num_steps: int, rate: Scalar) -> Trained:
    """Descend on ½ Σ (g − y)², for the quadratic model and for the network; and run the map.

    Args:
        begin: Examples and weights.
        num_steps: The number of steps.
        rate: The learning rate for the mean squared error.
    """
    x, y, initial, order, *_ = begin
    eta = convert_learning_rate(rate, MEAN, HALF_SUM, len(x))
    steps, optimizer = np.arange(num_steps + 1), gradient_descent(eta)
    inputs, width = x[:, None], len(initial.second)

    def objective(apply: Apply) -> Callable[[GatedWeights], Float[Array, ""]]:
        return lambda weights: HALF_SUM(
            several_examples.outputs(apply, weights, x)[:, None], y[:, None]
        )

    measure = partial(several_examples.state, initial=initial, x=x)
    model = objective(gated.quadratic_model(initial))
    path = descend(model, initial, optimizer, steps, measure)
    state, outputs = path.records
    network = descend(objective(gated.network), initial, optimizer, steps[-1:], lambda _: ()).params
    network_kernel = gated.tangent_kernel(network, gated.gates(network, inputs), inputs)
    first = jax.tree.map(lambda values: values[0], state)
    exact = several_examples.problem(x, y, width, eta)

    predicted = plane.trajectory(first, exact, num_steps)
    setting = (x, y, width, eta)
    reduced = jax.vmap(lambda state: several_examples.reduced(state, *setting))(state)
    as_printed = jax.vmap(lambda s, g: several_examples.printed_reduced(s, g, *setting))(
        state, outputs
    )

    def error(all_steps: plane.ReducedState) -> Float[Array, ""]:
        here = jax.tree.map(lambda values: values[:-1], all_steps)
        after = jax.tree.map(lambda values: values[1:], reduced)
        return several_examples.reduced_error(here, after)

    kernel, last = several_examples.kernel(path.params, initial, x), state.curvature[-1]
    directions = several_examples.directions(x).vectors
    rest = kernel - jnp.einsum("a,ai,aj->ij", last, directions, directions)
    losses = jax.vmap(lambda g: several_examples.projected_losses(g, x, y))(outputs)
    return Trained(
        losses=losses[:, jnp.append(order, 2)],
        last=last[order],
        network_last=jnp.asarray(several_examples.projected(y, network_kernel, x).curvature)[order],
        map_error=several_examples.map_error(state, predicted, exact),
        reduced_error=error(reduced),
        printed_error=error(as_printed),
        rank_error=jnp.linalg.norm(rest) / jnp.linalg.norm(kernel),
    )
