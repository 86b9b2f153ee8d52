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
    """Gradient descent, w ← w - η ∇f(w).

    Example:
        >>> import jax.numpy as jnp
        >>> optimizer, w = gradient_descent(0.5), jnp.array(1.0)
        >>> float(optimizer.update(jnp.array(4.0), optimizer.init(w), w)[0])  # −η g
        -2.0
    """
    check_positive("learning_rate", learning_rate)
    return optax.sgd(learning_rate)


def heavy_ball(learning_rate: Scalar, momentum: Scalar) -> optax.GradientTransformation:
    """The heavy ball, w ← w - η ∇f(w) + β (w - w₋), beginning at rest.

    Example:
        >>> import jax.numpy as jnp
        >>> optimizer, w, g = heavy_ball(0.5, momentum=0.5), jnp.array(0.0), jnp.array(4.0)
        >>> first, state = optimizer.update(g, optimizer.init(w), w)
        >>> second, _ = optimizer.update(g, state, w)
        >>> float(first), float(second)
        (-2.0, -3.0)
    """
    check_positive("learning_rate", learning_rate)
    _check_momentum(momentum)
    return optax.sgd(learning_rate, momentum=momentum)


def nesterov(learning_rate: Scalar, momentum: Scalar) -> optax.GradientTransformation:
    """Nesterov's method, u ← -∇f(v) + βu, whose parameters are the look-ahead v = w + ηβu.

    Example:
        >>> import jax.numpy as jnp
        >>> optimizer, w = nesterov(0.5, momentum=0.5), jnp.array(0.0)
        >>> float(optimizer.update(jnp.array(4.0), optimizer.init(w), w)[0])  # −η (1 + β) g
        -3.0
    """
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

    Example:
        >>> import jax.numpy as jnp
        >>> params = {"inner": jnp.array(0.0), "outer": jnp.array(0.0)}
        >>> optimizer = with_learning_rates(gradient_descent(1.0), {"inner": 1.0, "outer": 0.0})
        >>> ones = jax.tree.map(jnp.ones_like, params)
        >>> jax.tree.map(float, optimizer.update(ones, optimizer.init(params), params)[0])
        {'inner': -1.0, 'outer': -0.0}
    """

    def scale(updates: Params, params: Params) -> Params:
        def scale_branch(factor, branch):
            return jax.tree.map(lambda update: factor * update, branch)

        return jax.tree.map(scale_branch, factors, updates)

    return optax.chain(optimizer, optax.stateless(scale))


def _check_momentum(momentum: Scalar) -> None:
    if not isinstance(momentum, Tracer) and not 0 <= momentum < 1:
        raise ValueError(f"momentum must be in [0, 1), got {momentum}.")
