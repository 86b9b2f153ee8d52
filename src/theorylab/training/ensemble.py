"""Many seeds, one program."""

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Key


def ensemble(run: Callable[[Any], Any], keys: Key[Array, " seeds"], at_once: int | None = None) -> Any:
    """Run every seed in one compiled program."""
    return jax.jit(lambda keys: jax.lax.map(run, keys, batch_size=at_once))(keys)
