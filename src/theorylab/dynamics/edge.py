"""The edge of stability: gradient descent watched through sharpness and loss.

By the descent lemma, gradient descent with step size η is safe while the sharpness λ = λ_max(∇²f)
is below 2/η. Networks do not stay there: sharpness rises while they train (progressive
sharpening), reaches 2/η and hovers about it; from then on the loss goes up and down from step to
step, and down over many steps.

Source: arora · edge-of-stability · Fig. 2.4.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from theorylab.answers import Answer
from theorylab.curvature import sharpness
from theorylab.training import Trajectory
from theorylab.training.losses import check_positive
from theorylab.training.trajectory import run_and_record
from theorylab.typing import Measured, Params, RandomKey, Scalar


class Watched(Answer, axes=("record",)):
    """What is recorded; under `watch` with the recorded times as the leading axis.

    Example:
        >>> one = np.array([1.0])
        >>> seen = Watched(loss=one, sharpness=19 * one, residual=0 * one, rises=0 * one)
        >>> bool(seen.sharpness[0] < 2 / 0.1)  # below the edge for η = 0.1
        True
    """

    loss: Float[Measured, "*t"]
    sharpness: Float[Measured, "*t"]
    residual: Float[Measured, "*t"]  # an eigenvalue is this near to the sharpness
    rises: Float[Measured, "*t"]  # the share of steps since the last record that raised the loss


class _State(NamedTuple):
    params: Params
    loss: Float[Array, ""]  # before the last step
    num_rises: Float[Array, ""]  # in the present stretch


def watch(
    objective: Callable[[Params], Float[Array, ""]],
    params: Params,
    learning_rate: Scalar,
    num_records: int,
    gap: int | Int[Array, ""],
    key: RandomKey,
    num_lanczos: int = 20,
) -> Trajectory:
    """Descend w ← w − η∇f(w) for num_records stretches of `gap` steps; see every step's loss.

    Beyond the edge the iterates jump across the valley with period two, and sharpness differs on
    its two sides: an odd gap sees both sides, an even one only one. The gap may be traced, so that
    learning rates with different gaps share one compiled program.

    Args:
        objective: f(w), a scalar.
        params: w₀, any pytree.
        learning_rate: The step size η.
        num_records: How many stretches; there is one record more, at the start.
        gap: The number of steps in a stretch.
        key: Draws the directions where Lanczos starts.
        num_lanczos: The number of Hessian–vector products for one sharpness.

    Example: a parabola of sharpness 2, on which w halves at every step.
        >>> run = watch(lambda w: w[0] ** 2, jnp.array([4.0]), 0.25, 2, 1, jax.random.key(0), 1)
        >>> run.records.loss.tolist(), [round(float(value), 4) for value in run.records.sharpness]
        ([16.0, 4.0, 1.0], [2.0, 2.0, 2.0])
    """
    if num_records < 1:
        raise ValueError(f"num_records must be at least 1, got {num_records}.")
    check_positive("learning_rate", learning_rate)

    def step(_, state: _State) -> _State:
        loss, gradient = jax.value_and_grad(objective)(state.params)
        params = jax.tree.map(lambda w, g: w - learning_rate * g, state.params, gradient)
        return _State(params, loss, state.num_rises + (loss > state.loss))

    def stretch(state: _State, _) -> _State:
        return jax.lax.fori_loop(0, gap, step, state._replace(num_rises=zero))

    def measure(state: _State) -> Watched:
        found = sharpness(objective, state.params, key, num_lanczos)
        rises = state.num_rises / gap
        return Watched(objective(state.params), found.value, found.residual, rises)

    loss = objective(params)
    zero = jnp.zeros_like(loss)
    start = _State(params, loss, zero)
    run = run_and_record(stretch, start, np.arange(num_records + 1), measure, lambda state: state)
    return run.replace(
        steps=gap * run.steps,
        params=run.params.params,
        diverged_at=jnp.where(run.diverged, gap * run.diverged_at, -1),
    )
