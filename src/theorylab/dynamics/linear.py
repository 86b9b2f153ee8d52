"""Linear models under gradient descent: every error direction shrinks or grows by itself.

    f(t) − y = (I − ηK)ᵗ (f(0) − y)

With the loss ½ Σᵢ (fᵢ − yᵢ)² and the constant kernel K = ∇f ∇fᵀ of n samples, the error along the
eigenvector with eigenvalue λ is multiplied by 1 − ηλ in every step. So all errors vanish if and
only if 0 < η < 2/λ_max(K); beyond, the top direction diverges, whatever the width.

Source: zhu · linear-dynamics · Eqs 3.7–3.8.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theorylab.training import descend, gradient_descent, squared
from theorylab.training.losses import check_positive
from theorylab.training.trajectory import Steps
from theorylab.typing import Params, Scalar

from .thresholds import threshold


def outputs(
    kernel: Float[Array, "n n"],
    initial: Float[Array, "n k"],
    targets: Float[Array, "n k"],
    learning_rate: Scalar,
    steps: Int[Array, " t"],
) -> Float[Array, "t n k"]:
    """Predict the outputs f(t) = y + (I − ηK)ᵗ (f(0) − y) at chosen steps, in closed form.

    Args:
        kernel: The kernel K, symmetric.
        initial: The outputs f(0).
        targets: The targets y.
        learning_rate: The step size η, for the loss ½ Σᵢ ‖fᵢ − yᵢ‖².
        steps: The numbers of steps t.

    Example:
        >>> half = outputs(jnp.eye(1), jnp.ones((1, 1)), jnp.zeros((1, 1)), 0.5, jnp.arange(3))
        >>> half.ravel().tolist()
        [1.0, 0.5, 0.25]
    """
    check_positive("learning_rate", learning_rate)
    if initial.shape != targets.shape or len(kernel) != len(initial):
        raise ValueError(
            f"initial and targets must have one shape (n, k) for a kernel of {len(kernel)} samples,"
            f" got {initial.shape} and {targets.shape}."
        )
    eigenvalues, directions = jnp.linalg.eigh(kernel)
    factors = (1 - learning_rate * eigenvalues)[None, :] ** steps[:, None]
    errors = directions.T @ (initial - targets)
    return targets[None] + jnp.einsum("ip,tp,pk->tik", directions, factors, errors)


def critical_learning_rate(kernel: Float[Array, "n n"]) -> Float[Array, ""]:
    """Give 2/λ_max(K), up to which gradient descent on ½ Σᵢ ‖fᵢ − yᵢ‖² converges."""
    return 2 / jnp.linalg.eigvalsh(kernel)[-1]


def descended(
    model: Callable[[Params], Float[Array, "n k"]],
    params: Params,
    targets: Float[Array, "n k"],
    learning_rate: Scalar,
    steps: Steps,
) -> Float[Array, "t n k"]:
    """Descend on ½ Σᵢ ‖fᵢ − yᵢ‖² in the parameters, and give the outputs f at chosen steps.

    Args:
        model: The outputs f on fixed inputs, as a function of the parameters.
        params: The first parameters.
        targets: The targets y.
        learning_rate: The step size η.
        steps: The recorded steps.
    """
    loss = squared("half_sum")
    optimizer = gradient_descent(learning_rate)
    return descend(lambda w: loss(model(w), targets), params, optimizer, steps, model).records


def measured_threshold(
    model: Callable[[Params], Float[Array, "n k"]],
    params: Params,
    targets: Float[Array, "n k"],
    scale: Scalar,
    num_steps: int,
) -> Float[Array, ""]:
    """Bisect in [½, 2] for the learning rate, in units of `scale`, up to which the loss shrinks.

    After t steps, a learning rate that is ε beyond the critical one has multiplied the top error
    by (1 + 2ε)ᵗ; so 500 steps find the threshold to better than 1 %, if the top error is not tiny.

    Args:
        model: The outputs f on fixed inputs, as a function of the parameters.
        params: The first parameters.
        targets: The targets y.
        scale: The unit of the learning rate, such as the predicted threshold.
        num_steps: The number of steps after which the loss is compared with the first.
    """

    def shrinks(ratio: Scalar) -> Bool[Array, ""]:
        ends = descended(model, params, targets, ratio * scale, np.array([0, num_steps]))
        first, last = jnp.sum((ends - targets[None]) ** 2, axis=(1, 2))
        return last < first

    return threshold(shrinks, 0.5, 2.0, num_halvings=10)
