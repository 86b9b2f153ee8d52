"""A kernel matrix taken apart into modes: K = Σⱼ λⱼ vⱼvⱼᵀ, checked once and used for all times.

Every prediction of training with the squared loss acts on each mode by itself, so one
eigendecomposition serves all times, targets and methods. No inverse is ever formed.

Source: golikov · kernel-flow · 2.4–2.11; arora · ntk-dynamics · 9.5–9.6.
"""

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Shaped

from theorylab.answers import Answer
from theorylab.typing import Scalar


class Modes(Answer, labels={"eigenvalues": "eigenvalue λ"}, axes=("mode",)):
    """The modes of a kernel matrix.

    Args:
        eigenvalues: λⱼ, rising, none below 0.
        eigenvectors: vⱼ, the columns.

    Example: the kernel is Σⱼ λⱼ vⱼvⱼᵀ.
        >>> kernel = jnp.array([[2.0, 1.0], [1.0, 2.0]])
        >>> values, vectors = kernel_modes(kernel)
        >>> bool(jnp.allclose((values[None, :] * vectors) @ vectors.T, kernel))
        True
    """

    eigenvalues: Float[Array, " n"]
    eigenvectors: Float[Array, "n n"]


def kernel_modes(kernel: Float[Array, "n n"]) -> Modes:
    """Take a kernel matrix apart, after a check that it is one.

    Eigenvalues below 0 by rounding, −λ ≤ 10 n ε λ_max, become 0; worse ones are refused.

    Args:
        kernel: K(X, X), symmetric and positive semi-definite; one's own serves as well as those of
            a network. Of `ntk_full`, with k outputs, give the nk × nk matrix and targets (nk, 1).

    Example:
        >>> kernel_modes(jnp.array([[2.0, 1.0], [1.0, 2.0]])).eigenvalues.round(6).tolist()
        [1.0, 3.0]
    """
    check_kernel(kernel)
    eigenvalues, eigenvectors = jnp.linalg.eigh(kernel)
    if not isinstance(eigenvalues, Tracer):
        lowest, highest = float(eigenvalues[0]), float(eigenvalues[-1])
        if lowest < -10 * rounding(eigenvalues):
            raise ValueError(
                "kernel must be positive semi-definite, got eigenvalues from "
                f"{lowest:.3g} to {highest:.3g}."
            )
    return Modes(jnp.maximum(eigenvalues, 0), eigenvectors)


def as_modes(kernel: Array | Modes) -> Modes:
    """The modes of a kernel, unless it is given by them.

    Example:
        >>> as_modes(2 * jnp.eye(2)).eigenvalues.tolist()
        [2.0, 2.0]
    """
    return kernel if isinstance(kernel, Modes) else kernel_modes(kernel)


def rounding(eigenvalues: Float[Array, " n"]) -> Float[Array, ""]:
    """The size n ε λ_max below which an eigenvalue is not told from 0.

    Example: n ε λ_max of two eigenvalues, in units of ε.
        >>> eigenvalues = jnp.array([1.0, 4.0])
        >>> float(rounding(eigenvalues) / jnp.finfo(eigenvalues.dtype).eps)
        8.0
    """
    return len(eigenvalues) * jnp.finfo(eigenvalues.dtype).eps * jnp.abs(eigenvalues).max()


def check_kernel(kernel: Shaped[Array, "..."], name: str = "kernel") -> None:
    """Raise unless a matrix is square, finite and, to rounding, symmetric.

    Example:
        >>> check_kernel(jnp.ones((2, 3)))
        Traceback (most recent call last):
        ...
        ValueError: kernel must be a square matrix, got shape (2, 3).
    """
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1] or kernel.shape[0] < 1:
        raise ValueError(f"{name} must be a square matrix, got shape {kernel.shape}.")
    if isinstance(kernel, Tracer):
        return  # inside a compiled program the values are not there to look at
    values = np.asarray(kernel)
    check_finite(name, kernel)
    asymmetry, size = np.abs(values - values.T).max(), np.abs(values).max()
    if asymmetry > np.sqrt(np.finfo(values.dtype).eps) * size:
        raise ValueError(
            f"{name} must be symmetric, got entries that differ from their mirror image by "
            f"{asymmetry:.3g}, where the largest is {size:.3g}."
        )


def check_finite(name: str, values: Shaped[Array, "..."]) -> None:
    """Raise if a value is NaN or infinite, where it is there to look at.

    Example:
        >>> check_finite("targets", jnp.array([1.0, jnp.nan]))
        Traceback (most recent call last):
        ...
        ValueError: targets must be finite, got NaN or infinity.
    """
    if not isinstance(values, Tracer) and not np.isfinite(np.asarray(values)).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity.")


def check_rows(name: str, values: Shaped[Array, "..."], num_rows: int) -> None:
    """Raise unless values have the shape (num_rows, k) and are finite.

    Example:
        >>> check_rows("targets", jnp.ones(3), num_rows=3)
        Traceback (most recent call last):
        ...
        ValueError: targets must have shape (3, k), got (3,).
    """
    if values.ndim != 2 or values.shape[0] != num_rows:
        raise ValueError(f"{name} must have shape ({num_rows}, k), got {values.shape}.")
    check_finite(name, values)


def check_cross(cross: Shaped[Array, "..."], num_samples: int) -> None:
    """Raise unless K(x, X) has a column for each training point and is finite.

    Example:
        >>> check_cross(jnp.ones((1, 2)), num_samples=2)  # one test point, two training points
    """
    if cross.ndim != 2 or cross.shape[1] != num_samples:
        raise ValueError(
            f"cross must have shape (m, {num_samples}): a row for each test point, a column for "
            f"each training point; got {cross.shape}."
        )
    check_finite("cross", cross)


def check_not_negative(name: str, value: Scalar) -> None:
    """Raise unless a number is at least 0 and finite; a traced one has no value yet.

    Example:
        >>> check_not_negative("ridge", -1.0)
        Traceback (most recent call last):
        ...
        ValueError: ridge must be at least 0, got -1.0.
    """
    if not isinstance(value, Tracer) and not 0 <= np.asarray(value) < np.inf:
        raise ValueError(f"{name} must be at least 0, got {value}.")
