"""The alphabet of shapes and roles that every room shares.

Shapes: n samples, d inputs, k outputs, p parameters, t recorded steps.
"""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float, Key

Scalar = float | int | Float[Array, ""]
RandomKey = Key[Array, ""]
Params = Any  # a pytree of arrays
Apply = Callable[[Params, Array], Array]  # a network: (params, inputs) ─► outputs
