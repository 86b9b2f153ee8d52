"""Labels in the eigen-directions of a kernel: how soon they are learned, and what chance gives.

With K = Σ_j λ_j v_j v_jᵀ, gradient flow df/dt = −γK(f − Y) decays the labels along v_j in the time
t_j = 1/(γλ_j); the share of the labels in the first j directions is

    Σ_{i ≤ j} ‖v_iᵀY‖² / ‖Y‖²

Shuffled labels Y_π have the alignment tr(Y_πᵀKY_π)/(‖K‖‖YYᵀ‖) that a kernel has with labels that
have nothing to do with its inputs.

Source: arora · ntk-eigen-convergence · §9.3; golikov · label-aware · 2.8.2.
"""

import numpy as np
from jaxtyping import Float

from theorylab.answers import Answer
from theorylab.numerics.intervals import HostArray, generator
from theorylab.typing import RandomKey


class LabelDirections(Answer):
    """When a kernel learns labels, direction by direction, the fastest first.

    Example: a quarter of the labels at once, the rest in a time of 4.
        >>> found = LabelDirections(times=np.array([1.0, 4.0]), held=np.array([0.25, 1.0]))
        >>> found.time_for(0.2), found.time_for(0.9)
        (1.0, 4.0)
    """

    times: Float[HostArray, " n"]  # 1/(γλ_j)
    held: Float[HostArray, " n"]  # share of the labels in this direction and the faster ones

    def directions_for(self, share: float) -> int:
        """How many directions hold a share of the labels."""
        return 1 + min(int(np.searchsorted(self.held, share - 1e-12)), len(self.held) - 1)

    def time_for(self, share: float) -> float:
        """The time of the slowest of these directions."""
        return float(self.times[self.directions_for(share) - 1])


def label_directions(
    kernel: Float[HostArray, "n n"],
    labels: Float[HostArray, "n k"],
    rate: float = 1.0,
    least: float = 0.0,
) -> LabelDirections:
    """Say how soon gradient flow with a kernel learns labels.

    Args:
        kernel: K.
        labels: Y, not all 0.
        rate: γ; for descent of a loss with the second derivative c it is cη, and times are steps.
        least: Eigenvalues below it are rounding; their times are those of this one.

    Example:
        >>> kernel, labels = np.diag([4.0, 1.0]), np.array([[1.0], [1.0]])
        >>> found = label_directions(kernel, labels)
        >>> found.times.tolist(), found.held.round(6).tolist()
        ([0.25, 1.0], [0.5, 1.0])
    """
    values, vectors = np.linalg.eigh(np.asarray(kernel, np.float64))
    shares = ((vectors.T @ np.asarray(labels, np.float64)) ** 2).sum(axis=1)[::-1]
    with np.errstate(divide="ignore"):
        times = 1 / (rate * np.maximum(values[::-1], max(least, 0.0)))
    return LabelDirections(times, np.cumsum(shares) / shares.sum())


def shuffled_alignments(
    kernel: Float[HostArray, "n n"],
    labels: Float[HostArray, "n k"],
    key: RandomKey,
    num_shuffles: int = 1_000,
) -> Float[np.ndarray, " shuffles"]:
    """Alignments tr(Y_πᵀKY_π)/(‖K‖‖YYᵀ‖) of a kernel with labels that are shuffled.

    `target_alignment` has that of the labels as they are.

    Args:
        kernel: K.
        labels: Y.
        key: Draws the shuffles.
        num_shuffles: How many.

    Example: a kernel that knows nothing of its inputs.
        >>> import jax
        >>> labels = np.array([[1.0], [-1.0]])
        >>> shuffled_alignments(np.eye(2), labels, jax.random.key(0), 2).round(4).tolist()
        [0.7071, 0.7071]
    """
    kernel, labels = np.asarray(kernel, np.float64), np.asarray(labels, np.float64)
    rng = generator(key)
    orders = rng.permuted(np.tile(np.arange(len(labels)), (num_shuffles, 1)), axis=1)
    size = np.linalg.norm(kernel) * np.linalg.norm(labels.T @ labels)
    found = (labels[order] for order in orders)
    return np.array([np.vdot(y, kernel @ y) for y in found]) / size
