"""The best network on given features, and on given directions: OPT, with a certificate.

    OPT = min E ℓ(y Σᵢ aᵢ hᵢ(x))   over ‖a‖₂ ≤ B_a2, |aᵢ| ≤ B_a1

For frozen neurons hᵢ(x) = σ(⟨wᵢ, x⟩ − bᵢ) this is a convex problem in a. For networks on gradient
features, (wᵢ, bᵢ/|bᵢ|) ∈ S and |bᵢ| ≤ B_b, it becomes one when every direction is offered with a
grid of biases; any number of them may then be used, so it is a lower bound for r neurons on this
grid. The hinge is smoothed over a stretch μ, L_μ ≤ L ≤ L_μ + μ/2, and accelerated projected descent
ends with a bound from below, by convexity:

    OPT ≥ L_μ(a) − ⟨∇L_μ(a), a⟩ + (μ/2) E ℓ_μ'² − min(B_a2‖∇L_μ(a)‖₂, B_a1‖∇L_μ(a)‖₁)

(the third term is what smoothing took; it is there for the hinge only: with it the first three are
E α for α = −ℓ_μ' ∈ [0, 1], and the right side is a value of the dual problem).

(The source has b ∈ ℝᵈ in the frozen class; there is one bias for each neuron, b ∈ ℝᵐ.)

Source: shi · gf-opt · Defs 3.3, 3.9, 3.11.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Scalar

from .network import FiniteLaw, LossName, ReluNetwork, margin_loss

_HALVINGS = 50  # of the interval of the multiplier, far below rounding


class Optimum(NamedTuple):
    """The loss that was attained, a bound that no allowed a is below, and the a."""

    loss: Float[Array, ""]
    lower: Float[Array, ""]
    outputs: Float[Array, " m"]


def frozen_optimum(
    hidden: Float[Array, "n m"],
    law: FiniteLaw,
    norm_bound: Scalar,
    entry_bound: Scalar = math.inf,
    loss: LossName = "hinge",
    num_steps: int = 1000,
    smoothing: float = 1e-3,
) -> Optimum:
    """OPT of the output layer on frozen features; compile it with `jax.jit`.

    Args:
        hidden: hᵢ(x), a column for each neuron, at the points of the law.
        law: The points, labels and probabilities; of a dataset 1/n each.
        norm_bound: B_a2.
        entry_bound: B_a1.
        loss: "hinge", or "logistic" (divided by ln 2).
        num_steps: Of accelerated descent.
        smoothing: μ, the stretch in which the hinge is bent; not used for the logistic loss.

    Example:
        >>> law = FiniteLaw(jnp.eye(2), jnp.array([1.0, -1.0]), jnp.array([0.5, 0.5]))
        >>> best = frozen_optimum(jnp.eye(2), law, norm_bound=1.0)
        >>> round(float(best.loss), 3), round(float(best.lower), 3)
        (0.293, 0.293)
    """
    _check(norm_bound, entry_bound, num_steps, smoothing)

    def smooth(outputs: Float[Array, " m"]) -> Float[Array, ""]:
        return law.probabilities @ _smoothed(law.y * (hidden @ outputs), loss, smoothing)

    slope = jax.grad(smooth)
    curvature = 1 / smoothing if loss == "hinge" else 0.25 / math.log(2)
    rate = 1 / (curvature * _top_eigenvalue(hidden, law.probabilities))

    def descended(outputs: Float[Array, " m"]) -> Float[Array, " m"]:
        return projected(outputs - rate * slope(outputs), norm_bound, entry_bound)

    outputs = _accelerated(descended, jnp.zeros(hidden.shape[1], hidden.dtype), num_steps)
    gradient = slope(outputs)
    support = jnp.minimum(
        norm_bound * jnp.linalg.norm(gradient), _scaled(entry_bound, jnp.abs(gradient).sum())
    )
    margins = law.y * (hidden @ outputs)
    lower = smooth(outputs) - jnp.vdot(gradient, outputs) - support
    if loss == "hinge":
        slopes = jnp.clip((1 - margins) / smoothing, 0.0, 1.0)
        lower = lower + smoothing / 2 * (law.probabilities @ slopes**2)
    return Optimum(
        loss=law.probabilities @ margin_loss(margins, loss),
        lower=jnp.maximum(lower, 0.0),
        outputs=outputs,
    )


def _accelerated(
    descended: Callable[[Float[Array, " m"]], Float[Array, " m"]],
    start: Float[Array, " m"],
    num_steps: int,
) -> Float[Array, " m"]:
    """Nesterov's accelerated descent; `descended` takes one projected step."""

    def step(state: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
        outputs, ahead, momentum = state
        moved = descended(ahead)
        # Momentum that points uphill is forgotten (O'Donoghue and Candès 2015).
        fresh = jnp.vdot(ahead - moved, moved - outputs) > 0
        momentum = jnp.where(fresh, 1.0, momentum)
        grown = (1 + jnp.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + jnp.where(fresh, 0.0, (momentum - 1) / grown) * (moved - outputs)
        return (moved, ahead, grown), None

    first = (start, start, jnp.ones((), start.dtype))
    (outputs, _, _), _ = jax.lax.scan(step, first, length=num_steps)
    return outputs


def offered_neurons(directions: Float[Array, "r d"], biases: Float[Array, " l"]) -> ReluNetwork:
    """Neurons for all D, −D and all biases of a grid, with zero outputs: what OPT chooses from.

    Args:
        directions: D, one row each.
        biases: The grid, within ±B_b and with the signs of S.

    Example:
        >>> offered_neurons(jnp.eye(2), jnp.array([0.5, 1.0])).weights.shape
        (8, 2)
    """
    both = jnp.concatenate([directions, -directions])
    weights = jnp.repeat(both, len(biases), axis=0)
    return ReluNetwork(jnp.zeros(len(weights), both.dtype), weights, jnp.tile(biases, len(both)))


def direction_optimum(
    directions: Float[Array, "r d"],
    biases: Float[Array, " l"],
    law: FiniteLaw,
    norm_bound: Scalar,
    entry_bound: Scalar = math.inf,
    loss: LossName = "hinge",
    num_steps: int = 1000,
) -> Optimum:
    """OPT over networks on these directions, with biases of a grid.

    Args:
        directions: D, one row each.
        biases: The grid, within ±B_b.
        law: The points, labels and probabilities; of a dataset 1/n each.
        norm_bound: B_a2.
        entry_bound: B_a1.
        loss: "hinge", or "logistic" (divided by ln 2).
        num_steps: Of accelerated descent.

    Example:
        >>> law = FiniteLaw(jnp.eye(2), jnp.array([1.0, -1.0]), jnp.array([0.5, 0.5]))
        >>> best = direction_optimum(jnp.eye(2), jnp.array([0.5]), law, norm_bound=1.0)
        >>> round(float(best.loss), 3)
        0.646
    """
    hidden = offered_neurons(directions, biases).hidden(law.x)
    return frozen_optimum(hidden, law, norm_bound, entry_bound, loss, num_steps)


def projected(
    outputs: Float[Array, " m"], norm_bound: Scalar, entry_bound: Scalar = math.inf
) -> Float[Array, " m"]:
    """The nearest a with ‖a‖₂ ≤ B_a2 and |aᵢ| ≤ B_a1: clip(v/(1 + λ)) with the least λ ≥ 0.

    Args:
        outputs: v.
        norm_bound: B_a2.
        entry_bound: B_a1.

    Example:
        >>> [round(a, 4) for a in projected(jnp.array([3.0, 4.0]), norm_bound=1.0).tolist()]
        [0.6, 0.8]
    """
    if isinstance(entry_bound, float) and math.isinf(entry_bound):
        return outputs * jnp.minimum(1.0, norm_bound / _length(outputs))

    def shrunk(scale: Float[Array, ""]) -> Float[Array, " m"]:
        return jnp.clip(scale * outputs, -entry_bound, entry_bound)

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = (ends[0] + ends[1]) / 2
        fits = jnp.linalg.norm(shrunk(middle)) <= norm_bound
        return jnp.where(fits, middle, ends[0]), jnp.where(fits, ends[1], middle)

    one = jnp.ones((), outputs.dtype)
    low, _ = jax.lax.fori_loop(0, _HALVINGS, halve, (0 * one, one))
    inside = jnp.linalg.norm(shrunk(one)) <= norm_bound
    return jnp.where(inside, shrunk(one), shrunk(low))


def _check(norm_bound: Scalar, entry_bound: Scalar, num_steps: int, smoothing: float) -> None:
    if num_steps < 1 or not smoothing > 0:
        raise ValueError(
            f"num_steps and smoothing must be positive, got {num_steps} and {smoothing}."
        )
    for name, bound in (("norm_bound", norm_bound), ("entry_bound", entry_bound)):
        if isinstance(bound, float | int) and not bound > 0:
            raise ValueError(f"{name} must be positive, got {bound}.")


def _smoothed(margins: Float[Array, " n"], loss: LossName, mu: float) -> Float[Array, " n"]:
    """The hinge, bent between 1 − μ and 1; other losses are smooth."""
    if loss != "hinge":
        return margin_loss(margins, loss)
    short = 1 - margins
    bent = jnp.clip(short, 0.0, mu) ** 2 / (2 * mu)
    return bent + jax.nn.relu(short - mu)


def _top_eigenvalue(hidden: Float[Array, "n m"], shares: Float[Array, " n"]) -> Float[Array, ""]:
    """λ_max(E hhᵀ), from above: at most the trace, at most 1.1 times a power iteration's value.

    It is that of the features times their labels, which square to 1.
    """

    def multiply(_: Array, vector: Float[Array, " m"]) -> Float[Array, " m"]:
        vector = (shares * (hidden @ vector)) @ hidden
        return vector / _length(vector)

    start = jnp.ones(hidden.shape[1], hidden.dtype) / math.sqrt(hidden.shape[1])
    vector = jax.lax.fori_loop(0, 50, multiply, start)
    rayleigh = shares @ (hidden @ vector) ** 2
    trace = shares @ (hidden**2).sum(axis=1)
    # E hhᵀ has no negative entry (no feature is negative): a start of ones meets its top vector.
    return jnp.maximum(jnp.minimum(trace, 1.1 * rayleigh), jnp.finfo(trace.dtype).tiny)


def _scaled(bound: Scalar, value: Float[Array, ""]) -> Float[Array, ""]:
    """Bound · value, also where the bound is infinite and the value zero."""
    return jnp.where(value == 0, 0.0, bound * value)


def _length(vector: Float[Array, " m"]) -> Float[Array, ""]:
    """‖v‖₂, but never 0, for division."""
    return jnp.maximum(jnp.linalg.norm(vector), jnp.finfo(vector.dtype).tiny)
