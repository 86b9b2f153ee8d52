"""The good subnetwork: after one step a few neurons already make a network as good as g*.

After the first step w⁽¹⁾ = η⁽¹⁾|ℓ'(0)| a⁽⁰⁾ G, so a neuron is nice for D if it points along D,

    ⟨w⁽¹⁾, D⟩ > (1 − γ)‖w⁽¹⁾‖   and   ‖G‖ ≥ B_G,

which has half of the probability p of the double cone. For each neuron aσ(⟨D, x⟩ − b) of g* take
the nice neurons of the right length, with c = max(|b|, B_ε),

    Λ = {i : |η⁽¹⁾|ℓ'(0)| |aᵢ⁽⁰⁾| ‖Gᵢ‖ c/b̃ − 1| ≤ ε_a},   ε_a = B_x1 B_b/(√(mp) B_G B_ε),

and give each of them the output weight ã = ac/(|Λ| b̃), all others 0. If no Λ is empty,

    L(ã, W⁽¹⁾, b) ≤ rB_a1 (B_x1² B_b/(√(mp) B_G B_ε) + B_x1 √(2γ) + B_ε) + L(g*)

with these constants and no others; |Λ| grows like √(mp). (The source has a for |a|; then no neuron
would stand for a cluster with label −1, whose G points away from it.) The best B_ε is
B_x1 √(B_b/B_G)/(mp)^¼.

Source: shi · nice-neurons · Lemma 3.13; shi · good-subnet · Lemmas 3.14, B.6;
shi · lottery-ticket · Proposition B.1.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from theorylab.typing import RandomKey, Scalar

from .bound import TheoremConstants
from .network import FiniteLaw, ReluNetwork, margin_loss


class Subnetwork(NamedTuple):
    """The output layer ã, and which neuron stands for which neuron of g*."""

    outputs: Float[Array, " m"]
    members: Bool[Array, "m r"]


def nice_neurons(
    outputs: Float[Array, " m"],
    gradients: Float[Array, "m d"],
    directions: Float[Array, "r d"],
    opening: Scalar,
    least_norm: Scalar,
) -> Bool[Array, "m r"]:
    """Which neurons point along which direction after the first step.

    Args:
        outputs: a⁽⁰⁾, whose sign turns G.
        gradients: G(w⁽⁰⁾, b), one row for each neuron.
        directions: D, one row each, of length 1.
        opening: γ.
        least_norm: B_G.

    Example:
        >>> gradients = jnp.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
        >>> nice_neurons(jnp.array([1.0, -1.0, 1.0]), gradients, jnp.eye(2), 0.1, 0.5).tolist()
        [[True, False], [True, False], [False, True]]
    """
    lengths = jnp.linalg.norm(gradients, axis=1)
    along = jnp.sign(outputs)[:, None] * (gradients @ directions.T)
    return (along > (1 - opening) * lengths[:, None]) & (lengths >= least_norm)[:, None]


def good_subnetwork(
    start: ReluNetwork,
    gradients: Float[Array, "m d"],
    target: ReluNetwork,
    constants: TheoremConstants,
    first_rate: Scalar,
    floor: Scalar,
) -> Subnetwork:
    """The output layer ã on the neurons after the first step.

    Args:
        start: The network before the step, all of whose biases have one absolute value b̃; the
            neurons with the sign of a target's bias stand for it (0 counts as negative).
        gradients: G(w⁽⁰⁾, b), one row for each neuron.
        target: g*, with directions of length 1 as its weights.
        constants: Of which p, γ, B_G, B_b, B_x1 and |ℓ'(0)| are used.
        first_rate: η⁽¹⁾.
        floor: B_ε.

    Example:
        >>> target = ReluNetwork(jnp.ones(1), jnp.array([[1.0, 0.0]]), jnp.ones(1))
        >>> law = TheoremConstants(1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.1, 0.5)
        >>> start = ReluNetwork(jnp.array([1.0, 9.0]), jnp.zeros((2, 2)), jnp.ones(2))
        >>> gradients = jnp.array([[1.0, 0.0], [1.0, 0.0]])
        >>> found = good_subnetwork(start, gradients, target, law, first_rate=1.0, floor=1.0)
        >>> found.members.tolist(), found.outputs.tolist()
        ([[True], [False]], [1.0, 0.0])
    """
    c, width = constants, len(start.outputs)
    window = _window(c, width, floor)
    nice = nice_neurons(start.outputs, gradients, target.weights, c.opening, c.gradient_norm) & (
        jnp.sign(start.biases)[:, None] == jnp.where(target.biases > 0, 1, -1)[None, :]
    )
    heights = jnp.maximum(jnp.abs(target.biases), floor)
    lengths = first_rate * c.slope * jnp.abs(start.outputs) * jnp.linalg.norm(gradients, axis=1)
    fits = jnp.abs((lengths / jnp.abs(start.biases))[:, None] * heights[None, :] - 1) <= window
    members = nice & fits
    counts = jnp.maximum(members.sum(axis=0), 1)
    shared = members / jnp.abs(start.biases)[:, None]
    return Subnetwork(shared @ (target.outputs * heights / counts), members)


def drawn_subnetwork(
    key: RandomKey,
    gradients: Float[Array, "m d"],
    signs: Float[Array, " m"],
    target: ReluNetwork,
    constants: TheoremConstants,
    floor: Scalar,
) -> tuple[Subnetwork, ReluNetwork]:
    """The good subnetwork of a start with η⁽¹⁾ = b̃ = 1, and the network (ã, W⁽¹⁾, b).

    Outputs are drawn with σ_a = b̃/(|ℓ'(0)| η⁽¹⁾ B_G B_ε), so that the lengths that are needed come
    often.

    Args:
        key: Draws a⁽⁰⁾.
        gradients: G(w⁽⁰⁾, b), one row for each neuron.
        signs: b, ±1.
        target: g*, with directions of length 1 as its weights.
        constants: Of the data law.
        floor: B_ε.

    Example:
        >>> target = ReluNetwork(jnp.ones(1), jnp.array([[1.0, 0.0]]), jnp.ones(1))
        >>> law = TheoremConstants(1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.1, 0.5)
        >>> gradients = jnp.tile(jnp.array([[1.0, 0.0]]), (100, 1))
        >>> found, network = drawn_subnetwork(
        ...     jax.random.key(0), gradients, jnp.ones(100), target, law, floor=1.0
        ... )
        >>> bool(found.members.any()), network.weights.shape
        (True, (100, 2))
    """
    c = constants
    outputs = jax.random.normal(key, signs.shape) / (c.slope * c.gradient_norm * floor)
    start = ReluNetwork(outputs, jnp.zeros_like(gradients), signs)
    found = good_subnetwork(start, gradients, target, c, 1.0, floor)
    return found, ReluNetwork(found.outputs, (c.slope * outputs)[:, None] * gradients, signs)


def blockwise_risk(network: ReluNetwork, law: FiniteLaw) -> Float[Array, ""]:
    """`risk` of the hinge for networks so wide that a few points are answered at a time.

    Args:
        network: Ξ.
        law: The points and their probabilities.

    Example:
        >>> law = FiniteLaw(jnp.eye(2), jnp.array([1.0, -1.0]), jnp.array([0.5, 0.5]))
        >>> network = ReluNetwork(jnp.ones(1), jnp.ones((1, 2)), jnp.zeros(1))
        >>> float(blockwise_risk(network, law))
        1.0
    """
    answers = jax.lax.map(lambda x: network(x[None, :])[0], law.x, batch_size=50)
    return law.probabilities @ margin_loss(law.y * answers)


def best_floor(constants: TheoremConstants, width: int) -> float:
    """B_ε = B_x1 √(B_b/B_G)/(mp)^¼, which makes the bound smallest.

    Args:
        constants: Of the data law.
        width: m.

    Example:
        >>> law = TheoremConstants(2, 1.0, 1.4, 1.0, 1.0, 1.0, 2.0, 0.5, 1e-4, 0.5)
        >>> round(best_floor(law, width=5000), 4)
        0.2
    """
    c = constants
    ratio = math.sqrt(c.bias_bound / c.gradient_norm)
    return c.mean_norm * ratio / (width * c.probability) ** 0.25


def subnetwork_bound(
    constants: TheoremConstants, width: int, floor: float, optimum: float
) -> float:
    """The bound on the loss of the good subnetwork, constants and all.

    Args:
        constants: Of the data law and of g*.
        width: m.
        floor: B_ε.
        optimum: The loss of g*.

    Example:
        >>> law = TheoremConstants(2, 1.0, 1.4, 1.0, 1.0, 1.0, 2.0, 0.5, 1e-4, 0.5)
        >>> round(subnetwork_bound(law, width=5000, floor=0.1, optimum=0.0), 4)
        1.0283
    """
    c = constants
    turned = c.mean_norm * (_window(c, width, floor) + math.sqrt(2 * c.opening)) + floor
    return float(c.num_neurons * c.entry_bound * turned + optimum)


def restricted(network: ReluNetwork, members: Bool[Array, " m"]) -> ReluNetwork:
    """The network of some of the neurons only; the number of members must be known.

    Args:
        network: All neurons.
        members: Which ones are kept.

    Example:
        >>> network = ReluNetwork(jnp.array([1.0, 2.0]), jnp.eye(2), jnp.zeros(2))
        >>> restricted(network, jnp.array([False, True])).outputs.tolist()
        [2.0]
    """
    kept = jnp.flatnonzero(members)
    return ReluNetwork(network.outputs[kept], network.weights[kept], network.biases[kept])


def _window(constants: TheoremConstants, width: int, floor: Scalar) -> Scalar:
    """ε_a = B_x1 B_b/(√(mp) B_G B_ε)."""
    c = constants
    return c.mean_norm * c.bias_bound / (c.gradient_norm * floor * math.sqrt(width * c.probability))
