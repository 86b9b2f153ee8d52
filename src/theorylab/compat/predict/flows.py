"""Gradient descent on any loss of the outputs, with a kernel that stays: an ODE.

df/dτ = −K ∂L/∂f                                          τ = η t
df/dτ = q,   dq/dτ = −K ∂L/∂f − (1 − β)/√η q             τ = √η t, with momentum β
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.training import Solver, flow
from theorylab.typing import Scalar

from .layout import Axes, Layout, as_matrix, row_axes
from .mse import check_start


class ODEState(Answer):
    """Outputs and, with momentum, their velocities.

    Args:
        fx_train: Outputs of the training samples.
        fx_test: Outputs of the test samples.
        qx_train: Velocities of the former.
        qx_test: Velocities of the latter.

    Example:
        >>> ODEState(fx_train=jnp.zeros((2, 1))).qx_train is None
        True
    """

    fx_train: Any = None
    fx_test: Any = None
    qx_train: Any = None
    qx_test: Any = None


def gradient_descent(
    loss: Callable[[Array, Array], Float[Array, ""]],
    k_train_train: Float[Array, "..."],
    y_train: Float[Array, "..."],
    learning_rate: Scalar = 1.0,
    momentum: Scalar | None = None,
    trace_axes: Axes = (-1,),
) -> Callable[..., Any]:
    """Predict outputs after training on any loss.

    Args:
        loss: (outputs, targets) ─► number.
        k_train_train: The kernel of the training samples, pairs of axes interleaved.
        y_train: Their targets.
        learning_rate: η.
        momentum: β of the heavy ball; None: plain gradient descent.
        trace_axes: The axes of outputs that the kernel does not have.

    Returns:
        (t, fx_train_or_state_0, fx_test_0, k_test_train) ─► outputs, or an `ODEState` if it began
        with one; t rises and is finite.

    Example: df/dt = −f.
        >>> def loss(f, y):
        ...     return 0.5 * jnp.sum((f - y) ** 2)
        >>> predict_fn = gradient_descent(loss, jnp.eye(1), jnp.zeros((1, 1)))
        >>> round(float(predict_fn(1.0, jnp.ones((1, 1)))[0, 0]), 4)
        0.3679
    """
    layout = Layout.of(y_train, trace_axes)
    speed = learning_rate if momentum is None else learning_rate**0.5
    friction = None if momentum is None else (1 - momentum) / speed

    def force(fx: Array) -> Float[Array, "rows columns"]:
        return -layout.rows(jax.grad(loss)(fx, y_train))

    def predict_fn(
        t: Any = None,
        fx_train_or_state_0: Any = 0.0,
        fx_test_0: Any = None,
        k_test_train: Float[Array, "..."] | None = None,
    ) -> Any:
        given = fx_train_or_state_0
        whole = isinstance(given, ODEState)
        state = given if whole else ODEState(fx_train=given, fx_test=fx_test_0)
        check_start(state.fx_train, state.fx_test, k_test_train)
        dtype = k_train_train.dtype
        start = _begun(state, layout, k_test_train, dtype, friction is not None)
        velocity = _velocity(force, layout, k_train_train, k_test_train, friction)
        found = _followed(velocity, start, t, speed)
        if whole:
            return found
        both = ((found.fx_train, given), (found.fx_test, fx_test_0))
        outputs = [each for each, asked in both if asked is not None]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return predict_fn


def _velocity(
    force: Callable[[Array], Array],
    layout: Layout,
    k_train_train: Float[Array, "..."],
    k_test_train: Float[Array, "..."] | None,
    friction: Scalar | None,
) -> Callable[[ODEState], ODEState]:
    """What outputs, and their velocities, move by."""

    def moved(kernel: Array, pushed: Array) -> Array:
        return layout.outputs((as_matrix(kernel) @ pushed)[None], row_axes(kernel))[0]

    def velocity(now: ODEState) -> ODEState:
        pushed = force(now.fx_train)
        train, test = moved(k_train_train, pushed), None
        if now.fx_test is not None and k_test_train is not None:
            test = moved(k_test_train, pushed)
        if friction is None:
            return ODEState(train, test)
        train = train - friction * now.qx_train
        test = None if test is None else test - friction * now.qx_test
        return ODEState(now.qx_train, now.qx_test, train, test)

    return velocity


def _begun(
    state: ODEState, layout: Layout, k_test_train: Any, dtype: Any, with_momentum: bool
) -> ODEState:
    """The whole state at the start."""
    if not with_momentum and (state.qx_train is not None or state.qx_test is not None):
        raise ValueError("momentum must be given if the state has velocities, got None.")

    def full(value: Any, shape: tuple[int, ...]) -> Array:
        return jnp.broadcast_to(0.0 if value is None else value, shape).astype(dtype)

    train, test = layout.shape, layout.output_shape(k_test_train)
    has_test = state.fx_test is not None
    return ODEState(
        fx_train=full(state.fx_train, train),
        fx_test=full(state.fx_test, test) if has_test else None,
        qx_train=full(state.qx_train, train) if with_momentum else None,
        qx_test=full(state.qx_test, test) if with_momentum and has_test else None,
    )


def _followed(velocity: Callable, start: ODEState, t: Any, speed: Scalar) -> ODEState:
    times = np.asarray(np.inf if t is None else t, float)
    if not np.isfinite(times).all():
        raise ValueError("t must be finite: a loss need not have a minimum; got None or infinity.")
    double = start.fx_train.dtype == jnp.float64
    solver = Solver("dopri8", rtol=1e-10, atol=1e-12) if double else Solver(rtol=1e-6)
    late = tuple((times.reshape(-1) * float(speed)).tolist())
    records = flow(velocity, start, late, lambda state: state, solver).records

    def shaped(each: Array) -> Array:
        return each.reshape(*times.shape, *each.shape[1:])

    return jax.tree.map(shaped, records)
