"""From the time of theory to steps of training, and the largest learning rate that is stable.

Theory's time t belongs to the loss ½Σ(f − y)² ("half_sum"). Gradient descent with learning rate η
on a loss s Σ(f − y)² follows the flow with

    t = 2sη · steps            t = η · steps for half_sum, 2η/n · steps for mean

to first order in η; with momentum β, an effective η/(1 − β). A network must be in the NTK
parametrization: its learning rate is then that of the kernel. `Descent(η)` and the other methods of
`prediction` are exact at every η, with η = 2s · learning rate.

Source: golikov · kernel-flow · 1.8–1.11; arora · quadratic-conditioning · §2.4.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.training import Loss, convert_learning_rate, squared
from theorylab.typing import Scalar

from .modes import Modes, as_modes, check_not_negative

_HALF_SUM = squared("half_sum")


def training_time(
    num_steps: Scalar,
    learning_rate: Scalar,
    loss: Loss = _HALF_SUM,
    num_samples: int = 1,
    num_outputs: int = 1,
    momentum: float = 0.0,
) -> Scalar:
    """The time of theory after so many steps, t = 2sη/(1 − β) · steps.

    Args:
        num_steps: Steps of gradient descent.
        learning_rate: η, as it was given to the optimiser.
        loss: The squared loss in the normalisation that was trained.
        num_samples: n, of the whole batch.
        num_outputs: k.
        momentum: β of the heavy ball or of Nesterov's method.

    Example:
        >>> training_time(100, learning_rate=0.5, loss=squared("mean"), num_samples=10)
        10.0
    """
    check_not_negative("num_steps", num_steps)
    return num_steps * _rate(learning_rate, loss, num_samples, num_outputs, momentum)


def training_steps(
    time: Scalar,
    learning_rate: Scalar,
    loss: Loss = _HALF_SUM,
    num_samples: int = 1,
    num_outputs: int = 1,
    momentum: float = 0.0,
) -> Scalar:
    """The number of steps (a real number: round it) after which theory's time is t.

    Example:
        >>> training_steps(10.0, learning_rate=0.5, loss=squared("mean"), num_samples=10)
        100.0
    """
    check_not_negative("time", time)
    return time / _rate(learning_rate, loss, num_samples, num_outputs, momentum)


def largest_learning_rate(
    kernel: Float[Array, "n n"] | Modes,
    loss: Loss = _HALF_SUM,
    num_outputs: int = 1,
    momentum: float = 0.0,
    nesterov: bool = False,
) -> Float[Array, ""]:
    """The learning rate above which training with a constant kernel diverges.

    2/(cλ_max) for gradient descent, 2(1 + β)/(cλ_max) for the heavy ball, 2(1 + β)/((1 + 2β)cλ_max)
    for Nesterov's method, where c is the loss's curvature: c = 1 for half_sum, 2/n for mean. For
    the logistic loss and cross-entropy c is a bound, and any rate below is stable.

    Args:
        kernel: K(X, X) or its modes.
        loss: The loss with its normalisation.
        num_outputs: k.
        momentum: β.
        nesterov: Whether the momentum is Nesterov's.

    Example:
        >>> float(largest_learning_rate(4 * jnp.eye(2)))
        0.5
    """
    _check_momentum(momentum)
    eigenvalues = as_modes(kernel).eigenvalues
    curvature = loss.curvature(len(eigenvalues), num_outputs)
    factor = 2 * (1 + momentum) / ((1 + 2 * momentum) if nesterov else 1)
    return factor / (curvature * jnp.max(eigenvalues))


def _rate(
    learning_rate: Scalar, loss: Loss, num_samples: int, num_outputs: int, momentum: float
) -> Scalar:
    """Theory's time of one step."""
    if loss.kind != "squared":
        raise ValueError(f"theory's time is that of the squared loss, got {loss.kind}.")
    _check_momentum(momentum)
    rate = convert_learning_rate(learning_rate, loss, _HALF_SUM, num_samples, num_outputs)
    return rate / (1 - momentum)


def _check_momentum(momentum: float) -> None:
    if not 0 <= np.asarray(momentum) < 1:
        raise ValueError(f"momentum must be in [0, 1), got {momentum}.")
