"""The two batches of inputs that a kernel compares, checked where the user enters."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float


def input_pair(
    x1: Float[Array, "n1 ..."], x2: Float[Array, "n2 ..."] | None
) -> tuple[Float[Array, "n1 ..."], Float[Array, "n2 ..."]]:
    """x1 and x2, or x1 twice; an error if they cannot be compared or hold NaN or infinity.

    Example:
        >>> import jax.numpy as jnp
        >>> x = jnp.ones((3, 2))
        >>> [inputs.shape for inputs in input_pair(x, None)]
        [(3, 2), (3, 2)]
    """
    second = x1 if x2 is None else x2
    for name, x in (("x1", x1), ("x2", second)):
        require_array(name, x)
        if x.ndim < 2 or x.shape[0] < 1:
            raise ValueError(f"{name} must have shape (n, ...) with n >= 1, got {x.shape}.")
    if x1.shape[1:] != second.shape[1:]:
        raise ValueError(
            f"x1 and x2 must hold inputs of one shape, got {x1.shape[1:]} and {second.shape[1:]}."
        )
    for name, x in (("x1", x1), ("x2", second)):
        # Inside a compiled program the values are not there to look at.
        if not isinstance(x, Tracer) and not np.isfinite(np.asarray(x)).all():
            raise ValueError(f"{name} must be finite, got NaN or infinity.")
    return x1, second


def require_array(name: str, x: Any) -> None:
    """Raise unless x is an array, of JAX or NumPy.

    Example:
        >>> require_array("x1", [[1.0, 2.0]])
        Traceback (most recent call last):
        ...
        TypeError: x1 must be an array, got a list; jnp.asarray(x1) makes one.
    """
    if not hasattr(x, "ndim") or not hasattr(x, "shape"):
        raise TypeError(
            f"{name} must be an array, got a {type(x).__name__}; jnp.asarray({name}) makes one."
        )
    if not any(jnp.issubdtype(x.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_)):
        raise TypeError(f"{name} must hold real numbers, got an array of {x.dtype}.")
