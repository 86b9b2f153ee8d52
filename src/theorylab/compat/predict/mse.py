"""Gradient descent on half the mean square over all entries, at any time, in closed form.

    L = ½ mean (f − y)²     df/dt = −η/size K (f − y)     size: of y, samples times outputs

so that time t here is tη/size of `kernels.predicted_outputs`. `diag_reg` is a part of the kernel,
in what is fitted and in what is predicted.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.kernels import fitted_outputs, predicted_outputs
from theorylab.kernels.prediction import kernel_modes
from theorylab.kernels.prediction.steps import largest_learning_rate
from theorylab.training import squared
from theorylab.typing import Scalar

from .layout import Axes, Layout, as_matrix, regularised, row_axes


def gradient_descent_mse(
    k_train_train: Float[Array, "..."],
    y_train: Float[Array, "..."],
    learning_rate: Scalar = 1.0,
    diag_reg: Scalar = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: Axes = (-1,),
) -> Callable[..., Any]:
    """Predict outputs after training with a kernel that stays.

    Args:
        k_train_train: The kernel of the training samples, pairs of axes interleaved.
        y_train: Their targets.
        learning_rate: η.
        diag_reg: What is added to the kernel's diagonal.
        diag_reg_absolute_scale: Whether in its own unit, not the mean of the diagonal.
        trace_axes: The axes of outputs that the kernel does not have.

    Returns:
        (t, fx_train_0, fx_test_0, k_test_train) ─► outputs of the training samples, of the test
        samples, or of both; t has any shape, and None stands for ∞.

    Example: half of the way is left after t = 2 log 2.
        >>> predict_fn = gradient_descent_mse(jnp.eye(2), jnp.ones((2, 1)))
        >>> predict_fn(2 * jnp.log(2.0)).round(4).tolist()
        [[0.5], [0.5]]
    """
    layout = Layout.of(y_train, trace_axes)
    kernel = regularised(as_matrix(k_train_train), diag_reg, diag_reg_absolute_scale)
    modes, targets = kernel_modes(kernel), layout.rows(jnp.asarray(y_train, kernel.dtype))

    def predict_fn(
        t: Any = None,
        fx_train_0: Any = 0.0,
        fx_test_0: Any = None,
        k_test_train: Float[Array, "..."] | None = None,
    ) -> Any:
        check_start(fx_train_0, fx_test_0, k_test_train)
        t = jnp.asarray(jnp.inf if t is None else t, kernel.dtype)
        times = t.reshape(-1) * (learning_rate / layout.size)
        start = _start(fx_train_0, layout.shape, layout, kernel.dtype)
        found = []
        if fx_train_0 is not None:
            fitted = fitted_outputs(modes, targets, times, start=start)
            found.append(layout.outputs(fitted, row_axes(k_train_train)))
        if fx_test_0 is not None and k_test_train is not None:
            there = _start(fx_test_0, layout.output_shape(k_test_train), layout, kernel.dtype)
            cross = as_matrix(k_test_train)
            predicted = predicted_outputs(
                modes, cross, targets, times, start=start, test_start=there
            )
            found.append(layout.outputs(predicted, row_axes(k_test_train)))
        shaped = tuple(outputs.reshape(*t.shape, *outputs.shape[1:]) for outputs in found)
        return shaped[0] if len(shaped) == 1 else shaped

    return predict_fn


def _start(outputs: Any, shape: tuple[int, ...], layout: Layout, dtype: Any) -> Array:
    """Outputs before training, of which a number stands for all, as a matrix."""
    full = jnp.broadcast_to(0.0 if outputs is None else outputs, shape)
    return layout.rows(full.astype(dtype))


def check_start(fx_train_0: Any, fx_test_0: Any, k_test_train: Array | None) -> None:
    """Raise unless something is asked for, and can be said.

    Example:
        >>> check_start(None, None, None)
        Traceback (most recent call last):
        ...
        ValueError: fx_train_0 or fx_test_0 must be given, got None twice.
    """
    if fx_train_0 is None and fx_test_0 is None:
        raise ValueError("fx_train_0 or fx_test_0 must be given, got None twice.")
    if fx_test_0 is not None and k_test_train is None:
        raise ValueError("k_test_train must be given for outputs of test samples, got None.")


def max_learning_rate(
    ntk_train_train: Float[Array, "..."],
    y_train_size: int | None = None,
    momentum: float | int = 0.0,
    eps: Scalar = 1e-12,
) -> Float[Array, ""]:
    """The learning rate above which training on half the mean square diverges.

    2 (1 + β) size/(λ_max + ε), for size entries of the targets.

    Args:
        ntk_train_train: The tangent kernel of the training samples.
        y_train_size: Samples times outputs; the rows of the kernel if not given.
        momentum: β.
        eps: ε, for kernels that are 0.

    Example:
        >>> float(max_learning_rate(4 * jnp.eye(2)).round(6))
        1.0
    """
    kernel = as_matrix(ntk_train_train)
    size = len(kernel) if y_train_size is None else y_train_size
    shifted = kernel + eps * jnp.eye(len(kernel), dtype=kernel.dtype)
    rate = largest_learning_rate(shifted, squared("half_mean_entries"), momentum=momentum)
    return rate * (size / len(kernel))
