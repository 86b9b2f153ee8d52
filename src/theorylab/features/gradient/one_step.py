"""One step of everything, then only the output layer: descent on a convex problem.

Algorithm 4: one gradient step of all with one sample, then freeze W⁽¹⁾ and b, and descend in a with
step size 1/L, where L is the smoothness of the empirical loss in a,

    L = c λ_max((1/n) Σ hhᵀ),   h = σ(W⁽¹⁾x − b),   c = sup ℓ''   (1/(4 ln 2) for the logistic loss)

Then, with every constant,

    L̂(a⁽ᵗ⁾) − L̂(a*) ≤ L‖a⁽⁰⁾ − a*‖²/2t                                for every a*
    sup (L_D − L̂) ≤ 2B_a2 √((‖W‖_F² B_x² + ‖b‖²)/n) + R√(log(1/δ)/2n)   with probability 1 − δ

where the supremum is over ‖a‖₂ ≤ B_a2 and R bounds the loss there. (The source prints 1/t for the
step size; a hinge is not smooth, so that neither bound of descent holds for it.)

Source: shi · one-step-freeze · Algorithm 4, Theorems 3.4, B.2, Lemma B.78.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from theorylab.training import Trajectory
from theorylab.training.trajectory import Steps, run_and_record
from theorylab.typing import Scalar

from .network import FiniteLaw, ReluNetwork, margin_loss

_TOGETHER = 2**27  # entries of features from which on their second moment is diagonalised


class Smoothness(NamedTuple):
    """L, and the simpler bound c (1/n) Σ‖h‖² of the source."""

    exact: Float[Array, ""]
    bound: Float[Array, ""]


def output_smoothness(hidden: Float[Array, "n m"]) -> Smoothness:
    """L of the logistic loss (divided by ln 2) as a function of the output layer.

    Args:
        hidden: h, one row for each sample.

    Example:
        >>> smoothness = output_smoothness(jnp.eye(2))
        >>> round(float(smoothness.exact), 4), round(float(smoothness.bound), 4)
        (0.1803, 0.3607)
    """
    curvature = 1 / (4 * math.log(2))
    if hidden.size > _TOGETHER:  # LAPACK would copy them for singular values
        largest = jnp.linalg.eigvalsh(hidden.T @ hidden)[-1] / len(hidden)
    else:
        # Without full matrices: LAPACK would be given room for one of n by n.
        values = jnp.linalg.svd(hidden, full_matrices=False, compute_uv=False)
        largest = values.max() ** 2 / len(hidden)
    return Smoothness(curvature * largest, curvature * (hidden**2).sum(axis=1).mean())


def descend_outputs(
    network: ReluNetwork,
    law: FiniteLaw,
    steps: Steps,
    learning_rates: Float[Array, " total"],
) -> Trajectory:
    """Descend in a on the logistic loss (divided by ln 2), W and b frozen; records the loss.

    Args:
        network: Where to begin, such as after one step of all.
        law: The sample, 1/n each.
        steps: The increasing numbers of steps after which to record; the last ends the run.
        learning_rates: η of every step; all 1/L in the theorem.

    Example:
        >>> law = FiniteLaw(jnp.eye(2), jnp.array([1.0, -1.0]), jnp.array([0.5, 0.5]))
        >>> network = ReluNetwork(jnp.zeros(2), jnp.eye(2), jnp.zeros(2))
        >>> run = descend_outputs(network, law, [0, 10], jnp.ones(10))
        >>> float(run.records[0]), bool(run.records[1] < 0.5)
        (1.0, True)
    """
    hidden = network.hidden(law.x)

    def loss(outputs: Float[Array, " m"]) -> Float[Array, ""]:
        return law.probabilities @ margin_loss(law.y * (hidden @ outputs), "logistic")

    def advance(outputs: Float[Array, " m"], step: Int[Array, ""]) -> Float[Array, " m"]:
        return outputs - learning_rates[step] * jax.grad(loss)(outputs)

    return run_and_record(advance, network.outputs, steps, loss, params_of=lambda outputs: outputs)


def descent_bound(
    distance: Scalar, smoothness: Scalar, num_steps: Float[Array, " t"]
) -> Float[Array, " t"]:
    """L‖a⁽⁰⁾ − a*‖²/2t, above the loss over that of a* after t steps of size 1/L.

    Args:
        distance: ‖a⁽⁰⁾ − a*‖.
        smoothness: L.
        num_steps: t.

    Example:
        >>> descent_bound(2.0, smoothness=1.0, num_steps=jnp.array([1.0, 10.0])).tolist()
        [2.0, 0.2]
    """
    return smoothness * distance**2 / (2 * num_steps)


def rademacher_bound(
    network: ReluNetwork, norm_bound: Scalar, largest_norm: Scalar, num_samples: int
) -> Float[Array, ""]:
    """B_a2 √((‖W‖_F² B_x² + ‖b‖²)/n), above the Rademacher complexity of the frozen networks.

    Args:
        network: Of which W and b are used.
        norm_bound: B_a2.
        largest_norm: B_x.
        num_samples: n.

    Example:
        >>> network = ReluNetwork(jnp.zeros(2), jnp.eye(2), jnp.ones(2))
        >>> float(rademacher_bound(network, norm_bound=1.0, largest_norm=1.0, num_samples=100))
        0.2
    """
    if num_samples < 1:
        raise ValueError(f"num_samples must be at least 1, got {num_samples}.")
    weights = (network.weights**2).sum() * largest_norm**2
    return norm_bound * jnp.sqrt((weights + (network.biases**2).sum()) / num_samples)


def gap_bound(
    network: ReluNetwork,
    norm_bound: Scalar,
    largest_norm: Scalar,
    num_samples: int,
    failure: float = 0.05,
) -> Float[Array, ""]:
    """2ℜ + R√(log(1/δ)/2n), above L_D − L̂ on ‖a‖ ≤ B_a2 with probability 1 − δ, logistic loss.

    The loss is 1/(ln 2)-Lipschitz, and at most R = 1 + B_a2 H/ln 2 with H ≥ ‖h‖.

    Args:
        network: Of which W and b are used.
        norm_bound: B_a2.
        largest_norm: B_x.
        num_samples: n.
        failure: δ.

    Example:
        >>> network = ReluNetwork(jnp.zeros(2), jnp.eye(2), jnp.ones(2))
        >>> round(float(gap_bound(network, norm_bound=1.0, largest_norm=1.0, num_samples=10000)), 4)
        0.1053
    """
    if not 0 < failure < 1:
        raise ValueError(f"failure must be in (0, 1), got {failure}.")
    complexity = rademacher_bound(network, norm_bound, largest_norm, num_samples) / math.log(2)
    hidden = rademacher_bound(network, norm_bound, largest_norm, 1)  # B_a2 H
    largest = 1 + hidden / math.log(2)
    return 2 * complexity + largest * math.sqrt(math.log(1 / failure) / (2 * num_samples))
