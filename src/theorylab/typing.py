"""The alphabet of shapes and roles that every room shares.

Shapes: n samples, d inputs, k outputs, p parameters, t recorded steps.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Float, Key

Scalar = float | int | Float[Array, ""]
RandomKey = Key[Array, ""]
Params = Any  # a pytree of arrays
Inputs = Any  # an array (n, ...), or a pytree of arrays that share their first axis, n
Apply = Callable[[Params, Inputs], Array]  # a network: (params, inputs) ─► outputs
Reduction = Callable[[Any], Array]  # of outputs of any shape to (n, k)


def check_key(key: Any) -> None:
    """Raise unless this is a random key.

    Example:
        >>> check_key(0)
        Traceback (most recent call last):
        ...
        TypeError: key must be a random key, such as jax.random.key(0), got 0.
    """
    kind, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    new = kind is not None and jax.numpy.issubdtype(kind, jax.dtypes.prng_key) and shape == ()
    if not (new or (kind == jax.numpy.uint32 and shape == (2,))):
        told = repr(key) if shape is None else f"an array of {kind} with shape {shape}"
        raise TypeError(f"key must be a random key, such as jax.random.key(0), got {told}.")


# What a `Result` holds: arrays of JAX when it is made, of NumPy when it is judged. Libraries that
# draw and tabulate are loaded when something is drawn or tabulated.
if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
    from pandas import DataFrame as DataFrame

    Measured = Any
else:
    Measured = jax.Array | np.ndarray
    Axes = Figure = DataFrame = Any
