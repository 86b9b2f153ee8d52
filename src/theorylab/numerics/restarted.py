"""Lanczos with thick restarts, outside of vectors that were found already.

    A′ = (1 − LLᵀ) A (1 − LLᵀ),        A′W = WT + β w e_Mᵀ

A step applies A to the last vector w, takes out what lies along L and along W, and appends the
rest. What lies along L, C = Lᵀ A W, is kept: with it the projection of A on both is known,

    [L W]ᵀ A [L W] = [Θ C; Cᵀ T]

When the basis is full it is replaced by its foremost Ritz vectors and the last vector (thick
restart); T is then diagonal, with an arrow of residuals. Every vector is orthogonalised against all
others, a second time where much was taken out of it.

Source: Wu & Simon (2000), Thick-restart Lanczos method for large symmetric eigenvalue problems.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.typing import Scalar

from .counted import CountedOperator
from .exclusion import Krylov
from .rows import Rows, recombined

_AGAIN = 0.7  # if less than this is left of a vector, it is orthogonalised once more
_PASSES = 3
_CLOSED = 16  # units of the last place of ‖A‖ that are no new direction


class Run:
    """One Krylov space, that grows step by step.

    Example:
        >>> operator = CountedOperator(lambda v: jnp.array([3.0, 1.0]) * v, 2)
        >>> run = Run(operator, Rows(2, operator.dtype), jnp.ones(2), capacity=2, norm=0.0)
        >>> run.step(), run.step(), run.ended
        (None, None, True)
        >>> run.krylov().values.round(4).tolist()
        [3.0, 1.0]
    """

    def __init__(
        self,
        operator: CountedOperator,
        locked: Rows,
        start: Float[Array, " p"],
        capacity: int,
        norm: float,
    ) -> None:
        self.operator, self.locked, self.capacity = operator, locked, capacity
        self.norm = norm  # the greatest length of an image of a unit vector
        self.basis = Rows(operator.size, operator.dtype)
        self.matrix = np.zeros((0, 0))
        self.coupling = np.zeros((len(locked), 0))
        self.last, self.length = self._outside(start), 0.0
        self.previous = jnp.zeros_like(self.last)
        self.kept = np.zeros(0)  # the arrow, after a restart
        self.dropped: list[float] = []
        self.log_norms, self.steps, self.ended = 0.0, 0, False

    def step(self) -> None:
        """Apply A once; the run has ended if nothing new is left to go on with."""
        if self.ended:
            return
        count = len(self.basis)
        image = self.operator(self.last)
        self.basis.append(self.last)
        self.norm = max(self.norm, float(jnp.linalg.norm(image)))
        rest, along, inside, length = self._split(image)
        row = np.zeros(count + 1)
        if len(self.kept) == count:  # the arrow's corner, or the first step of all
            row[:count] = self.kept
        elif count:
            row[count - 1] = self.length
        row[count] = inside[count]
        self.matrix = np.pad(self.matrix, (0, 1))
        self.matrix[count, :], self.matrix[:, count] = row, row
        self.coupling = np.column_stack([self.coupling, along])
        self.length, self.steps = length, self.steps + 1
        closed = length <= _CLOSED * self.operator.epsilon * self.norm
        # What rounding leaves has no direction of its own: four deviations of 1/√p.
        share = min(1.0, 4 / math.sqrt(self.operator.size)) if closed else 1.0
        self.log_norms += math.log(max(share * max(length, self._floor), 1e-300))
        self.ended = closed or self.whole
        if not self.ended:
            self.previous, self.last = self.last, rest / length

    @property
    def _floor(self) -> float:
        """What rounding may have put into an image."""
        return 4 * self.operator.epsilon * self.norm

    @property
    def whole(self) -> bool:
        """Whether nothing is left outside."""
        return len(self.locked) + len(self.basis) >= self.operator.size

    @property
    def full(self) -> bool:
        """Whether the basis has to be restarted before the next step."""
        return len(self.basis) >= self.capacity

    def restart(self, order: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> None:
        """Keep the Ritz vectors of these numbers, of T's values and its vectors in columns."""
        chosen = vectors[:, order]
        others = np.setdiff1d(np.arange(len(values)), order)
        self.kept = self.length * chosen[-1]
        self.dropped += values[others].tolist()
        self.basis = recombined(chosen.T, [self.basis])
        self.matrix = np.diag(values[order])
        self.previous = jnp.zeros_like(self.last)
        self.coupling = self.coupling @ chosen

    def krylov(self) -> Krylov:
        """What the space rules out, by `exclusion`."""
        values, vectors = np.linalg.eigh(self.matrix)
        residuals = np.abs(max(self.length, self._floor) * vectors[-1])
        order = slice(None, None, -1)
        dropped = np.array(self.dropped)
        return Krylov(values[order], residuals[order], dropped, self.log_norms, self.steps)

    def _split(self, image: Array) -> tuple[Array, np.ndarray, np.ndarray, float]:
        """What is outside, its coordinates along L and along W, and its length."""
        # First what three terms say, so that the sums over all vectors are left with little.
        rest, own, before = _three_terms(image, self.last, self.previous, self.length)
        along, inside = np.zeros(len(self.locked)), np.zeros(len(self.basis))
        inside[-1] = float(own)
        length = float(before)
        for _ in range(_PASSES):
            rest, more = self.locked.remove(rest)
            along += more
            rest, more = self.basis.remove(rest)
            inside += more
            length, before = float(jnp.linalg.norm(rest)), length
            if length > _AGAIN * before:
                break
        return rest, along, inside, length

    def _outside(self, start: Array) -> Array:
        """The unit vector along a start, outside of what is locked."""
        for _ in range(2):
            start, _ = self.locked.remove(start)
            start = start / jnp.linalg.norm(start)
        return start


@jax.jit
def _three_terms(
    image: Array, last: Array, previous: Array, length: Scalar
) -> tuple[Array, Array, Array]:
    """Aw − αw − βw′, with α = wᵀAw; α; and the length of what is left."""
    own = jnp.vdot(last, image)
    rest = image - own * last - length * previous
    return rest, own, jnp.linalg.norm(rest)
