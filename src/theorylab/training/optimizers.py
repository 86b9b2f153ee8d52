"""First-order methods as optax transformations, with the paper's letters.

    gradient descent   w ← w - η ∇f(w)
    heavy ball         w ← w - η ∇f(w) + β (w - w₋)
    Nesterov           u ← -∇f(w + ηβu) + βu,   w ← w + ηu

Any other optax optimiser serves as well. The state of `nesterov` is the point w + ηβu where the
gradient is taken, which is optax's form of the same method; it begins and ends where w does.
(The source prints the look-ahead as w + β(u - u₋), which is circular.)

Source: arora · gd-descent · §2.1; arora · momentum · §2.3.
"""

import jax
import optax
from jax.core import Tracer

from theorylab.typing import Params, Scalar

from .losses import check_positive


def gradient_descent(learning_rate: Scalar) -> optax.GradientTransformation:
    """Gradient descent, w ← w - η ∇f(w)."""
    check_positive("learning_rate", learning_rate)
    return optax.sgd(learning_rate)


def heavy_ball(learning_rate: Scalar, momentum: Scalar) -> optax.GradientTransformation:
    """The heavy ball, w ← w - η ∇f(w) + β (w - w₋), beginning at rest."""
    check_positive("learning_rate", learning_rate)
    _check_momentum(momentum)
    return optax.sgd(learning_rate, momentum=momentum)


def nesterov(learning_rate: Scalar, momentum: Scalar) -> optax.GradientTransformation:
    """Nesterov's method, u ← -∇f(v) + βu, whose parameters are the look-ahead v = w + ηβu."""
    check_positive("learning_rate", learning_rate)
    _check_momentum(momentum)
    return optax.sgd(learning_rate, momentum=momentum, nesterov=True)


def with_learning_rates(
    optimizer: optax.GradientTransformation, factors: Params
) -> optax.GradientTransformation:
    """Multiply the learning rate of every parameter by its own factor.

    Args:
        optimizer: Any optimiser whose update is proportional to the learning rate.
        factors: The parameters' tree, or a prefix of it, with factors for leaves.
    """

    def scale(updates: Params, params: Params) -> Params:
        def scale_branch(factor, branch):
            return jax.tree.map(lambda update: factor * update, branch)

        return jax.tree.map(scale_branch, factors, updates)

    return optax.chain(optimizer, optax.stateless(scale))


def _check_momentum(momentum: Scalar) -> None:
    if not isinstance(momentum, Tracer) and not 0 <= momentum < 1:
        raise ValueError(f"momentum must be in [0, 1), got {momentum}.")
