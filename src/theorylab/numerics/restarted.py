"""Lanczos with thick restarts, outside of vectors that were found already.

    A′ = (1 − LLᵀ) A (1 − LLᵀ),        A′W = WT + β w e_Mᵀ

A step applies A to the last vector w, takes out what lies along L and along W, and appends the
rest. What lies along L, C = Lᵀ A W, is kept: with it the projection of A on both is known,

    [L W]ᵀ A [L W] = [Θ C; Cᵀ T]

When the basis is full it is replaced by its foremost Ritz vectors and the last vector (thick
restart); T is then diagonal, with an arrow of residuals. Small vectors are orthogonalised against
all others at every step, a second time where much was taken out of them. Large ones only against L
and the last two, until what rounding has left along the others may have grown to √ε; then it is
taken out of two of them, one after the other (`drift`). T stays the projection to ε ‖A‖.

Source: Wu & Simon (2000), Thick-restart Lanczos method for large symmetric eigenvalue problems;
Simon (1984), The Lanczos algorithm with partial reorthogonalization.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.typing import Scalar

from .counted import CountedOperator
from .drift import Drift
from .exclusion import Krylov
from .rows import Rows, recombined

_AGAIN = 0.7  # if less than this is left of a vector, it is orthogonalised once more
_PASSES = 3
_CLOSED = 16  # units of the last place of ‖A‖ that are no new direction
_LARGE = 2**19  # entries of a vector, whose orthogonalisation takes the time of a product


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
        self.drift = Drift(operator.epsilon, always=operator.size < _LARGE)

    def step(self) -> None:
        """Apply A once; the run has ended if nothing new is left to go on with."""
        if self.ended:
            return
        count = len(self.basis)
        image = self.operator(self.last)
        self.basis.append(self.last)
        self.norm = max(self.norm, float(jnp.linalg.norm(image)))
        row = np.zeros(count + 1)
        if len(self.kept) == count:  # the arrow's corner, or the first step of all
            row[:count] = self.kept
        elif count:
            row[count - 1] = self.length
        rest, along, row[count], length = self._split(image, row)
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
        self.drift.restart(len(order))

    def krylov(self) -> Krylov:
        """What the space rules out, by `exclusion`."""
        values, vectors = np.linalg.eigh(self.matrix)
        residuals = np.abs(max(self.length, self._floor) * vectors[-1])
        order = slice(None, None, -1)
        dropped = np.array(self.dropped)
        return Krylov(values[order], residuals[order], dropped, self.log_norms, self.steps)

    def _split(self, image: Array, row: np.ndarray) -> tuple[Array, np.ndarray, float, float]:
        """What is outside, its coordinates along L, the one along w, and its length."""
        # First what three terms say, so that the sums over all vectors are left with little.
        rest, own, before = _three_terms(image, self.last, self.previous, self.length)
        along, own, length = np.zeros(len(self.locked)), float(own), float(before)
        everywhere = self.drift.is_due(self.matrix, row, own, length, self.norm)
        for _ in range(_PASSES):
            rest, more = self.locked.remove(rest)
            along += more
            if everywhere:
                rest, more = self.basis.remove(rest)
                own += float(more[-1])
            length, before = float(jnp.linalg.norm(rest)), length
            if length > _AGAIN * before:
                break
            everywhere = True  # what is left is small, and rounding is large beside it
        self.drift.follow(everywhere)
        return rest, along, own, length

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
    # A sum of p terms of one sign is off by more than ε: what is left of both is taken out again.
    more = jnp.vdot(last, rest)
    rest = rest - more * last - jnp.vdot(previous, rest) * previous
    return rest, own + more, jnp.linalg.norm(rest)
