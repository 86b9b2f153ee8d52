"""Orthonormal vectors in blocks of rows: work is done on blocks that hold something.

    coordinates   c = Q v
    remainder     v − Qᵀc

Blocks have one shape, so that a basis may grow without compiling anything again.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

HEIGHT = 8  # rows of a block
_EXACT = jax.lax.Precision.HIGHEST  # no shortened products on accelerators


class Rows:
    """Vectors of one size that can be added to, taken out of others, and combined.

    Example:
        >>> rows = Rows(3, jnp.zeros(0).dtype)
        >>> rows.append(jnp.array([0.0, 1.0, 0.0]))
        >>> rest, inside = rows.remove(jnp.ones(3))
        >>> rest.tolist(), inside.tolist()
        ([1.0, 0.0, 1.0], [1.0])
    """

    def __init__(self, size: int, dtype: jnp.dtype) -> None:
        self.size, self.dtype = size, dtype
        self.blocks: list[Float[Array, "height p"]] = []
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def append(self, vector: Float[Array, " p"]) -> None:
        """Put one more vector at the end."""
        if self.count == HEIGHT * len(self.blocks):
            self.blocks.append(jnp.zeros((HEIGHT, self.size), self.dtype))
        self.blocks[-1] = _with_row(self.blocks[-1], self.count % HEIGHT, vector)
        self.count += 1

    def remove(self, vector: Float[Array, " p"]) -> tuple[Float[Array, " p"], np.ndarray]:
        """What is left of a vector outside the span, and its coordinates inside."""
        parts = []
        for block in self.blocks:
            vector, inside = _removed(block, vector)
            parts.append(inside)
        inside = np.concatenate([np.zeros(0), *map(np.asarray, parts)])
        return vector, inside[: self.count].astype(float)


def combined(coefficients: np.ndarray, bases: Sequence[Rows]) -> list[Float[Array, "height p"]]:
    """Blocks of the combinations Σⱼ cᵢⱼ qⱼ of the rows of several bases, for each row of c.

    Example:
        >>> rows = Rows(2, jnp.zeros(0).dtype)
        >>> rows.append(jnp.array([1.0, 2.0]))
        >>> combined(np.array([[3.0]]), [rows])[0][0].tolist()
        [3.0, 6.0]
    """
    size, dtype = bases[0].size, bases[0].dtype
    blocks = []
    for first in range(0, len(coefficients), HEIGHT):
        total = jnp.zeros((HEIGHT, size), dtype)
        place = 0
        for basis in bases:
            for index, block in enumerate(basis.blocks):
                filled = min(HEIGHT, len(basis) - HEIGHT * index)
                part = np.zeros((HEIGHT, HEIGHT))
                given = coefficients[first : first + HEIGHT, place : place + filled]
                part[: len(given), :filled] = given
                total = _added(total, jnp.asarray(part, dtype), block)
                place += filled
        blocks.append(total)
    return blocks


def recombined(coefficients: np.ndarray, bases: Sequence[Rows]) -> Rows:
    """The combinations as a basis of their own.

    Example:
        >>> rows = Rows(2, jnp.zeros(0).dtype)
        >>> rows.append(jnp.array([1.0, 2.0]))
        >>> len(recombined(np.array([[1.0]]), [rows]))
        1
    """
    made = Rows(bases[0].size, bases[0].dtype)
    made.blocks, made.count = combined(coefficients, bases), len(coefficients)
    return made


@partial(jax.jit, donate_argnums=0)
def _with_row(block: Array, index: Array, vector: Array) -> Array:
    return block.at[index].set(vector)


@jax.jit
def _removed(block: Array, vector: Array) -> tuple[Array, Array]:
    inside = jnp.matmul(block, vector, precision=_EXACT)
    # Written out, it is one pass over the block; as a product it is half as fast on CPUs.
    return vector - sum(c * row for c, row in zip(inside, block, strict=True)), inside


@partial(jax.jit, donate_argnums=0)
def _added(total: Array, coefficients: Array, block: Array) -> Array:
    return total + jnp.matmul(coefficients, block, precision=_EXACT)
