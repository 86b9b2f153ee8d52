"""How far Lanczos' vectors have drifted from being orthogonal, without looking at them.

With w₀, …, w_j made by A w_j = β′ w_{j+1} + α w_j + β w_{j−1} and orthogonal up to rounding, the
products ω_j(i) = w_iᵀ w_j follow the same recurrence, since A is symmetric (ω_j(j) = 1):

    β′ ω_{j+1}(i) = (T ω_j)(i) − α ω_j(i) − β ω_{j−1}(i) + rounding

which needs no vector at all. While all are below √ε, T is the projection of A on the space up to
ε ‖A‖. So it is enough to take out what is along earlier vectors when the estimate reaches √ε, of
two vectors, one after the other, because the recurrence looks back at two. After a restart T has an
arrow, and nothing else changes.

Source: Simon (1984), The Lanczos algorithm with partial reorthogonalization.
"""

import math

import numpy as np

_ROUNDING = 16  # units of the last place of ‖A‖ that a product with A may be off


class Drift:
    """The estimates ω of the last two vectors, and when they are too large.

    Args:
        epsilon: A unit of the last place.
        always: True: every vector is to be orthogonalised against all others.

    Example: two steps with a matrix that has α = 0 and β = 1.
        >>> drift = Drift(1e-16, always=False)
        >>> drift.is_due(np.zeros((0, 0)), np.zeros(1), 0.0, 1.0, norm=1.0)
        False
        >>> drift.follow(orthogonalised=False)
        >>> drift.now.tolist()
        [1.6e-15]
    """

    def __init__(self, epsilon: float, always: bool) -> None:
        self.epsilon, self.always = epsilon, always
        self.before, self.now = np.zeros(0), np.zeros(0)  # ω of w_{j−1} and of w_j
        self.noise = epsilon
        self.pending = 0  # vectors that are still to be orthogonalised

    def is_due(
        self, matrix: np.ndarray, row: np.ndarray, own: float, length: float, norm: float
    ) -> bool:
        """Whether the next vector has to be orthogonalised against all.

        Args:
            matrix: T without the last step's row, (j, j).
            row: T's new row, (j + 1,), whose last entry is not known yet.
            own: α, which is that entry.
            length: β′ before anything is taken out.
            norm: An estimate of ‖A‖.
        """
        count = len(row)
        whole = np.pad(matrix, (0, 1))
        whole[-1], whole[:, -1] = row, row
        whole[-1, -1] = own
        now, before = np.append(self.now, 1.0), np.zeros(count)
        if count > 1:
            before[: count - 1] = np.append(self.before, 1.0)[: count - 1]
        off = float(row[-2]) if count > 1 else 0.0
        self.noise = _ROUNDING * self.epsilon * norm / max(length, self.epsilon * norm, 1e-300)
        following = whole @ now - own * now - off * before
        following = following / max(length, self.epsilon * norm, 1e-300)
        following += np.copysign(self.noise, following)
        following[-1] = self.noise  # taken out explicitly
        self.before, self.now = self.now, following
        if np.abs(following).max() >= math.sqrt(self.epsilon):
            self.pending = max(self.pending, 2)
        return self.always or self.pending > 0

    def follow(self, orthogonalised: bool) -> None:
        """Say whether the vector was orthogonalised against all others."""
        if orthogonalised:
            self.now = np.full(len(self.now), self.noise)
            self.pending = self.pending - 1 if self.pending else 1  # two, one after the other

    def restart(self, count: int) -> None:
        """Begin again with so many vectors, and one that goes on: nothing is known of it."""
        self.now = np.full(count, math.sqrt(self.epsilon))
        self.before = np.zeros(count)
        self.pending = 2
