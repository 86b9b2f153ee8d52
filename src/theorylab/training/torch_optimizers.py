"""Optimisers as PyTorch has them by default, in optax, where some defaults are others.

With gradient g, and squares and products entry by entry,

    sgd         w ← w − ηg
    momentum    u ← 0.9u + g,                       w ← w − ηu
    adadelta    v ← 0.9v + 0.1g²,  s = g√(a + 10⁻⁶)/√(v + 10⁻⁶),  a ← 0.9a + 0.1s²,   w ← w − ηs
    adagrad     v ← v + g²,                         w ← w − ηg/(√v + 10⁻¹⁰)
    rmsprop     v ← 0.99v + 0.01g²,                 w ← w − ηg/(√v + 10⁻⁸)
    adam        m ← 0.9m + 0.1g,  v ← 0.999v + 0.001g²,  w ← w − η m̂/(√v̂ + 10⁻⁸)

all begun at 0, with m̂ = m/(1 − 0.9ᵗ) and v̂ = v/(1 − 0.999ᵗ). optax would begin Adagrad at v = 0.1,
take 0.9 for RMSprop's 0.99, and put its 10⁻⁸ under the root. (PyTorch has no default momentum; 0.9
is what everyone takes, and the source does not say.)

Source: zhu · optimizers · Table C.1.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, get_args

import jax
import optax
from jaxtyping import Array, Int

from theorylab.typing import Params, Scalar

from .losses import check_positive

TorchOptimizer = Literal["sgd", "momentum", "adadelta", "adagrad", "rmsprop", "adam"]


def torch_optimizer(name: TorchOptimizer, learning_rate: Scalar) -> optax.GradientTransformation:
    """Give the optimiser of this name.

    Args:
        name: Which one.
        learning_rate: η.

    Example:
        >>> import jax.numpy as jnp
        >>> optimizer, w = torch_optimizer("momentum", 0.5), jnp.array(0.0)
        >>> float(optimizer.update(jnp.array(4.0), optimizer.init(w), w)[0])
        -2.0
    """
    if name not in get_args(TorchOptimizer):
        known = ", ".join(get_args(TorchOptimizer))
        raise ValueError(f"optimizer must be one of {known}, got {name!r}.")
    check_positive("learning_rate", learning_rate)
    match name:
        case "sgd":
            return optax.sgd(learning_rate)
        case "momentum":
            return optax.sgd(learning_rate, momentum=0.9)
        case "adadelta":
            return optax.adadelta(learning_rate, rho=0.9, eps=1e-6)
        case "adagrad":
            # Under the root the square of 10⁻¹⁰: equal where v is far from it on either side.
            return optax.adagrad(learning_rate, initial_accumulator_value=0.0, eps=1e-20)
        case "rmsprop":
            return optax.rmsprop(learning_rate, decay=0.99, eps=1e-8, eps_in_sqrt=False)
        case "adam":
            return optax.adam(learning_rate, b1=0.9, b2=0.999, eps=1e-8)


def select_optimizer(
    optimizers: Sequence[optax.GradientTransformation], index: int | Int[Array, ""]
) -> optax.GradientTransformation:
    """Select an optimiser at run time, so that one compiled program serves all of them.

    Args:
        optimizers: Optimisers of the same parameters.
        index: Which one; it may be traced.

    Example:
        >>> import jax.numpy as jnp
        >>> optimizer = select_optimizer([optax.sgd(1.0), optax.sgd(2.0)], index=1)
        >>> w = jnp.array(0.0)
        >>> float(optimizer.update(jnp.array(1.0), optimizer.init(w), w)[0])
        -2.0
    """
    if not optimizers:
        raise ValueError("one_of needs at least one optimizer, got none.")

    def init(params: Params) -> tuple[Any, ...]:
        return tuple(optimizer.init(params) for optimizer in optimizers)

    def branch(
        place: int, gradient: Params, memories: tuple[Any, ...], params: Params
    ) -> tuple[Params, tuple[Any, ...]]:
        updates, memory = optimizers[place].update(gradient, memories[place], params)
        return updates, (*memories[:place], memory, *memories[place + 1 :])

    branches = [partial(branch, place) for place in range(len(optimizers))]

    def update(updates: Any, state: Any, params: Params | None = None) -> tuple[Any, Any]:
        return jax.lax.switch(index, branches, updates, state, params)

    return optax.GradientTransformation(init, update)
