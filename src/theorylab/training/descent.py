"""Full-batch descent: w ← w - η ∇f(w), or any other optax optimiser.

Source: arora · gd-descent · §2.1, Lemma 2.1.4.
"""

from collections.abc import Callable
from typing import Any

import jax
import optax
from jaxtyping import Array, Float

from theorylab.typing import Params

from .trajectory import Measure, Steps, Trajectory, run_and_record

State = tuple[Params, Any]  # parameters and the optimiser's state


def descend(
    objective: Callable[[Params], Float[Array, ""]],
    params: Params,
    optimizer: optax.GradientTransformation,
    steps: Steps,
    measure: Measure,
) -> Trajectory:
    """Minimise an objective, measuring at the chosen steps inside one compiled scan.

    Args:
        objective: f(w), a scalar.
        params: w₀, any pytree.
        optimizer: An optax transformation, such as `gradient_descent(0.1)`.
        steps: The increasing numbers of steps after which to measure; the last ends the run.
        measure: What to record: params ─► any pytree of arrays.

    Example:
        >>> half_square = lambda w: w**2 / 2
        >>> run = descend(half_square, jax.numpy.array(1.0), optax.sgd(0.5), [0, 1, 2], half_square)
        >>> run.records.tolist()
        [0.5, 0.125, 0.03125]
    """

    def advance(state: State, step: Array) -> State:
        return updated(objective, state, optimizer)

    state = (params, optimizer.init(params))
    return run_and_record(advance, state, steps, measure, params_of=lambda state: state[0])


def updated(
    objective: Callable[[Params], Float[Array, ""]],
    state: State,
    optimizer: optax.GradientTransformation,
    **extra: Any,
) -> State:
    """Parameters and optimiser state after one step; an optimiser may ask for the extra things.

    Example:
        >>> import jax.numpy as jnp
        >>> optimizer, w = optax.sgd(0.25), jnp.array(1.0)
        >>> float(updated(lambda w: w**2, (w, optimizer.init(w)), optimizer)[0])
        0.5
    """
    params, memory = state
    value, gradient = jax.value_and_grad(objective)(params)
    # Line searches and Polyak steps ask for more than the gradient; what nobody asks for is free.
    update = optax.with_extra_args_support(optimizer).update
    updates, memory = update(
        gradient, memory, params, value=value, grad=gradient, value_fn=objective, **extra
    )
    return optax.apply_updates(params, updates), memory
