"""What a run leaves behind: measurements at chosen steps, final parameters, and whether it held.

    state ─► advance … advance ─► measure ─► advance … advance ─► measure ─► Trajectory

Divergence is data: nothing is raised, values that are not finite stay as they are, and the first
recorded step where one appeared is named.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Int, Shaped

from theorylab.answers import Answer
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.typing import Axes, Params

Measure = Callable[[Params], Any]  # params ─► a pytree of arrays
Steps = Sequence[int | np.integer] | Int[np.ndarray, " t"] | Int[Array, " t"]


class Trajectory(Answer, axes=("step",)):
    """A run as it was recorded; under `vmap` every field gets the axis of the seeds in front.

    Args:
        steps: The recorded steps (times, for a flow).
        records: What `measure` gave, with the recorded steps as the leading axis.
        params: The parameters at the last recorded step.
        diverged: Whether a measurement or a parameter stopped being finite.
        diverged_at: The first recorded step (or time) where it was so; -1 if it never was.

    Example:
        >>> from theorylab.training import descend, gradient_descent
        >>> square = lambda w: w**2
        >>> run = descend(square, jnp.array(1.0), gradient_descent(0.25), [0, 2], square)
        >>> run.steps.tolist(), float(run.params), bool(run.diverged)
        ([0, 2], 0.25, False)
    """

    steps: Shaped[Array, " t"]
    records: Any
    params: Params
    diverged: Bool[Array, ""]
    diverged_at: Shaped[Array, ""]

    def draw(self, axes: Axes) -> None:
        """Every record that is a number at each step, or a few numbers, over the steps."""
        from theorylab.answers.entries import leaves
        from theorylab.answers.figure import curve

        if self.steps.ndim != 1:
            raise ValueError(
                "a trajectory must be one run to be drawn, got a batch of shape "
                f"{self.steps.shape[:-1]}: jax.tree.map(lambda leaf: leaf[0], trajectory).plot()"
            )
        drawn = False
        for name, values in leaves({"record": self.records}).items():
            if values.ndim in (1, 2):
                curve(axes, self.steps, values, label=name.removeprefix("record."))
                drawn = True
        if not drawn:
            raise ValueError("records must have one or two axes to be drawn, and none has.")
        axes.set_xlabel("step")
        axes.set_ylabel("record")
        axes.legend(fontsize=7)


def every(num_steps: int, total: int) -> Int[np.ndarray, " t"]:
    """Record at 0, num_steps, 2 num_steps, … and at the last step.

    Example:
        >>> every(4, total=10)
        array([ 0,  4,  8, 10])
    """
    if num_steps < 1 or total < 0:
        raise ValueError(f"every needs num_steps >= 1 and total >= 0, got {num_steps} and {total}.")
    return np.unique(np.append(np.arange(0, total, num_steps), total))


def logarithmic(total: int, count: int) -> Int[np.ndarray, " t"]:
    """Record at 0, then at about `count` steps from 1 to `total` in geometric progression.

    Example:
        >>> logarithmic(1000, count=4)
        array([   0,    1,   10,  100, 1000])
    """
    if total < 1 or count < 2:
        raise ValueError(f"logarithmic needs total >= 1 and count >= 2, got {total} and {count}.")
    return np.unique(np.append(0, np.geomspace(1, total, count).round().astype(int)))


def checked_steps(steps: Steps) -> Int[np.ndarray, " t"]:
    """Give the recorded steps as a NumPy array; raise unless they increase from 0 on.

    Example:
        >>> checked_steps([0, 5, 10])
        array([ 0,  5, 10])
    """
    if isinstance(steps, Tracer):
        raise ValueError(
            "steps must be known when the run is compiled: use NumPy, not a traced array."
        )
    array = np.asarray(steps)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"steps must be a non-empty list of integers, got {steps!r}.")
    if array[0] < 0 or np.any(np.diff(array) <= 0):
        raise ValueError(f"steps must be increasing and not negative, got {array.tolist()}.")
    return array


def run_and_record(
    advance: Callable[[Any, Int[Array, ""]], Any],
    state: Any,
    steps: Steps,
    measure: Measure,
    params_of: Callable[[Any], Params],
) -> Trajectory:
    """Advance the state step by step, in one compiled scan, and measure at the chosen steps.

    Args:
        advance: (state, step) ─► the state after that step; the first step is number 0.
        state: Where to begin.
        steps: The increasing numbers of steps after which to measure; the last ends the run.
        measure: What to record about the parameters.
        params_of: The parameters in a state.

    Example:
        >>> same = lambda w: w
        >>> run = run_and_record(lambda w, step: 2 * w, jnp.array(1.0), [0, 1, 3], same, same)
        >>> run.records.tolist()
        [1.0, 2.0, 8.0]
    """
    chosen = checked_steps(steps)
    ends = jnp.asarray(chosen)
    begins = jnp.asarray(np.append(0, chosen[:-1]), ends.dtype)

    def stretch(state: Any, bounds: tuple[Array, Array]) -> tuple[Any, Any]:
        state = jax.lax.fori_loop(*bounds, lambda step, state: advance(state, step), state)
        measured = measure(params_of(state))
        return state, (measured, all_finite((params_of(state), measured)))

    run = fast_convolutions(partial(jax.lax.scan, stretch))
    state, (records, finite) = run(state, (begins, ends))
    return Trajectory(ends, records, params_of(state), ~finite.all(), first_failure(ends, finite))


def all_finite(tree: Any) -> Bool[Array, ""]:
    """Whether every number in a pytree is finite.

    Example:
        >>> bool(all_finite({"weight": jnp.ones(2), "bias": jnp.array(jnp.nan)}))
        False
    """
    return jnp.array([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()


def first_failure(steps: Shaped[Array, " t"], finite: Bool[Array, " t"]) -> Shaped[Array, ""]:
    """The first step that is not finite, or -1.

    Example:
        >>> int(first_failure(jnp.array([0, 10, 20]), jnp.array([True, False, False])))
        10
    """
    return jnp.where(finite.all(), -1, steps[jnp.argmin(finite)])
