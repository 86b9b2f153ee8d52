"""Where runs of the quadratic model's map begin."""

import jax.numpy as jnp

from theorylab.dynamics.quadratic import plane
from theorylab.dynamics.quadratic.plane import PlaneProblem, PlaneState, ReducedState
from theorylab.typing import Scalar

TARGET, FIRST_OUTPUT = 1.0, 0.7  # y, and the first g


def reduced_start(ratio: Scalar, width: Scalar) -> ReducedState:
    """The first (u, v, w) with λ₀ = 1 and ‖x‖² = d.

    Args:
        ratio: ηλ₀.
        width: The width m.

    Example:
        >>> float(reduced_start(3.0, width=100.0).curvature)
        3.0
    """
    problem = PlaneProblem(TARGET, ratio, 1 / width)
    return plane.reduce(PlaneState(jnp.asarray(FIRST_OUTPUT), jnp.asarray(1.0)), problem)
