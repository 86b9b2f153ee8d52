"""Losses and targets as people have them: class numbers, one-hot rows, values; "cross_entropy".

    "cross_entropy"   mean over samples; y: class numbers (n,), or probabilities (n, k)
    "mse"             mean over samples and outputs; y: values (n, k), (n,), or class numbers (n,)
    "logistic"        mean over samples; y: ±1, 0 and 1, or False and True

Any `Loss` of `theorylab.training` is taken as it is, with its own normalisation: learning rates
mean nothing without it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.training import Loss, cross_entropy, logistic, squared

_BY_NAME = {
    "cross_entropy": cross_entropy("mean"),
    "mse": squared("mean_entries"),
    "logistic": logistic("mean"),
}


def loss_of(given: Any) -> Loss:
    """The loss that is meant by a word, or the loss itself.

    Example:
        >>> loss_of("mse")
        Loss(kind='squared', normalization='mean_entries')
    """
    if isinstance(given, Loss):
        return given
    if isinstance(given, str) and given in _BY_NAME:
        return _BY_NAME[given]
    raise ValueError(
        f"loss must be one of {', '.join(_BY_NAME)}, or a Loss such as"
        f' theorylab.training.squared("half_mean"), got {given!r}.'
    )


def targets_of(
    y: Any, loss: Loss, num_samples: int, num_outputs: int, name: str = "y"
) -> Float[Array, "n k"]:
    """Targets (n, k) as the loss takes them; class numbers become one-hot rows, or ±1.

    Args:
        y: Class numbers (n,), values (n,) or (n, k), or probabilities (n, k).
        loss: The loss that compares them with the outputs.
        num_samples: The number n of inputs.
        num_outputs: The number k of outputs.
        name: What errors call them.

    Example:
        >>> targets_of([0, 2], cross_entropy("mean"), 2, 3).tolist()
        [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    values = _entries(y, name)
    if values.ndim not in (1, 2) or len(values) != num_samples:
        raise ValueError(
            f"{name} must have a target for each of the {num_samples} inputs, of shape (n,) or"
            f" (n, k), got shape {values.shape}."
        )
    if values.dtype.kind not in "fiub" or not np.isfinite(values.astype(np.float64)).all():
        numbers = values.dtype.kind in "fiub"
        got = "NaN or infinity" if numbers else f"an array of {values.dtype}"
        raise ValueError(f"{name} must hold finite real numbers, got {got}.")
    if loss.kind in ("logistic", "exponential", "hinge"):
        return _signs(values, num_outputs, name)
    classes = values.ndim == 1 and values.dtype.kind in "iub" and num_outputs > 1
    if classes:
        return _one_hot(values, num_outputs, name)
    if loss.kind == "cross_entropy" and values.ndim == 1:
        raise ValueError(
            f"{name} must be class numbers or rows of {num_outputs} probabilities for"
            f" cross_entropy, got {values.dtype} of shape {values.shape}."
        )
    rows = values[:, None] if values.ndim == 1 else values
    if rows.shape[1] != num_outputs:
        raise ValueError(
            f"{name} must have {num_outputs} columns, one an output, got {rows.shape[1]}."
        )
    if loss.kind == "cross_entropy" and not _are_probabilities(rows):
        raise ValueError(f"{name} must have rows that sum to 1 for cross_entropy, got others.")
    return jnp.asarray(rows, jnp.result_type(float))


def _entries(y: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(y)
    except Exception as error:  # rows of several lengths, a tensor on another device
        told = " ".join(str(error).split())[:200]
        got = f"a {type(y).__name__} that is none: {told}"
        raise ValueError(f"{name} must be an array of numbers, got {got}") from error


def _one_hot(classes: np.ndarray, num_outputs: int, name: str) -> Array:
    if classes.min() < 0 or classes.max() >= num_outputs:
        raise ValueError(
            f"{name} must hold class numbers from 0 to {num_outputs - 1}, as there are"
            f" {num_outputs} outputs, got {classes.min()} to {classes.max()}."
        )
    return jax.nn.one_hot(classes, num_outputs)


def _signs(values: np.ndarray, num_outputs: int, name: str) -> Array:
    rows = values[:, None] if values.ndim == 1 else values
    found = set(np.unique(rows).tolist())
    if rows.shape[1] != num_outputs or not (found <= {0, 1} or found <= {-1, 1}):
        raise ValueError(
            f"{name} must hold ±1, or 0 and 1, for each of {num_outputs} outputs, got shape"
            f" {values.shape} with values such as {sorted(found)[:4]}."
        )
    signs = np.where(rows == 1, 1.0, -1.0)
    return jnp.asarray(signs, jnp.result_type(float))


def _are_probabilities(rows: np.ndarray) -> bool:
    return bool((rows >= 0).all() and np.allclose(rows.sum(axis=1), 1, atol=1e-3))
