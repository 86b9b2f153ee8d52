"""Thresholds by bisection: up to which learning rate does something hold?"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from theorylab.typing import Scalar


def threshold(
    holds: Callable[[Float[Array, ""]], Bool[Array, ""]],
    low: Scalar,
    high: Scalar,
    num_halvings: int,
) -> Float[Array, ""]:
    """Find where a statement that holds at `low` ceases to hold, to (high − low)/2^num_halvings.

    It is NaN if the statement held, or failed, at every point that was tried: then the threshold
    does not seem to be between the two.

    Args:
        holds: The statement, true below one point and false above it; traced once.
        low: A point where it holds.
        high: A point where it does not.
        num_halvings: How often the interval is halved.

    Example:
        >>> round(float(threshold(lambda x: x**2 < 2, 0.0, 2.0, 40)), 5)
        1.41421
    """
    if num_halvings < 1:
        raise ValueError(f"num_halvings must be at least 1, got {num_halvings}.")

    def halve(_, interval):
        below, above = interval
        middle = (below + above) / 2
        is_below = holds(middle)
        return jnp.where(is_below, middle, below), jnp.where(is_below, above, middle)

    start = (jnp.asarray(low, dtype=float), jnp.asarray(high, dtype=float))
    below, above = jax.lax.fori_loop(0, num_halvings, halve, start)
    inside = (below > start[0]) & (above < start[1])
    return jnp.where(inside, (below + above) / 2, jnp.nan)
