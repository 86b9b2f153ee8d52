"""The learning rate of every parameter, for any optax optimiser.

    optimizer = optax.chain(optax.sgd(η), scale_by_learning_rates(model.learning_rates(params)))

The factors multiply the finished update, so they stand last in the chain: w ← w + n⁻ᶜ · update.

Source: golikov · abc-dichotomy · Def. 3.4.5.
"""

import jax
import optax

from theorylab.typing import Params


def scale_by_learning_rates(factors: Params) -> optax.GradientTransformation:
    """Multiply the update of every parameter by its factor.

    Args:
        factors: Numbers, in the structure of the parameters.

    Example:
        >>> optimizer = scale_by_learning_rates({"weight": 10.0})
        >>> state = optimizer.init({"weight": 1.0})
        >>> optimizer.update({"weight": -0.5}, state)[0]
        {'weight': -5.0}
    """

    def update(updates: Params, params: Params | None) -> Params:
        return jax.tree.map(lambda factor, change: factor * change, factors, updates)

    return optax.stateless(update)
